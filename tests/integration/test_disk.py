"""Real disks: an ext4 file system made from an archive, qcow2 files read, overlays."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from pipeline import disk
from pipeline.errors import InfraError, UserError
from pipeline.scope import Scope
from tests import disks
from tests.conftest import QuietStep

needs_qemu_img = pytest.mark.skipif(
    shutil.which("qemu-img") is None, reason="there is no qemu-img (qemu-utils)"
)
SBIN = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def tool(*words: str | Path) -> str:
    path = shutil.which(str(words[0]), path=SBIN)
    assert path is not None
    done = subprocess.run(
        [path, *words[1:]], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout


def qcow2(source: Path, *options: str) -> Path:
    target = source.with_suffix(".qcow2")
    tool("qemu-img", "convert", *options, "-f", "raw", "-O", "qcow2", source, target)
    return target


@needs_qemu_img
@pytest.mark.parametrize("options", [(), ("-c",)], ids=["plain", "compressed"])
def test_a_qcow2_is_read_like_the_disk_that_it_holds(
    tmp_path: Path, scope: Scope, options: tuple[str, ...]
) -> None:
    raw = disks.write(tmp_path / "disk.img", disks.gpt("fat", "", "ext"))
    plain = disk.look(raw, scope=scope)
    found = disk.look(qcow2(raw, *options), scope=scope)
    assert (plain.format, found.format) == ("raw", "qcow2")
    assert found.parts == plain.parts == {"1": "fat", "2": "nothing that is known", "3": "ext"}


@needs_qemu_img
def test_a_qcow2_without_a_root_is_refused(tmp_path: Path, scope: Scope) -> None:
    with pytest.raises(UserError, match="partition 1: LUKS"):
        disk.look(qcow2(disks.write(tmp_path / "disk.img", disks.mbr("LUKS"))), scope=scope)


@needs_qemu_img
def test_a_damaged_qcow2_is_refused_with_qemus_words(tmp_path: Path, scope: Scope) -> None:
    path = disks.write(tmp_path / "disk.qcow2", b"QFI\xfb" + bytes(1000))
    with pytest.raises(UserError, match="cannot be read"):
        disk.look(path, scope=scope)


@needs_qemu_img
def test_what_is_written_to_an_overlay_leaves_the_base_alone(tmp_path: Path, scope: Scope) -> None:
    base = disks.write(tmp_path / "disk with a blank,and a comma.img", disks.mbr("ext"))
    before = hashlib.sha256(base.read_bytes()).digest()
    disk.overlay(base, "raw", tmp_path / "overlay", scope=scope)
    tool("qemu-io", "-f", "qcow2", "-c", "write -P 7 0 65536", tmp_path / "overlay")
    assert hashlib.sha256(base.read_bytes()).digest() == before
    with pytest.raises(InfraError, match="an overlay of"):
        disk.overlay(tmp_path / "gone", "raw", tmp_path / "other", scope=scope)


def archive(tmp_path: Path) -> Path:
    """A little system with owners, modes and a link."""
    path = tmp_path / "system.tar"
    with tarfile.open(path, "w") as out:
        for name, kind, mode, owner in (
            ("./dev", tarfile.DIRTYPE, 0o755, 0),
            ("./sbin", tarfile.DIRTYPE, 0o755, 0),
            ("./home", tarfile.DIRTYPE, 0o750, 1000),
            ("./dev/null", tarfile.CHRTYPE, 0o666, 0),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.uid, entry.gid = kind, mode, owner, owner
            out.addfile(entry)
        entry = tarfile.TarInfo("./sbin/init")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/lib/systemd/systemd"
        out.addfile(entry)
    return path


@pytest.mark.skipif(os.geteuid() != 0, reason="owners of a system need root or subordinate ids")
def test_an_ext4_disk_holds_the_archive_with_its_owners(
    tmp_path: Path, scope: Scope, step: QuietStep
) -> None:
    made = tmp_path / "disk.ext4"
    log = tmp_path / "log"
    disk.make_ext4(archive(tmp_path), made, size=64, scope=scope, step=step, log=log)
    assert made.stat().st_size == 64 << 20
    assert made.stat().st_blocks * 512 < 16 << 20
    tool("e2fsck", "-fn", made)
    assert disk.look(made, scope=scope).parts == {"": "ext"}
    assert "User:  1000   Group:  1000" in tool("debugfs", "-R", "stat /home", made)
    assert "/lib/systemd/systemd" in tool("debugfs", "-R", "stat /sbin/init", made)
    assert not (tmp_path / "disk-root").exists()


def test_a_disk_too_small_says_so(tmp_path: Path, scope: Scope, step: QuietStep) -> None:
    path = tmp_path / "big.tar"
    with tarfile.open(path, "w") as out:
        entry = tarfile.TarInfo("./big")
        entry.size = 8 << 20
        with open("/dev/urandom", "rb") as source:
            out.addfile(entry, source)
    with pytest.raises(InfraError, match="making an ext4 disk"):
        disk.make_ext4(
            path, tmp_path / "disk", size=4, scope=scope, step=step, log=tmp_path / "log"
        )
