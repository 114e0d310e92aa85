"""Whether a build folder may lie in memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline import limits, ramdisk

GB = 10**9


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    """A list in which the test's folder is a mount of tmpfs."""
    (tmp_path / "shm").mkdir()
    path = tmp_path / "mounts"
    path.write_text(f"/dev/sda1 / ext4 rw 0 0\ntmpfs {tmp_path}/shm tmpfs rw,nosuid 0 0\n")
    return path


@pytest.fixture
def plenty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ramdisk, "_available", lambda: 64 * GB)
    free(monkeypatch, 64 * GB)


def free(monkeypatch: pytest.MonkeyPatch, size: int, flags: int = 0) -> None:
    room = os.statvfs_result((1, 1, size, size, size, 9, 9, 9, flags, 255))
    monkeypatch.setattr("os.statvfs", lambda _: room)


def place(mounts: Path, size: int = 300_000_000) -> Path | None:
    return ramdisk.place(size, shared=mounts.parent / "shm", mounts=mounts)


@pytest.mark.usefixtures("plenty")
def test_folder_is_this_user_s_alone(mounts: Path) -> None:
    found = place(mounts)
    assert found == ramdisk.own(mounts.parent / "shm")
    assert found.stat().st_mode & 0o777 == 0o700
    found.chmod(0o777)
    assert place(mounts) == found
    assert found.stat().st_mode & 0o777 == 0o700


@pytest.mark.usefixtures("plenty")
def test_what_somebody_else_has_put_there_is_not_used(
    mounts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = ramdisk.own(mounts.parent / "shm")
    there.symlink_to(tmp_path)
    assert place(mounts) is None
    there.unlink()
    there.mkdir()
    owner = os.geteuid()
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    theirs = ramdisk.own(mounts.parent / "shm")
    there.rename(theirs)
    assert place(mounts) is None


@pytest.mark.usefixtures("plenty")
def test_where_it_does_not_serve(mounts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert place(mounts, ramdisk.MOST + 1) is None
    free(monkeypatch, 64 * GB, os.ST_NOEXEC)
    assert place(mounts) is None
    free(monkeypatch, 1 * GB)
    assert place(mounts, 1000) is None
    free(monkeypatch, 64 * GB)
    assert place(mounts)
    monkeypatch.setattr(ramdisk, "_available", lambda: 4 * GB)
    assert place(mounts) is None
    mounts.write_text("/dev/sda1 / ext4 rw 0 0\n")
    monkeypatch.setattr(ramdisk, "_available", lambda: 64 * GB)
    assert place(mounts) is None


def test_no_such_place(tmp_path: Path) -> None:
    assert ramdisk.place(1, shared=tmp_path / "none") is None


def test_size_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/one").write_bytes(os.urandom(100_000))
    assert 100_000 <= ramdisk.size_of(tmp_path) <= 130_000


def test_a_build_in_memory_may_write_a_part_of_it_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.limits.total_memory", lambda: 16 * GB)
    free(monkeypatch, 64 * GB)
    monkeypatch.setattr(ramdisk, "is_memory", lambda _: False)
    on_disk = limits.of_host(tmp_path).written
    monkeypatch.setattr(ramdisk, "is_memory", lambda _: True)
    assert on_disk > 60 * GB
    assert limits.of_host(tmp_path).written == 16 * GB // limits.MEMORY_SHARE - limits.GIB
