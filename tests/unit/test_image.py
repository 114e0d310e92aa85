"""Keys of images, what a boot's initramfs is put together from, and the shipped recipes."""

from __future__ import annotations

import dataclasses
import hashlib
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from pipeline import bootstrap, image, initramfs
from pipeline.catalog import Catalog
from pipeline.errors import UserError
from pipeline.image import GuestFile, UserImage
from pipeline.model import Image, ImageRecipe
from pipeline.scope import Scope
from pipeline.settings import PACKAGE, shipped_root
from tests.conftest import QuietStep

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
    (tmp_path / "programs").write_bytes(b"programs")
    made = Image(name="", architecture="", key="", path=tmp_path / "image", seconds=0, how="cached")
    image.compose(
        made,
        modules=tmp_path / "modules",
        programs=tmp_path / "programs",
        files={"/ktrial/run.sh": GuestFile(data=b"true\n", mode=0o755)},
        target=tmp_path / "initrd",
    )
    own = initramfs.archive([initramfs.file("ktrial/run.sh", b"true\n", 0o755)])
    padded = b"".join(each.ljust(512, b"\0") for each in (b"image", b"modules", b"programs"))
    assert (tmp_path / "initrd").read_bytes() == padded + own


def test_an_unknown_overlay_is_named(tmp_path: Path, scope: Scope, step: QuietStep) -> None:
    with pytest.raises(UserError, match="no overlay nowhere"):
        image.build_image(
            recipe(tmp_path / "mine", overlays=("nowhere",)),
            X86,
            cache=tmp_path,
            scope=scope,
            step=step,
        )


INITRAMFS = sorted(name for name, each in CATALOG.images.items() if each.kind == "initramfs")


@pytest.mark.parametrize("name", INITRAMFS)
def test_a_shipped_recipe_has_an_init_and_a_server(name: str) -> None:
    shipped = CATALOG.images[name]
    assert "common" in shipped.overlays
    assert {"busybox", "dropbear", "sh", "poweroff"} <= set(shipped.programs)
    assert len(set(shipped.programs)) == len(shipped.programs)


def test_the_shipped_disk_has_what_bench_has_beside_busybox() -> None:
    debian, bench = CATALOG.images["debian"], CATALOG.images["bench"]
    assert debian.kind == "disk"
    # `usleep` and `time` (the program) are in none of Debian's small packages.
    assert set(bench.programs) - set(debian.programs) == {"busybox", "dropbear", "time", "usleep"}


SCRIPTS = (
    shipped_root() / "vm_images/common/overlay/init",
    shipped_root() / "vm_images/handover/overlay/init",
    shipped_root() / "vm_images/handover/overlay/ktrial/started",
    bootstrap.HOOK,
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: "-".join(path.parts[-3:]))
def test_the_scripts_are_valid_sh(script: Path) -> None:
    checked = subprocess.run(
        ["sh", "-n", script], check=False, capture_output=True, text=True, timeout=10
    )
    assert (checked.returncode, checked.stderr) == (0, "")


# --------------------------------------------------------------------------- which image


def test_a_name_is_a_recipe_even_where_a_file_is_called_so(tmp_path: Path) -> None:
    (tmp_path / "bench").write_bytes(b"")
    found = image.resolve("bench", CATALOG.images, cwd=tmp_path)
    assert found is CATALOG.images["bench"]
    assert "hackbench" in (image.programs(found) or ())


def test_a_path_is_a_disk_of_the_users_with_a_name_for_files(tmp_path: Path) -> None:
    (tmp_path / "my cloud.v2.qcow2").write_bytes(b"")
    found = image.resolve("my cloud.v2.qcow2", CATALOG.images, cwd=tmp_path)
    assert found == UserImage(name="my-cloud-v2", path=tmp_path / "my cloud.v2.qcow2")
    assert image.programs(found) is None
    assert image.refusal(found, ARM, "x86_64") == ""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("benhc", "unknown image"),
        ("./gone.qcow2", "there is no image"),
        ("gone.img", "there is no image"),
        ("./", "is a folder"),
    ],
)
def test_what_is_no_image_is_refused(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        image.resolve(name, CATALOG.images, cwd=tmp_path)
    assert caught.value.hint


def test_a_disk_is_not_made_for_an_architecture_whose_code_would_have_to_run() -> None:
    debian = CATALOG.images["debian"]
    assert image.refusal(debian, X86, "x86_64") == ""
    assert "aarch64" in image.refusal(debian, ARM, "x86_64")
    assert image.refusal(debian, ARM, "aarch64") == ""
    assert image.refusal(CATALOG.images["bench"], ARM, "x86_64") == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "cdrom"}, "unknown kind “cdrom”"),
        ({"kind": "disk"}, "disk_size"),
        ({"kind": "disk", "disk_size": 9, "keep": ("x",)}, "keep has no meaning"),
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused(
    tmp_path: Path, scope: Scope, step: QuietStep, changes: dict[str, object], words: str
) -> None:
    # The host's own architecture: on another one a disk is refused before.
    native = CATALOG.native(platform.machine())
    with pytest.raises(UserError, match=words):
        image.build_image(
            recipe(tmp_path / "mine", **changes), native, cache=tmp_path, scope=scope, step=step
        )


def test_the_key_of_a_disk_changes_with_its_size(tmp_path: Path) -> None:
    sizes = [recipe(tmp_path, kind="disk", disk_size=size) for size in (1, 2)]
    keys = {image.image_key(each, X86, ()) for each in (*sizes, recipe(tmp_path))}
    assert len(keys) == 3


def test_a_disk_that_cannot_be_booted_is_told_from_the_console() -> None:
    said = "[    1.0] x\r\nktrial: image fault: there is no virtio disk\r\n[    1.1] reboot\r\n"
    assert image.fault(said) == "there is no virtio disk"
    assert image.fault("ktrial: ready 1.0") == ""


def test_a_cached_image_that_lacks_a_part_is_not_taken(tmp_path: Path) -> None:
    """Its guest would not come up, and its kernel would be charged with that."""
    content = initramfs.archive([initramfs.file("init", b"#!/bin/sh\n", 0o755)])
    archive = tmp_path / image.ARCHIVE
    assert not image.whole(tmp_path)
    archive.write_bytes(content)
    assert image.whole(tmp_path), "made before there were digests"
    archive.write_bytes(content[:-1024])
    assert not image.whole(tmp_path)
    (tmp_path / image.DIGEST).write_text(hashlib.sha256(content).hexdigest() + "\n")
    archive.write_bytes(content)
    assert image.whole(tmp_path)
    archive.write_bytes(content.replace(b"#!", b"#?"))
    assert not image.whole(tmp_path)
