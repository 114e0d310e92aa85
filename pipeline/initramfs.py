"""Initramfs archives: cpio in the "newc" format, written without being root and without a tool.

Pure: entries in, bytes out. Owners are always root and times always zero, so the same
entries give the same bytes. Format: Documentation/driver-api/early-userspace/buffer-format.rst
in the kernel tree (moved from admin-guide in 5.x), and cpio(5).
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

ALIGNMENT = 512
TRAILER = "TRAILER!!!"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One file of the archive. `path` has no leading slash; `mode` holds the file type too.

    `data` is the content, or the target of a symbolic link; `device` is (major, minor).
    """

    path: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def file(path: str, data: bytes, mode: int = 0o644) -> Entry:
    return Entry(path=_relative(path), mode=stat.S_IFREG | mode, data=data)


def folder(path: str, mode: int = 0o755) -> Entry:
    return Entry(path=_relative(path), mode=stat.S_IFDIR | mode)


def link(path: str, target: str) -> Entry:
    return Entry(path=_relative(path), mode=stat.S_IFLNK | 0o777, data=target.encode())


def character_device(path: str, major: int, minor: int, mode: int = 0o600) -> Entry:
    return Entry(path=_relative(path), mode=stat.S_IFCHR | mode, device=(major, minor))


def archive(entries: Iterable[Entry]) -> bytes:
    """The archive, a multiple of 512 bytes long; missing parent folders are added.

    A later entry of the same path takes the place of an earlier one. The kernel's unpacker
    does not make parents by itself, and needs every archive to begin on a multiple of four.

    Raises:
        ValueError: a path leads through something that is not a folder, or out of the root.
    """
    whole = _with_parents({entry.path: entry for entry in entries})
    parts = [_record(number, entry) for number, entry in enumerate(whole, start=1)]
    parts.append(_record(0, Entry(path=TRAILER, mode=0)))
    data = b"".join(parts)
    return data + bytes(-len(data) % ALIGNMENT)


def _with_parents(entries: dict[str, Entry]) -> list[Entry]:
    """Sorted by path, so that every folder comes before what is in it."""
    whole = dict(entries)
    for path in entries:
        for parent in PurePosixPath(path).parents:
            if str(parent) == ".":
                continue
            there = whole.setdefault(str(parent), folder(str(parent)))
            if not stat.S_ISDIR(there.mode):
                raise ValueError(f"{path}: {parent} is not a folder")
    return [whole[path] for path in sorted(whole, key=lambda path: path.split("/"))]


def _record(number: int, entry: Entry) -> bytes:
    name = entry.path.encode() + b"\0"
    fields = (
        number,
        entry.mode,
        0,  # uid
        0,  # gid
        1,  # links
        0,  # time
        len(entry.data),
        0,  # device that the archive's files lay on
        0,
        *entry.device,
        len(name),
        0,  # checksum, of the "crc" format only
    )
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _aligned(header + name) + _aligned(entry.data)


def _aligned(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _relative(path: str) -> str:
    parts = PurePosixPath(path.lstrip("/")).parts
    if not parts or ".." in parts:
        raise ValueError(f"{path!r} is no path below the root")
    return "/".join(parts)
