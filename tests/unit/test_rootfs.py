"""What is taken from unpacked packages, on miniature ones."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from pipeline import initramfs, rootfs
from pipeline.elf import Needs
from pipeline.elf import needs as read_needs
from pipeline.errors import InfraError, UserError
from pipeline.initramfs import Entry
from tests.elves import elf

BUSYBOX = elf() + b"[\0[[\0awk\0echo\0sh\0\0"


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """busybox, a daemon with two layers of libraries, and a linker behind a link."""
    root = tmp_path / "root"
    write(root / "bin/busybox", BUSYBOX)
    write(root / "usr/sbin/daemon", elf("libone.so.1", interpreter="/lib64/ld.so"))
    write(root / "usr/lib/x86_64-linux-gnu/libone.so.1.2", elf("libtwo.so"))
    (root / "usr/lib/x86_64-linux-gnu/libone.so.1").symlink_to("libone.so.1.2")
    write(root / "lib/x86_64-linux-gnu/libtwo.so", elf("ld.so"))
    write(root / "lib/x86_64-linux-gnu/ld-2.so", elf())
    (root / "lib64").mkdir()
    (root / "lib64/ld.so").symlink_to("/lib/x86_64-linux-gnu/ld-2.so")
    write(root / "usr/share/doc/daemon/README", b"read me")
    return root


def gather(
    root: Path,
    *programs: str,
    keep: tuple[str, ...] = (),
    remove: tuple[str, ...] = (),
    overlays: tuple[Path, ...] = (),
) -> dict[str, Entry]:
    found = rootfs.entries(root, programs=programs, keep=keep, remove=remove, overlays=overlays)
    assert initramfs.archive(found)
    return {entry.path: entry for entry in found}


def test_a_program_comes_with_the_libraries_of_its_libraries(root: Path) -> None:
    found = gather(root, "daemon")
    assert found["bin/daemon"].mode == stat.S_IFREG | 0o755
    assert {path for path in found if path.startswith("lib") and ".so" in path} == {
        "lib/libone.so.1",
        "lib/libtwo.so",
        "lib64/ld.so",
    }
    assert found["lib/libone.so.1"].data == elf("libtwo.so")


def test_what_no_program_needs_stays_behind(root: Path) -> None:
    found = gather(root, "sh")
    assert not [path for path in found if ".so" in path or "README" in path]


def test_every_applet_is_a_link_but_for_what_a_package_has_itself(root: Path) -> None:
    write(root / "usr/bin/awk", elf())
    found = gather(root, "busybox", "awk", "sh")
    assert (found["bin/echo"].data, found["bin/sh"].data) == (b"busybox", b"busybox")
    assert found["bin/awk"].data == elf()


def test_an_unknown_program_names_the_nearest(root: Path) -> None:
    with pytest.raises(UserError, match="demon is in none") as caught:
        gather(root, "demon")
    assert "daemon" in caught.value.hint


def test_a_missing_library_names_who_needs_it(root: Path) -> None:
    (root / "lib/x86_64-linux-gnu/libtwo.so").unlink()
    with pytest.raises(InfraError, match=r"libone.so.1.2 needs libtwo.so"):
        gather(root, "daemon")


def test_a_damaged_program_is_named(root: Path) -> None:
    write(root / "usr/bin/cut", elf("libone.so.1")[:100])
    with pytest.raises(InfraError, match=r"cut cannot be read"):
        gather(root, "cut")


def test_links_never_lead_out_of_the_root(root: Path, tmp_path: Path) -> None:
    write(tmp_path / "outside", b"the host's")
    (root / "bin/absolute").symlink_to(tmp_path / "outside")
    (root / "bin/relative").symlink_to("../../outside")
    (root / "bin/loop").symlink_to("loop")
    for name in ("absolute", "relative", "loop"):
        with pytest.raises(UserError):
            gather(root, name)


def test_kept_files_keep_their_place_and_programs_go_to_bin(root: Path) -> None:
    write(root / "usr/bin/tool.py", b"#!/usr/bin/python3\n")
    found = gather(root, "sh", keep=("usr/share/doc/**/*", "usr/bin/*.py"))
    assert found["usr/share/doc/daemon/README"].data == b"read me"
    assert found["bin/tool.py"].data == b"#!/usr/bin/python3\n"


def test_removed_globs_win_over_all(root: Path) -> None:
    found = gather(root, "sh", keep=("usr/share/**/*",), remove=("usr/share/doc/*", "bin/echo"))
    assert "usr/share/doc/daemon/README" not in found
    assert "bin/echo" not in found
    assert "bin/sh" in found


def test_a_later_overlay_wins_and_scripts_may_be_run(root: Path, tmp_path: Path) -> None:
    for name, content in (("common", b"#!/bin/sh\n"), ("own", b"#!/bin/sh\n# own\n")):
        write(tmp_path / name / "init", content)
    write(tmp_path / "common/etc/passwd", b"root:x:0:0::/root:/bin/sh\n")
    found = gather(root, "sh", overlays=(tmp_path / "common", tmp_path / "own"))
    assert found["init"].data == b"#!/bin/sh\n# own\n"
    assert found["init"].mode == stat.S_IFREG | 0o755
    assert found["etc/passwd"].mode == stat.S_IFREG | 0o644


def test_the_console_is_there_before_anything_is_mounted(root: Path) -> None:
    console = gather(root, "sh")["dev/console"]
    assert (stat.S_ISCHR(console.mode), console.device) == (True, (5, 1))


def test_lib_is_a_folder_since_modules_come_in_an_archive_of_their_own(root: Path) -> None:
    assert stat.S_ISDIR(gather(root, "sh")["lib/modules"].mode)


def test_busybox_applets() -> None:
    assert rootfs.busybox_applets(BUSYBOX) == ("[", "[[", "awk", "echo", "sh")
    assert rootfs.busybox_applets(elf()) == ()


def test_a_portable_program_takes_its_own_linker_and_libraries_along(root: Path) -> None:
    found = {entry.path: entry for entry in rootfs.portable(root, "daemon", "k")}
    assert set(found) == {"k/daemon", "k/ld.so", "k/libone.so.1", "k/libtwo.so"}
    # The path of the linker is longer there, so the new one ends at a NUL within it.
    before, after = (root / "usr/sbin/daemon").read_bytes(), found["k/daemon"].data
    assert len(after) == len(before)
    assert read_needs(after) == Needs(interpreter="/k/ld.so", libraries=("libone.so.1",))
    assert found["k/ld.so"].data == (root / "lib/x86_64-linux-gnu/ld-2.so").read_bytes()


def test_a_folder_too_long_for_the_linkers_path_is_refused(root: Path) -> None:
    with pytest.raises(InfraError, match="has no room in daemon"):
        rootfs.portable(root, "daemon", "a/folder/far/down")


def test_a_portable_program_that_is_not_there_is_named(root: Path) -> None:
    with pytest.raises(InfraError, match="demon is in none"):
        rootfs.portable(root, "demon", "k")


def test_a_program_of_our_own_is_taken_before_one_of_the_packages(
    root: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    write(own, b"compiled")
    found = rootfs.entries(
        root,
        programs=("daemon", "echo"),
        keep=(),
        remove=(),
        overlays=(),
        own={"daemon": own, "echo": own},
    )
    entries = {entry.path: entry for entry in found}
    assert entries["bin/daemon"].data == entries["bin/echo"].data == b"compiled"
    assert entries["bin/daemon"].mode == entries["bin/echo"].mode == stat.S_IFREG | 0o755
    assert not [path for path in entries if ".so" in path]
