"""Kernels that somebody else built, told by their first bytes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline import kernelfile
from pipeline.catalog import Catalog
from pipeline.errors import UserError
from pipeline.settings import PACKAGE, shipped_root

KNOWN = tuple(Catalog(data=PACKAGE / "data", share=(shipped_root(),)).architectures.values())


def bz_image() -> bytes:
    return bytes(0x202) + b"HdrS" + bytes(100)


def arm_image() -> bytes:
    return bytes(0x38) + b"ARM\x64" + bytes(0x300)


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (bz_image(), "x86_64"),
        (arm_image(), "aarch64"),
        (b"\x7fELF".ljust(18, b"\0") + b"\x3e\0" + bytes(100), "x86_64"),
    ],
)
def test_the_architecture_is_told_by_the_content(tmp_path: Path, data: bytes, name: str) -> None:
    found = kernelfile.find(write(tmp_path / "kernel", data), KNOWN)
    assert (found.architecture.name, found.modules) == (name, None)


def test_the_newest_kernel_of_a_build_folder_is_taken_with_its_modules(tmp_path: Path) -> None:
    old = write(tmp_path / "arch/x86/boot/bzImage", bz_image())
    os.utime(old, (1, 1))
    new = write(tmp_path / "arch/arm64/boot/Image", arm_image())
    assert kernelfile.find(tmp_path, KNOWN).image == new
    modules = write(new.parent / "modules.cpio", b"")
    assert kernelfile.find(tmp_path, KNOWN).modules == modules


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"\x1f\x8b" + bytes(600), "packed with gzip"), (b"hello", "none that QEMU boots")],
)
def test_what_does_not_boot_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(UserError, match=words):
        kernelfile.find(write(tmp_path / "Image.gz", data), KNOWN)


def test_a_folder_without_a_kernel_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no built kernel") as caught:
        kernelfile.find(tmp_path, KNOWN)
    assert "arch/x86/boot/bzImage" in caught.value.hint


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        kernelfile.find(tmp_path / "gone", KNOWN)
