"""Keys of images, what a boot's initramfs is put together from, and the shipped recipes."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from pathlib import Path

import pytest

from pipeline import image, initramfs
from pipeline.catalog import Catalog
from pipeline.errors import UserError
from pipeline.image import GuestFile
from pipeline.model import Image, ImageRecipe
from pipeline.settings import PACKAGE, shipped_root

CATALOG = Catalog(data=PACKAGE / "data", share=(shipped_root(),))
X86, ARM = CATALOG.architecture("x86_64"), CATALOG.architecture("aarch64")


def recipe(folder: Path, **changes: object) -> ImageRecipe:
    plain = ImageRecipe(
        name="mine",
        description="",
        folder=folder,
        suite="bookworm",
        packages=("busybox-static",),
        programs=("sh",),
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    init = tmp_path / "mine" / "overlay" / "init"
    init.parent.mkdir(parents=True)
    init.write_text("#!/bin/sh\n")
    return init.parent


def test_the_key_changes_with_all_that_makes_the_image(overlay: Path) -> None:
    plain = recipe(overlay.parent)
    seen = {image.image_key(plain, X86, (overlay,)), image.image_key(plain, ARM, (overlay,))}
    for changes in (
        {"suite": "trixie"},
        {"packages": ("busybox-static", "rt-tests")},
        {"programs": ("sh", "awk")},
        {"keep": ("sh",)},
        {"remove": ("sh",)},
    ):
        seen.add(image.image_key(recipe(overlay.parent, **changes), X86, (overlay,)))
    (overlay / "init").write_text("#!/bin/sh\n# changed\n")
    seen.add(image.image_key(plain, X86, (overlay,)))
    (overlay / "init").rename(overlay / "other")
    seen.add(image.image_key(plain, X86, (overlay,)))
    assert len(seen) == 9


def test_the_key_is_the_same_elsewhere_and_under_another_description(
    overlay: Path, tmp_path: Path
) -> None:
    shutil.copytree(overlay.parent, tmp_path / "copy")
    there = recipe(tmp_path / "copy", description="other words")
    assert image.image_key(recipe(overlay.parent), X86, (overlay,)) == image.image_key(
        there, X86, (tmp_path / "copy" / "overlay",)
    )


def test_compose_puts_archives_one_after_the_other_on_whole_blocks(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"image")
    (tmp_path / "modules").write_bytes(b"modules")
    made = Image(name="", architecture="", key="", path=tmp_path / "image", seconds=0, how="cached")
    image.compose(
        made,
        modules=tmp_path / "modules",
        files={"/ktrial/run.sh": GuestFile(data=b"true\n", mode=0o755)},
        target=tmp_path / "initrd",
    )
    own = initramfs.archive([initramfs.file("ktrial/run.sh", b"true\n", 0o755)])
    padded = b"image".ljust(512, b"\0") + b"modules".ljust(512, b"\0")
    assert (tmp_path / "initrd").read_bytes() == padded + own


def test_an_unknown_overlay_is_named(tmp_path: Path, scope: object, step: object) -> None:
    with pytest.raises(UserError, match="no overlay nowhere"):
        image.build_image(
            recipe(tmp_path / "mine", overlays=("nowhere",)),
            X86,
            cache=tmp_path,
            scope=scope,  # type: ignore[arg-type]
            step=step,  # type: ignore[arg-type]
        )


@pytest.mark.parametrize("name", sorted(CATALOG.images))
def test_a_shipped_recipe_has_an_init_and_a_server(name: str) -> None:
    shipped = CATALOG.images[name]
    assert "common" in shipped.overlays
    assert {"busybox", "dropbear", "sh", "poweroff"} <= set(shipped.programs)
    assert len(set(shipped.programs)) == len(shipped.programs)


@pytest.mark.parametrize(
    "script", [shipped_root() / "vm_images/common/overlay/init", image.HOOK], ids=lambda p: p.name
)
def test_the_scripts_are_valid_sh(script: Path) -> None:
    checked = subprocess.run(
        ["sh", "-n", script], check=False, capture_output=True, text=True, timeout=10
    )
    assert (checked.returncode, checked.stderr) == (0, "")
