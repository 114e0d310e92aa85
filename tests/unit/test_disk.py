"""What a file that a user brings is, and what is on it: from its bytes alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import disk
from pipeline.errors import UserError
from tests import disks

HERE = Path("their.img")


def parts(content: bytes) -> dict[str, str]:
    return disk.read_parts(lambda offset, length: content[offset : offset + length])


def test_partitions_are_found_by_either_table() -> None:
    for table in (disks.mbr, disks.gpt):
        assert parts(table("fat", "", "ext")) == {
            "1": "fat",
            "2": "nothing that is known",
            "3": "ext",
        }


def test_btrfs_which_tells_its_name_far_down_is_found() -> None:
    assert parts(disks.gpt("ext", "btrfs")) == {"1": "ext", "2": "btrfs"}


def test_an_extended_partition_is_not_looked_into() -> None:
    assert parts(disks.mbr("xfs", "", kinds=(0x83, 0x05))) == {"1": "xfs", "2": "unknown"}


def test_a_file_system_may_be_on_the_whole_disk() -> None:
    assert parts(disks.bare("ext")) == {"": "ext"}


def test_a_table_cut_short_gives_what_there_is() -> None:
    assert parts(disks.gpt("ext", "xfs")[: 2 * 512 + 128]) == {"1": "nothing that is known"}


def test_the_format_is_told_by_the_content_not_the_name() -> None:
    assert disk.recognise(b"QFI\xfb" + bytes(600), Path("disk.raw")) == "qcow2"
    for raw in (disks.mbr("ext"), disks.gpt("ext"), disks.bare("ext")):
        assert disk.recognise(raw[:65536], Path("disk.qcow2")) == "raw"


@pytest.mark.parametrize(
    ("head", "what", "hint"),
    [
        (b"\x1f\x8b", "packed with gzip", "gunzip -k their.img"),
        (b"\xfd7zXZ\0", "packed with xz", "unxz"),
        (b"KDMV", "a VMDK disk", "qemu-img convert -O qcow2 their.img"),
        (bytes(257) + b"ustar", "a tar archive", "cloud image"),
        (bytes(0x8001) + b"CD001", "a CD image", "cloud image"),
        (b"just some text", "neither qcow2 nor a raw disk", "ktrial list images"),
        (b"", "neither qcow2 nor a raw disk", "ktrial list images"),
    ],
)
def test_anything_else_is_named_with_what_to_do(head: bytes, what: str, hint: str) -> None:
    with pytest.raises(UserError, match=what) as caught:
        disk.recognise(head.ljust(len(head) and 65536, b"\0"), HERE)
    assert hint in caught.value.hint


def test_a_disk_without_a_root_says_what_it_has(tmp_path: Path, scope: object) -> None:
    path = disks.write(tmp_path / "fedora.raw", disks.gpt("fat", "btrfs"))
    with pytest.raises(UserError, match="partition 1: fat, partition 2: btrfs") as caught:
        disk.look(path, scope=scope)  # type: ignore[arg-type]
    assert "ext4" in caught.value.hint


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, scope: object) -> None:
    with pytest.raises(UserError, match="No such file"):
        disk.look(tmp_path / "gone", scope=scope)  # type: ignore[arg-type]
