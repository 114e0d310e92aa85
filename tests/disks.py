"""Disks for tests, made by hand: partition tables and the first bytes of file systems."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

SECTOR = 512
FIRST = 2048  # sector of the first partition
SIZE = 2048  # sectors of each

# Where the magic of a file system stands, from the start of its partition, and the magic.
MAGIC: Mapping[str, tuple[int, bytes]] = {
    "ext": (1080, b"\x53\xef"),
    "xfs": (0, b"XFSB"),
    "btrfs": (0x10040, b"_BHRfS_M"),
    "fat": (54, b"FAT16   "),
    "LUKS": (0, b"LUKS\xba\xbe"),
    "LVM": (512, b"LABELONE"),
}


def put(disk: bytearray, at: int, system: str) -> None:
    offset, magic = MAGIC[system]
    disk[at + offset : at + offset + len(magic)] = magic


def starts(count: int) -> list[int]:
    return [FIRST + number * SIZE for number in range(count)]


def mbr(*systems: str, kinds: Sequence[int] = ()) -> bytes:
    """A disk with up to four primary partitions; "" for one without a file system."""
    disk = bytearray((FIRST + len(systems) * SIZE) * SECTOR)
    disk[510:512] = b"\x55\xaa"
    for number, (system, start) in enumerate(zip(systems, starts(len(systems)), strict=True)):
        kind = kinds[number] if kinds else 0x83
        struct.pack_into("<4xB3xII", disk, 446 + 16 * number, kind, start, SIZE)
        if system:
            put(disk, start * SECTOR, system)
    return bytes(disk)


def gpt(*systems: str) -> bytes:
    """The same with a GUID partition table and its protective MBR; checksums are not read."""
    disk = bytearray((FIRST + len(systems) * SIZE) * SECTOR)
    disk[510:512] = b"\x55\xaa"
    struct.pack_into("<4xB3xII", disk, 446, 0xEE, 1, len(disk) // SECTOR - 1)
    disk[SECTOR : SECTOR + 8] = b"EFI PART"
    struct.pack_into("<QII", disk, SECTOR + 72, 2, 128, 128)
    for number, (system, start) in enumerate(zip(systems, starts(len(systems)), strict=True)):
        entry = 2 * SECTOR + 128 * number
        disk[entry : entry + 16] = b"\x01" * 16
        struct.pack_into("<QQ", disk, entry + 32, start, start + SIZE - 1)
        if system:
            put(disk, start * SECTOR, system)
    return bytes(disk)


def bare(system: str) -> bytes:
    """A file system on the whole disk."""
    disk = bytearray(1 << 18)
    put(disk, 0, system)
    return bytes(disk)


def write(path: Path, disk: bytes) -> Path:
    path.write_bytes(disk)
    return path
