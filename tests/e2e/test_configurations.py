"""The tree's own configurations build, or break with the compiler's error named.

`-m full`: minutes each on two cores (`-s` shows how many, and the errors).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import kconfig, kernelbuild
from pipeline.model import Build, BuildFailure
from pipeline.scope import Scope
from tests.e2e.conftest import CACHE
from tests.integration.test_variants import bench_for
from tests.realkernels import Ground

ARCHITECTURES = ["x86_64", "aarch64"]
PARTS = ("mm/", "kernel/", "fs/")  # two cores take half an hour for all of a defconfig


@pytest.mark.full
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", ["allnoconfig", "randconfig-few@1", "randconfig-few@2"])
def test_it_builds_or_tells_where_it_breaks(tmp_path: Path, arch: str, name: str) -> None:
    ground = Ground(CACHE, tmp_path, Scope(3600))
    wish = replace(ground.wish(ground.base_tree, arch=arch, trusted=True), fragments=(name,))
    outcome = kernelbuild.make(
        wish, shelf=ground.shelf, settings=ground.settings, scope=ground.scope, step=ground.step
    )
    if isinstance(outcome, Build):
        symbols = len(kconfig.parse_config(outcome.config.read_text()))
        print(f"\n{arch} {name}: {outcome.how}, {outcome.seconds:.1f} s, {symbols} symbols")
        assert outcome.image.stat().st_size
        return
    print(f"\n{arch} {name}: {outcome}")
    assert isinstance(outcome, BuildFailure)
    assert outcome.file
    assert outcome.error


@pytest.mark.full
def test_parts_of_arm64_s_defconfig(tmp_path: Path) -> None:
    with bench_for("6.12", "aarch64", "gcc", tmp_path, Scope(3600)) as whole:
        config = kconfig.parse_config(whole.config("defconfig"))
        bench = whole.bench
        done = bench.run(bench.recipe.single(config, *PARTS), tmp_path / "build.log")
        print(f"\narm64 defconfig {' '.join(PARTS)}: {done.seconds:.1f} s")
        assert done.ok, done.text[-2000:]
        objects = {path.parent.relative_to(bench.build) for path in bench.build.rglob("*.o")}
        assert {Path("mm"), Path("kernel/sched"), Path("fs/ext4")} <= objects
