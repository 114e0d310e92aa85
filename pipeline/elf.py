"""What a program needs to be started: its interpreter and its shared libraries.

Reads the bytes of 64-bit little-endian ELF files (x86_64, arm64, riscv64, …) of any of these
machines on any host: nothing is run, as ldd(1) would. Pure. Source: elf(5).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
DT_NULL, DT_NEEDED, DT_STRTAB = 0, 1, 5


@dataclass(frozen=True, kw_only=True)
class Needs:
    """`interpreter`: absolute path, "" for a static program or a library; `libraries`: sonames."""

    interpreter: str = ""
    libraries: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Segment:
    kind: int
    offset: int
    address: int
    size: int


def is_elf(data: bytes) -> bool:
    return data[:4] == b"\x7fELF"


def needs(data: bytes) -> Needs:
    """Read the program headers and the dynamic section of an ELF file.

    Raises:
        ValueError: it is not a 64-bit little-endian ELF file, or it is cut off.
    """
    if not is_elf(data) or data[4:6] != b"\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    try:
        segments = list(_segments(data))
        return Needs(
            interpreter=next((_text(data, s.offset) for s in segments if s.kind == PT_INTERP), ""),
            libraries=tuple(_libraries(data, segments)),
        )
    except (struct.error, StopIteration) as error:
        raise ValueError("the ELF file is damaged") from error


def _segments(data: bytes) -> Iterator[_Segment]:
    (table,) = struct.unpack_from("<Q", data, 0x20)
    size, count = struct.unpack_from("<HH", data, 0x36)
    for index in range(count):
        kind, _, offset, address, _, length = struct.unpack_from(
            "<IIQQQQ", data, table + index * size
        )
        yield _Segment(kind, offset, address, length)


def _libraries(data: bytes, segments: list[_Segment]) -> Iterator[str]:
    dynamic = next((s for s in segments if s.kind == PT_DYNAMIC), None)
    if dynamic is None:
        return
    tags = [
        struct.unpack_from("<QQ", data, dynamic.offset + at) for at in range(0, dynamic.size, 16)
    ]
    if (DT_NULL, 0) in tags:
        tags = tags[: tags.index((DT_NULL, 0))]
    names = [value for tag, value in tags if tag == DT_NEEDED]
    if not names:
        return
    address = next(value for tag, value in tags if tag == DT_STRTAB)
    load = next(
        s for s in segments if s.kind == PT_LOAD and s.address <= address < s.address + s.size
    )
    for name in names:
        yield _text(data, address - load.address + load.offset + name)


def _text(data: bytes, offset: int) -> str:
    end = data.find(b"\0", offset)
    if offset >= len(data) or end < 0:
        raise ValueError("the ELF file is cut off")
    return data[offset:end].decode()
