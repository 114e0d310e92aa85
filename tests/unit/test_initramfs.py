"""The cpio writer, read back by hand from the bytes."""

from __future__ import annotations

import stat
from dataclasses import dataclass

import pytest

from pipeline import initramfs


@dataclass(frozen=True)
class Member:
    name: str
    mode: int
    owner: tuple[int, int]
    time: int
    device: tuple[int, int]
    data: bytes


def members(archive: bytes) -> list[Member]:
    """Everything before the trailer; fails where a header is not where it should be."""
    found: list[Member] = []
    at = 0
    while True:
        assert at % 4 == 0
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        size, name_size = fields[6], fields[11]
        name = archive[at + 110 : at + 110 + name_size]
        assert name.endswith(b"\0")
        start = at + (110 + name_size + 3) // 4 * 4
        if name == b"TRAILER!!!\0":
            assert not archive[start:].strip(b"\0")
            return found
        found.append(
            Member(
                name[:-1].decode(),
                fields[1],
                (fields[2], fields[3]),
                fields[5],
                (fields[9], fields[10]),
                archive[start : start + size],
            )
        )
        at = start + (size + 3) // 4 * 4


def test_kinds_of_entries() -> None:
    file, link, node, folder = members(
        initramfs.archive(
            [
                initramfs.file("a", b"text", 0o640),
                initramfs.link("b", "a"),
                initramfs.character_device("c", 5, 1),
                initramfs.folder("d", 0o1777),
            ]
        )
    )
    assert (stat.S_ISREG(file.mode), stat.S_IMODE(file.mode), file.data) == (True, 0o640, b"text")
    assert (stat.S_ISLNK(link.mode), link.data) == (True, b"a")
    assert (stat.S_ISCHR(node.mode), node.device) == (True, (5, 1))
    assert (stat.S_ISDIR(folder.mode), stat.S_IMODE(folder.mode)) == (True, 0o1777)
    assert {each.owner for each in (file, link, node, folder)} == {(0, 0)}
    assert {each.time for each in (file, link, node, folder)} == {0}


def test_parents_are_added_and_come_before_what_is_in_them() -> None:
    data = initramfs.archive([initramfs.file("a/b/c", b""), initramfs.file("a.d", b"")])
    names = [member.name for member in members(data)]
    assert names == ["a", "a/b", "a/b/c", "a.d"]


def test_a_parent_given_keeps_its_mode() -> None:
    data = initramfs.archive([initramfs.file("root/x", b""), initramfs.folder("root", 0o700)])
    assert stat.S_IMODE(members(data)[0].mode) == 0o700


def test_a_later_entry_takes_the_place_of_an_earlier_one() -> None:
    data = initramfs.archive([initramfs.file("a", b"old"), initramfs.file("/a", b"new")])
    assert [(member.name, member.data) for member in members(data)] == [("a", b"new")]


@pytest.mark.parametrize("size", range(9))
def test_padding_holds_for_every_length(size: int) -> None:
    data = initramfs.archive(
        [initramfs.file("n" * (size + 1), b"x" * size), initramfs.file("z", b"")]
    )
    assert len(data) % 512 == 0
    assert members(data)[0].data == b"x" * size


def test_same_entries_in_any_order_give_the_same_bytes() -> None:
    entries = [initramfs.file("b/x", b"1"), initramfs.file("a", b"2"), initramfs.folder("c")]
    assert initramfs.archive(entries) == initramfs.archive(reversed(entries))


def test_a_path_through_a_link_is_refused() -> None:
    # The kernel would follow the link or put a folder in its place, depending on the order.
    with pytest.raises(ValueError, match="lib is not a folder"):
        initramfs.archive([initramfs.link("lib", "usr/lib"), initramfs.file("lib/x", b"")])


@pytest.mark.parametrize("path", ["", "/", "../etc/passwd", "a/../../b"])
def test_a_path_out_of_the_root_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="no path below the root"):
        initramfs.file(path, b"")
