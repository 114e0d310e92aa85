"""An mbox cut into mails, where its separators are and nowhere else."""

from __future__ import annotations

import codecs
import re

from pipeline.scissors import is_scissors

# As git's mailsplit has it (is_from_line()): a time and a year; prose with "From " has neither.
FROM_LINE = re.compile(rb"^From [^\n]*\d:\d\d(?::\d\d)?[^\n]* (?:19[789]|2\d\d)\d?\b[^\n]*$", re.M)
HEADER = re.compile(rb"(?:[!-9;-~]+:[ \t\r\n]|[!-9;-~]+:\S|>From )")
PUBLIC_INBOX = b"From mboxrd@z "
FORMAT_PATCH = re.compile(rb"^From [0-9a-f]{7,64} Mon Sep 17 00:00:00 2001\r?$")
A_DIFF = re.compile(rb"^@@ -\d", re.M)
ESCAPED = re.compile(rb"^>(>*From )", re.M)


def split(data: bytes) -> tuple[bytes, ...]:
    """The mails in `data`, each with its From line where it has one; none where it is blank.

    What does not start with a From line is one mail, as for git mailsplit. A From line is a
    separator only where a header follows and no scissors line stands before: a patch made
    by format-patch is not escaped, and may lie in the body of a mail.
    """
    data = _unmarked(data)
    if not data.strip():
        return ()
    data = data.lstrip(b"\r\n")
    first = data.split(b"\n", 1)[0]
    starts = [found.start() for found in FROM_LINE.finditer(data)]
    if not FROM_LINE.match(first):
        # One mail, for git. Where a whole patch stands before a separator, files were joined.
        starts = [0, *(start for start in starts if A_DIFF.search(data, 0, start))]
    if first.startswith(PUBLIC_INBOX):
        starts = [start for start in starts if data.startswith(PUBLIC_INBOX, start)]
    starts = [start for start in starts if not start or _separates(data, start)]
    ends = [*starts[1:], len(data)]
    unescape = not FORMAT_PATCH.match(first)
    return tuple(
        ESCAPED.sub(rb"\1", data[start:end]) if unescape else data[start:end]
        for start, end in zip(starts, ends, strict=True)
    )


def _unmarked(data: bytes) -> bytes:
    """Without a byte order mark, in UTF-8: what PowerShell writes with `>` is UTF-16."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return data.decode("utf-16").encode()
        except UnicodeError:
            return data
    return data.removeprefix(codecs.BOM_UTF8)


def _separates(data: bytes, start: int) -> bool:
    line_end = data.find(b"\n", start)
    if line_end < 0 or not HEADER.match(data, line_end + 1):
        return False
    before = data[max(0, start - 400) : start].rstrip().rsplit(b"\n", 1)[-1]
    return not is_scissors(before.decode("latin-1").strip())
