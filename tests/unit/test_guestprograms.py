"""Which programs of an image are compiled, and what an image's key has of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import guestprograms, image
from pipeline.catalog import Catalog
from pipeline.errors import InfraError
from pipeline.model import ImageRecipe
from pipeline.settings import PACKAGE, shipped_root

CATALOG = Catalog(data=PACKAGE / "data", share=(shipped_root(),))
X86, ARM = CATALOG.architecture("x86_64"), CATALOG.architecture("aarch64")


def recipe(folder: Path, *programs: str) -> ImageRecipe:
    return ImageRecipe(
        name="own",
        description="",
        folder=folder,
        suite="bookworm",
        packages=(),
        programs=programs,
    )


def written(path: Path, text: str = "int main(void) { return 0; }\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_program_is_taken_from_beside_the_image_then_from_common_then_from_ours(
    tmp_path: Path,
) -> None:
    beside = written(tmp_path / "own/programs/first.c")
    written(tmp_path / "common/programs/first.c")
    common = written(tmp_path / "common/programs/second.c")
    found = guestprograms.sources(recipe(tmp_path / "own", "first", "second", "micro", "sh"))
    assert found == {
        "first": beside,
        "second": common,
        "micro": shipped_root() / "vm_images/common/programs/micro.c",
    }


def test_every_shipped_source_is_in_the_images_that_measure() -> None:
    shipped = {path.stem for path in (shipped_root() / "vm_images/common/programs").glob("*.c")}
    assert shipped
    for name in ("bench", "debian", "netperf"):
        assert set(guestprograms.sources(CATALOG.images[name])) == shipped


def test_an_image_is_another_one_when_a_source_of_its_changes(tmp_path: Path) -> None:
    source = written(tmp_path / "own/programs/mine.c")
    mine = recipe(tmp_path / "own", "mine")
    without = recipe(tmp_path / "own", "sh")
    before, bare = image.image_key(mine, X86, ()), image.image_key(without, X86, ())
    written(source, "int main(void) { return 1; }\n")
    assert image.image_key(mine, X86, ()) != before
    assert image.image_key(without, X86, ()) == bare


@pytest.mark.parametrize(
    ("machine", "x86", "arm"),
    [
        ("x86_64", "gcc", "aarch64-linux-gnu-gcc"),
        ("aarch64", "x86_64-linux-gnu-gcc", "gcc"),
    ],
)
def test_the_compiler_is_the_hosts_own_or_a_cross_compiler(
    machine: str, x86: str, arm: str
) -> None:
    assert guestprograms.compiler(X86, machine)[0] == x86
    assert guestprograms.compiler(ARM, machine)[0] == arm
    hint = guestprograms.compiler(ARM, "x86_64")[1]
    assert "gcc-aarch64-linux-gnu" in hint and "libc6-dev-arm64-cross" in hint


def test_an_architecture_that_gcc_has_no_name_for_is_told() -> None:
    with pytest.raises(InfraError, match="no compiler for guest programs of riscv64"):
        guestprograms.compiler(replace(ARM, name="riscv64", machines=("riscv64",)), "x86_64")
