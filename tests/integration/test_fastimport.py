"""A tarball imported by the real git."""

from __future__ import annotations

import io
import lzma
import tarfile
import threading
from pathlib import Path

import pytest

from pipeline.errors import Cancelled, InfraError
from pipeline.fastimport import import_tarball
from pipeline.repository import Git, create
from pipeline.scope import Scope


@pytest.fixture
def repository(tmp_path: Path, scope: Scope) -> Path:
    folder = tmp_path / "repository.git"
    folder.mkdir()
    create(folder, scope=scope)
    return folder


@pytest.fixture
def tarball(tmp_path: Path) -> Path:
    path = tmp_path / "linux-source.tar.xz"
    with tarfile.open(path, "w:xz") as tar:
        for name, mode, content in (
            (".gitignore", 0o644, b"/*\n"),
            ("Makefile", 0o644, b"VERSION = 5\n"),
            ("scripts/run.sh", 0o755, b"#!/bin/sh\n"),
            ("empty", 0o644, b""),
            ('odd "na\tme', 0o644, "ä".encode()),
        ):
            member = tarfile.TarInfo(f"./linux-source/{name}")
            member.mode, member.size = mode, len(content)
            tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("./linux-source/link")
        link.type, link.linkname = tarfile.SYMTYPE, "Makefile"
        tar.addfile(link)
    return path


def run(tarball: Path, repository: Path, scope: Scope) -> str:
    return import_tarball(
        tarball, repository, message="linux-source 5.10-1\n", scope=scope, note=lambda _: None
    )


def test_everything_is_there_whatever_gitignore_says(
    tarball: Path, repository: Path, scope: Scope
) -> None:
    commit = run(tarball, repository, scope)
    at = Git(git_dir=repository, scope=scope)
    listed = at.output("ls-tree", "-r", "-z", commit).decode().split("\0")[:-1]
    assert [f"{line[:6]} {line.partition(chr(9))[2]}" for line in listed] == [
        "100644 .gitignore",
        "100644 Makefile",
        "100644 empty",
        "120000 link",
        '100644 odd "na\tme',
        "100755 scripts/run.sh",
    ]
    assert at.text("rev-parse", "HEAD") == commit
    assert len(list(repository.glob("objects/pack/*.pack"))) == 1
    assert at.run("fsck", "--strict").ok


def test_the_same_tarball_gives_the_same_commit(
    tarball: Path, repository: Path, tmp_path: Path, scope: Scope
) -> None:
    other = tmp_path / "other.git"
    other.mkdir()
    create(other, scope=scope)
    assert run(tarball, repository, scope) == run(tarball, other, scope)


def test_a_damaged_tarball(tarball: Path, repository: Path, scope: Scope) -> None:
    whole = tarball.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"junk", lzma.compress(b"no tar")):
        tarball.write_bytes(damaged)
        with pytest.raises(InfraError, match="damaged"):
            run(tarball, repository, scope)


def test_cancelled(tarball: Path, repository: Path) -> None:
    scope = Scope()
    scope.cancel()
    before = threading.active_count()
    with pytest.raises(Cancelled):
        run(tarball, repository, scope)
    assert threading.active_count() == before
