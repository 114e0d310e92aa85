"""Text of a guest or a compiler made fit for a report: no escapes, no controls, not too long."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
# Marks that turn the direction of what is around them, or show nothing at all.
_TURNING = re.compile("[\u061c\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_ILLEGAL = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\x7f-\x84\x86-\x9f]")


def clean(text: str) -> str:
    """`text` without escape sequences; what XML 1.0 cannot hold, and marks that change the
    direction in which it reads, are shown as escapes."""
    plain = _ANSI.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    plain = _TURNING.sub(lambda match: f"\\u{ord(match[0]):04x}", plain)
    return _ILLEGAL.sub(lambda match: f"\\x{ord(match[0]):02x}", plain)


def cut(text: str, limit: int, *, where: str = "") -> str:
    """`text` in at most about `limit` characters: its head, its tail, and how much went."""
    if len(text) <= limit:
        return text
    half = limit // 2
    seen = f"; all of it is in {where}" if where else ""
    gone = f"[… {len(text) - 2 * half} characters cut{seen} …]"
    return f"{text[:half]}\n{gone}\n{text[-half:]}"


def some(names: Sequence[str], most: int) -> str:
    """The first few names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
