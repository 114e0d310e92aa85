"""Miniature ELF files: enough of one to tell what a program needs, for any architecture."""

from __future__ import annotations

import struct

HEADER, PROGRAM_HEADER = 64, 56


def elf(*libraries: str, interpreter: str = "") -> bytes:
    """A 64-bit little-endian file with PT_LOAD, PT_DYNAMIC and PT_INTERP.

    Its one segment lies at an address that differs from its offset, as in real files.
    """
    base = 0x400000
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in libraries)
    offsets = [strings.index(b"\0" + name.encode() + b"\0") + 1 for name in libraries]
    start = HEADER + 3 * PROGRAM_HEADER
    path = interpreter.encode() + b"\0"
    at_strings = start + len(path)
    at_dynamic = at_strings + len(strings)
    tags = [(1, offset) for offset in offsets] + [(5, base + at_strings), (0, 0)]
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in tags)
    end = at_dynamic + len(dynamic)
    segments = [
        (1, 0, base, end),
        (2, at_dynamic, base + at_dynamic, len(dynamic)),
        (3 if interpreter else 4, start, base + start, len(path)),
    ]
    headers = b"".join(
        struct.pack("<IIQQQQQQ", kind, 4, offset, address, address, size, size, 1)
        for kind, offset, address, size in segments
    )
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, HEADER, 0, 0, 64, 56, 3, 0, 0, 0)
    return header + headers + path + strings + dynamic
