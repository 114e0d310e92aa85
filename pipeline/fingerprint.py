"""What makes two reports the same one: the kind, the title and the top frames. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

LONGEST_TITLE = 200
_ADDRESS = re.compile(
    r"\b(?:0x[0-9a-f]+|(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8,16}|[0-9a-f]{16})\b"
)
_OFFSET = re.compile(r"(?<=[\w.$])\+0x[0-9a-f]+/0x[0-9a-f]+")
_NUMBER = re.compile(r"(?<![\w.])(?<!\w-)\d+(?!\w)|\d{5,}")


def stable(words: str) -> str:
    """Words of a report without what differs from boot to boot: addresses and numbers."""
    return _NUMBER.sub("NUM", _ADDRESS.sub("ADDR", _OFFSET.sub("", words))).strip()


def title(template: str, groups: dict[str, str]) -> str:
    """`template` with the groups in place; one without a value leaves no gap."""
    filled = " ".join(template.format_map(groups).split())
    return filled.removesuffix(" in").replace(" in /", " in ")[:LONGEST_TITLE] or "unnamed"


def fingerprint(kind: str, name: str, frames: Sequence[str]) -> str:
    """16 hexadecimal digits."""
    words = "\n".join((kind, name, *frames))
    return hashlib.sha256(words.encode()).hexdigest()[:16]
