"""Root disks: an ext4 file system made from an archive, and disks that users bring, looked at.

Nobody need be root and nothing is mounted: mke2fs fills a file system by itself (`-d`), and
partition tables are read here. A disk that somebody brings is only ever opened for reading.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline import process
from pipeline.errors import InfraError, UserError
from pipeline.progress import Step
from pipeline.scope import Scope

SECTOR = 512
FILE_BYTES = 1 << 16  # of a file, to tell what it is
HEAD_BYTES = 9 * SECTOR  # of a disk or partition, to tell what is on it
HEXDUMP = re.compile(r"^[0-9a-f]{8,}:  ((?:[0-9a-f]{2} ){1,16})", re.M)
EXTENDED = (0x05, 0x0F, 0x85)  # MBR types of a partition that holds others
WORKING = "ext4, ext3, ext2"

# What a file begins with that is neither qcow2 nor raw, and how it becomes one of them.
CONVERT = "qemu-img convert -O qcow2 {path} disk.qcow2"
OTHERS: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"\x1f\x8b", "packed with gzip", "gunzip -k {path}"),
    (0, b"\xfd7zXZ\0", "packed with xz", "unxz -k {path}"),
    (0, b"\x28\xb5\x2f\xfd", "packed with zstd", "unzstd {path}"),
    (0, b"BZh", "packed with bzip2", "bunzip2 -k {path}"),
    (0, b"PK\x03\x04", "a zip archive", "unzip {path}"),
    (0, b"KDMV", "a VMDK disk", CONVERT),
    (0, b"vhdxfile", "a VHDX disk", CONVERT),
    (0, b"conectix", "a VHD disk", CONVERT),
    (64, b"\x7f\x10\xda\xbe", "a VDI disk", CONVERT),
    (0, b"QED\0", "a QED disk", CONVERT),
    (257, b"ustar", "a tar archive", "give a disk: a cloud image as qcow2 or raw, say"),
    (0x8001, b"CD001", "a CD image", "give a disk: a cloud image as qcow2 or raw, say"),
)
FILE_SYSTEMS: tuple[tuple[int, bytes, str], ...] = (
    (1080, b"\x53\xef", "ext"),
    (0, b"XFSB", "xfs"),
    (0, b"LUKS\xba\xbe", "LUKS"),
    (512, b"LABELONE", "LVM"),
    (0, b"hsqs", "squashfs"),
    (4086, b"SWAPSPACE2", "swap"),
    (54, b"FAT", "fat"),
    (82, b"FAT", "fat"),
    (1024, b"\x10\x20\xf5\xf2", "f2fs"),
)
BTRFS = (0x10040, b"_BHRfS_M")

Read = Callable[[int, int], bytes]


@dataclass(frozen=True, kw_only=True)
class Disk:
    """A disk as it was found. `format`: "qcow2" or "raw"; `parts`: file systems by partition
    ("1": "ext"), or that of the whole disk under ""."""

    path: Path
    format: str
    parts: dict[str, str]


def look(path: Path, *, scope: Scope) -> Disk:
    """What a file that a user brings is, told by its content.

    Raises:
        UserError: it cannot be read, is no disk, or has no file system to boot from.
        InfraError: qemu-io, which reads qcow2, is not there.
    """
    try:
        with path.open("rb") as source:
            head = source.read(FILE_BYTES)
    except OSError as error:
        raise UserError(
            f"image {path}: {error.strerror}", hint="give a qcow2 or raw disk"
        ) from error
    form = recognise(head, path)
    read = _raw(path) if form == "raw" else _qcow2(path, scope)
    found = Disk(path=path, format=form, parts=read_parts(read))
    _check(found)
    return found


def recognise(head: bytes, path: Path) -> str:
    """ "qcow2" or "raw", from the first bytes; UserError for anything else."""
    if head[:4] == b"QFI\xfb":
        return "qcow2"
    for offset, magic, what, hint in OTHERS:
        if head[offset : offset + len(magic)] == magic:
            raise UserError(f"image {path} is {what}", hint=hint.format(path=path))
    if head[510:512] != b"\x55\xaa" and _file_system(head) == "":
        raise UserError(
            f"image {path} is neither qcow2 nor a raw disk: no partition table, no file system",
            hint="give a disk: a cloud image, say; `ktrial list images` shows ktrial's own",
        )
    return "raw"


def _check(found: Disk) -> None:
    kinds = found.parts
    if "ext" in kinds.values() or "unknown" in kinds.values():
        return
    words = ", ".join(
        f"{f'partition {name}' if name else 'the disk'}: {kind}" for name, kind in kinds.items()
    )
    raise UserError(
        f"image {found.path} has no file system that ktrial can boot ({words or 'it is empty'})",
        hint=f"the root must be {WORKING}, on a partition or the whole disk",
    )


# --------------------------------------------------------------------------- partitions


def read_parts(read: Read) -> dict[str, str]:
    """The file systems of a disk; "unknown" stands for what is not looked into. `read`: OFFSET,
    LENGTH in bytes to content, short at the end."""
    head = read(0, HEAD_BYTES)
    whole = _file_system(head)
    if whole == "ext" or head[510:512] != b"\x55\xaa":
        return {"": whole or "nothing that is known"}
    table = _gpt(read) if head[SECTOR : SECTOR + 8] == b"EFI PART" else _mbr(head)
    found = {}
    for name, start in table:
        if start == 0:
            found[name] = "unknown"
            continue
        found[name] = _file_system(read(start * SECTOR, HEAD_BYTES)) or "nothing that is known"
        if read(start * SECTOR + BTRFS[0], len(BTRFS[1])) == BTRFS[1]:
            found[name] = "btrfs"
    return found


def _file_system(head: bytes) -> str:
    for offset, magic, name in FILE_SYSTEMS:
        if head[offset : offset + len(magic)] == magic:
            return name
    return ""


def _gpt(read: Read) -> Iterator[tuple[str, int]]:
    """Number and first sector of each partition; UEFI specification 2.10, 5.3."""
    at, count, size = struct.unpack_from("<QII", read(SECTOR, SECTOR), 72)
    count, size = min(count, 128), max(128, min(size, 4096))
    entries = read(at * SECTOR, count * size)
    for number in range(len(entries) // size):
        entry = entries[number * size : (number + 1) * size]
        if any(entry[:16]):
            yield str(number + 1), struct.unpack_from("<Q", entry, 32)[0]


def _mbr(head: bytes) -> Iterator[tuple[str, int]]:
    """The four primary ones; 0 for the start of an extended one, which is not looked into."""
    for number in range(4):
        kind, start = struct.unpack_from("<4xB3xI4x", head, 446 + 16 * number)
        if kind:
            yield str(number + 1), 0 if kind in EXTENDED else start


def _raw(path: Path) -> Read:
    def read(offset: int, length: int) -> bytes:
        with path.open("rb") as source:
            source.seek(offset)
            return source.read(length)

    return read


def _qcow2(path: Path, scope: Scope) -> Read:
    """By qemu-io: `qemu-img dd` of QEMU 7.2 takes its `count` from the start of the disk."""
    if shutil.which("qemu-io") is None:
        raise InfraError("qemu-io is not there", hint="apt-get install qemu-utils")

    def read(offset: int, length: int) -> bytes:
        # -U: another guest may have it open as the base of its own overlay.
        words = ["qemu-io", "-r", "-U", "-f", "qcow2", "-c", f"read -v {offset} {length}"]
        done = process.run([*words, path], scope=scope)
        if not done.ok and "read failed" not in done.text:
            last = (done.text.strip().splitlines() or ["qemu-io failed"])[-1]
            raise UserError(
                f"image {path} cannot be read: {last}", hint="`qemu-img check` tells more"
            )
        return bytes.fromhex("".join(HEXDUMP.findall(done.text)))

    return read


# --------------------------------------------------------------------------- making one


def overlay(base: Path, base_format: str, target: Path, *, scope: Scope) -> None:
    """A qcow2 file `target` that a guest may write, over a base that stays as it is.

    Raises:
        InfraError: qemu-img is not there, or failed.
    """
    if shutil.which("qemu-img") is None:
        raise InfraError("qemu-img is not there", hint="apt-get install qemu-utils")
    words = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(base), "-F", base_format]
    process.check(process.run([*words, target], scope=scope), f"an overlay of {base}")


def make_ext4(
    archive: Path, target: Path, *, size: int, scope: Scope, step: Step, log: Path
) -> None:
    """Write a file of `size` MiB, sparse, with an ext4 file system that holds the tar `archive`.

    The owners in the archive are kept: an ordinary user unpacks it in a user namespace.

    Raises:
        InfraError: tar or mke2fs failed.
    """
    step.note("making the disk")
    mke2fs = shutil.which("mke2fs", path=f"{os.defpath}:/usr/sbin:/sbin")
    if mke2fs is None:
        raise InfraError("mke2fs is not there", hint="apt-get install e2fsprogs")
    target.touch()
    os.truncate(target, size << 20)
    folder = target.with_name("disk-root")
    folder.mkdir()
    # mke2fs takes an archive itself from 1.47.1 on, where it was built with libarchive. Device
    # nodes are not needed (devtmpfs), and an ordinary user cannot make them.
    script = (
        'tar -xpf "$1" -C "$2" --numeric-owner --exclude="./dev/*" && '
        '"$4" -q -F -t ext4 -m 0 -L ktrial -d "$2" "$3"; status=$?; rm -rf "$2"; exit $status'
    )
    inside = [] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--map-auto"]
    done = process.run(
        [*inside, "sh", "-c", script, "sh", archive, folder, target, mke2fs], scope=scope, log=log
    )
    process.check(done, "making an ext4 disk", hint=f"see {log}")
