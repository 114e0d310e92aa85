"""Subject lines: what the brackets in front say, and the title that git am keeps.

Where git and people differ (a missing bracket, a version glued to the word, a counter without
the word PATCH), it is read as people mean it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

REPLY = re.compile(
    r"^\s*(?:re|aw|antw|antwort|sv|vs|odp|rif|ref|res|fwd?|wg|tr|回复|答复|回覆|转发|ответ)"
    r"(?:\[\d+\]|\^\d+)?\s*[::]\s*",
    re.I,
)
# Words of other languages that mean more than that: only in front of a bracket.
REPLY_HERE = re.compile(
    r"^\s*(?:ynt|ilt|vá|továbbítás|tovabbitas|αντ|απ|σχετ|πρθ|rv|rép|enc|doorst|bls|trs|atb|"
    r"r|i|vb|vl|yl|ts|fs|pd|na)\s*[::]\s*(?=\[)",
    re.I,
)
# What a company's gateway puts in front: "EXTERNAL: [PATCH …", "*** SPAM *** [PATCH …".
GATEWAY = re.compile(
    r"^[{(<*!\s]*(?:external(?:\s+(?:e-?mail|sender))?|extern|ext|(?:suspected\s+)?spam|caution|"
    r"warning|bulk|untrusted)[})>*!\s]*[:-]?\s*(?=\[[^\]]*(?:\bpatch|\d/\d))",
    re.I,
)
COUNTER = re.compile(r"(?<![\w./-])(\d{1,4})\s?(?:/|of)\s?(\d{1,4})(?![\w./-])", re.I)
VERSION = re.compile(
    r"^[-#]?(?:(?:patch|rfc|rft|resend)[-_]?)?v(\d{1,3})(?:\.(\d{1,3}))?(?:[-_](?:resend|rfc|rft))?$",
    re.I,
)
MOST_MINOR = 4
"""A series is sent as v4.1, perhaps as v4.2; v5.9 is a kernel."""
A_KERNEL_FOLLOWS = {"for", "linux", "kernel", "stable", "to", "on"}
"""Words before a version of the kernel: "[PATCH for v5.9]"."""
LONGTERM = {"4.4", "4.9", "5.4", "6.1", "6.6"}
"""Stable kernels that patches are marked for as "v5.4"; any other v4.1 is what came after v4."""
WORD = re.compile(r"^patch(?:es|set)?(?:$|[-_]?v?\d)", re.I)
WEAK = {"rfc", "rft", "resend", "repost", "rebased"}
PULL = {"pull", "bug", "regression", "announce", "syzbot", "report"}
# "[PATCH v2 1/3 title", "PATCH v2 1/3] title", "PATCH 1/3: title"
UNCLOSED = re.compile(
    r"^\[?\s*(?P<inside>(?:(?:rfc|resend|rft)[\s,/]+)*patch(?:[-_]?v\d+)?\b"
    r"(?:[\s,]+(?:v\d+(?:\.\d+)?|rfc|resend|rft|\d+/\d+|(?:[a-z]+-(?:next|fixes)|bpf|net|mm)(?!:))\b)*)"
    r"\s*(?P<end>\]|:|\s)\s*",
    re.I,
)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """`number` and `total` are 0 where it is not numbered.

    `version`: (3, 0) for v3, (4, 1) for v4.1, (1, 0) where none is given (`versioned` False).
    `marked`: it says that it is a patch; `hinted`: it says RFC or the like and no more;
    `barred`: a pull request or a report by its own word. `unclosed`: a bracket is missing.
    """

    title: str
    version: tuple[int, int] = (1, 0)
    versioned: bool = False
    number: int = 0
    total: int = 0
    reply: bool = False
    marked: bool = False
    hinted: bool = False
    barred: bool = False
    unclosed: bool = False


def parse(subject: str) -> Subject:
    """Read a decoded subject; folding and runs of spaces do not matter."""
    rest = " ".join(subject.split())
    reply, inside, rest, unclosed = _prefixes(rest)
    words = [word for word in re.split(r"[\s,;:()]+", inside) if word]
    counter = COUNTER.search(re.sub(r"[,;:()]", " ", inside))
    version = _version(words)
    short = {part.lower() for word in words for part in word.split("/")}
    return Subject(
        title=_title(rest),
        version=version or (1, 0),
        versioned=version is not None,
        number=int(counter[1]) if counter else 0,
        total=int(counter[2]) if counter else 0,
        reply=reply,
        marked=bool(counter or version or any(WORD.match(part) for part in short)),
        hinted=bool(short & WEAK),
        barred=bool(short & PULL),
        unclosed=unclosed,
    )


def _prefixes(text: str) -> tuple[bool, str, str, bool]:
    """Whether it is a reply, what stands in its brackets, what follows, and a lost bracket."""
    reply, inside = False, ""
    while True:
        if found := REPLY.match(text):
            # "[list] Re: [PATCH] x" is a reply, "[PATCH] Re: x" is a patch.
            reply = reply or not any(WORD.match(word) for word in inside.split())
            text = text[found.end() :]
        elif found := REPLY_HERE.match(text):
            reply, text = True, text[found.end() :]
        elif found := GATEWAY.match(text):
            text = text[found.end() :]
        elif text.startswith("[") and (end := _closing(text)):
            inside += " " + text[1:end].replace("[", " ").replace("]", " ")
            text = text[end + 1 :].lstrip(" :")
        else:
            break
    if not COUNTER.search(inside) and (found := UNCLOSED.match(text)):
        if found["end"] == " " and not text.startswith("[") and not COUNTER.search(found["inside"]):
            return reply, inside, text, False  # "patch the table": a title
        return reply, f"{inside} {found['inside']}", text[found.end() :], True
    return reply, inside, text, False


def _closing(text: str) -> int:
    """Where the bracket that starts `text` is closed, 0 where it is not."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if not depth:
            return at
    return 0


def _version(words: list[str]) -> tuple[int, int] | None:
    flat = [part for word in words for part in word.split("/")]
    for before, word in zip(["", *flat], flat, strict=False):
        found = VERSION.match(word)
        if not found:
            continue
        minor = found[2] or "0"
        is_kernel = (
            int(minor) > MOST_MINOR or before.lower() in A_KERNEL_FOLLOWS or "stable" in flat
        )
        if found[2] and (is_kernel or f"{found[1]}.{minor}" in LONGTERM):
            continue
        return int(found[1]), int(minor)
    return None


def _title(text: str) -> str:
    """As cleanup_subject() in git's mailinfo.c leaves it (without -k and -b)."""
    while True:
        if text[:3].lower() == "re:":
            text = text[3:]
        elif text[:1] in {" ", "\t", ":"}:
            text = text[1:]
        elif text.startswith("[") and "]" in text:
            text = text[text.index("]") + 1 :]
        else:
            return text.strip()
