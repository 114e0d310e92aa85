"""Real images from the Debian mirror, for this and for a foreign architecture.

Needs the network. One cache for all of them: what is asked of it is part of the test.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import bootstrap, image
from pipeline.catalog import Catalog
from pipeline.errors import Cancelled, InfraError
from pipeline.model import Image, ImageRecipe
from pipeline.scope import Scope
from pipeline.settings import PACKAGE, shipped_root
from tests.conftest import QuietStep

CATALOG = Catalog(data=PACKAGE / "data", share=(shipped_root(),))
ELF_MACHINES = {"x86_64": 62, "aarch64": 183}
NOBODY = 65534


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def build(
    cache: Path, architecture: str = "x86_64", recipe: ImageRecipe = CATALOG.images["minimal"]
) -> Image:
    return image.build_image(
        recipe,
        CATALOG.architecture(architecture),
        cache=cache,
        scope=Scope(120),
        step=QuietStep(),
    )


def own_recipe(folder: Path, name: str, *packages: str) -> ImageRecipe:
    return ImageRecipe(
        name=name,
        description="",
        folder=folder,
        suite="bookworm",
        packages=packages,
        programs=("sh",),
    )


def unpacked(made: Image, folder: Path) -> Path:
    """Unpacked by cpio(1), a reader that is not ours; device nodes only where root."""
    folder.mkdir()
    kinds = [] if os.geteuid() == 0 else ["--nonmatching", "dev/*"]
    with made.path.open("rb") as archive:
        subprocess.run(
            ["cpio", "--extract", "--quiet", "--no-absolute-filenames", *kinds],
            stdin=archive,
            cwd=folder,
            check=True,
            timeout=300,
        )
    return folder


@pytest.mark.parametrize("architecture", sorted(ELF_MACHINES))
def test_an_image_is_whole_and_of_its_architecture(
    cache: Path, tmp_path: Path, architecture: str
) -> None:
    made = build(cache, architecture)
    root = unpacked(made, tmp_path / "root")
    assert os.access(root / "init", os.X_OK)
    assert (root / "bin/sh").readlink() == Path("busybox")
    assert (root / "etc/fstab").is_file()
    for program in ("busybox", "dropbear"):
        (machine,) = struct.unpack_from("<H", (root / "bin" / program).read_bytes(), 18)
        assert machine == ELF_MACHINES[architecture]
    assert (root / "lib/libc.so.6").is_file()
    # Unpacking costs the guest time in every boot.
    assert made.path.stat().st_size < 10 << 20


def test_a_second_time_it_comes_from_the_cache(cache: Path) -> None:
    first, second = build(cache), build(cache)
    assert second.how == "cached"
    assert second.path == first.path


def test_another_image_downloads_nothing_again_and_nothing_is_left_over(
    cache: Path, tmp_path: Path
) -> None:
    before = build(cache)
    archives = cache / "apt/var/cache/apt/archives"
    packages = {path.name: path.stat().st_ino for path in archives.glob("*.deb")}
    assert any(name.startswith("busybox-static") for name in packages)
    own = own_recipe(tmp_path, "own", *CATALOG.images["minimal"].packages)
    made = build(cache, recipe=own)
    assert made.how == "built"
    # A file that apt had fetched anew would be another inode.
    assert {path.name: path.stat().st_ino for path in archives.glob("*.deb")} == packages
    assert not list((cache / "images").glob(".making-*"))
    assert {path.name for path in made.path.parent.iterdir()} == {
        "apt.conf",
        "initramfs.cpio",
        "initramfs.sha256",
        "mmdebstrap.log",
    }
    assert before.path.exists()


def test_a_package_that_is_not_there_is_named_with_the_log(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(InfraError, match="no-such-package") as caught:
        build(cache, recipe=own_recipe(tmp_path, "wrong", "no-such-package"))
    assert "mmdebstrap.log" in caught.value.hint
    assert not list((cache / "images").glob("wrong-*"))
    assert not list((cache / "images").glob(".making-*"))


def test_cancelled_it_ends_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    scope = Scope(120)
    step = QuietStep()

    def cancel_when_it_downloads() -> None:
        deadline = time.monotonic() + 60
        while not any("apt-get" in note for note in step.notes) and time.monotonic() < deadline:
            time.sleep(0.02)
        scope.cancel()

    thread = threading.Thread(target=cancel_when_it_downloads)
    thread.start()
    with pytest.raises(Cancelled):
        image.build_image(
            CATALOG.images["minimal"],
            CATALOG.architecture("x86_64"),
            cache=tmp_path,
            scope=scope,
            step=step,
        )
    thread.join()
    assert list((tmp_path / "images").iterdir()) == []


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that nobody owns; pytest's own can only be entered by who runs the tests."""
    folder = Path(tempfile.mkdtemp(prefix="ktrial-test-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def build_as_nobody(cache: Path) -> None:
    if os.geteuid() == 0 and all(path.stat().st_mode & 0o001 for path in bootstrap.HOOK.parents):
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    build(cache)


def test_another_user_with_another_cache_makes_the_same_bytes(
    cache: Path, open_folder: Path
) -> None:
    process = multiprocessing.get_context("fork").Process(
        target=build_as_nobody, args=[open_folder]
    )
    process.start()
    process.join(120)
    assert process.exitcode == 0
    (made,) = open_folder.glob("images/minimal-*/initramfs.cpio")
    assert made.read_bytes() == build(cache).path.read_bytes()
