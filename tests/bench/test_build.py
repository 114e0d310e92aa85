"""What a build costs, beside bare make and tuxmake on the same source in the same run.

Aims: a one-line change at most 1.15 times a bare incremental make in a warm folder, and 0.1
times a clean build with tuxmake; a second run under 0.5 s. Three to four clean builds are made:

    python -m pytest -s tests/bench/test_build.py        (pip install tuxmake, for that peer)
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pytest

from pipeline import recipe
from pipeline.model import Build
from pipeline.scope import Scope
from tests.e2e.conftest import CACHE
from tests.realkernels import ORDER, Ground

ROUNDS = 3
JOBS = os.cpu_count() or 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("build")


@pytest.fixture(scope="module")
def ground(folder: Path) -> Ground:
    return Ground(CACHE, folder, Scope(7200))


@pytest.fixture(scope="module")
def base(ground: Ground) -> Build:
    return ground.base()


class Bare:
    """A checkout and a build folder on which make is run by hand, as ktrial's recipe has it."""

    def __init__(self, ground: Ground, base: Build, folder: Path) -> None:
        self.ground, self.source, self.build = ground, folder / "bare-src", folder / "bare-build"
        self.source.mkdir()
        self.build.mkdir()
        archive = folder / "tree.tar"
        ground.git("archive", "-o", str(archive), ground.base_tree)
        subprocess.run(("tar", "-xf", archive, "-C", self.source), check=True)
        archive.unlink()
        shutil.copy(base.config, self.build / ".config")

    def write(self, path: str, tree_id: str) -> None:
        (self.source / path).write_text(self.ground.text(path, tree_id))

    def make(self) -> float:
        """Seconds."""
        command = (
            *("make", "-s", "-C", self.source, f"O={self.build}", "ARCH=x86_64", f"-j{JOBS}"),
            *(f"KCFLAGS={recipe.LINE_TABLES}", "bzImage"),
        )
        return timed(lambda: subprocess.run(command, check=True, env=environment()))


def environment() -> dict[str, str]:
    return {**os.environ, **recipe.ENVIRONMENT}


def timed(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


@pytest.fixture(scope="module")
def bare(ground: Ground, base: Build, folder: Path) -> Bare:
    made = Bare(ground, base, folder)
    print(f"\nbare clean make: {made.make():.1f} s")
    return made


def one_line(ground: Ground, number: int, tree_id: str = "") -> str:
    """A tree that nobody has built: the number and the time are in it."""
    odd = time.time_ns() % 10**9
    new = f"min_objects = 4 * (fls(nr_cpus) + 1) + {odd} % 3 + {number};"
    return ground.replaced("mm/slub.c", ORDER, new, tree_id)


def test_one_line_change(ground: Ground, base: Build, bare: Bare) -> None:
    assert base.image.exists()
    ours, theirs = [], []
    for number in range(ROUNDS):
        tree_id = one_line(ground, number)
        with ExitStack() as stack:
            built = ground.make(ground.wish(tree_id), stack)
        assert built.how == "increment on base"
        bare.write("mm/slub.c", tree_id)
        theirs.append(bare.make())
        ours.append(built.seconds)
    ratio = median(ours) / median(theirs)
    print(f"\none line: ktrial {shown(ours)}, bare make {shown(theirs)}: {ratio:.2f} (aim 1.15)")
    cold = tuxmake(bare, ground)
    if cold is not None:
        print(f"tuxmake, clean: {cold:.1f} s: {median(ours) / cold:.3f} (aim 0.1)")


def tuxmake(bare: Bare, ground: Ground) -> float | None:
    """Seconds of a clean build with tuxmake, None where it is not installed."""
    program = shutil.which("tuxmake") or str(Path(sys.executable).with_name("tuxmake"))
    if not Path(program).exists():
        print("tuxmake is not installed")
        return None
    command = (
        *(program, "--runtime", "null", "--target-arch", "x86_64", "--toolchain", "gcc"),
        *("--directory", bare.source, "--kconfig", bare.build / ".config", "--jobs", str(JOBS)),
        *("--output-dir", ground.logs / "tuxmake", "--wrapper", "none", "kernel"),
    )
    return timed(lambda: subprocess.run(command, check=True, capture_output=True))


def test_ten_patches_per_commit(ground: Ground, base: Build, bare: Bare) -> None:
    assert base.image.exists()
    files = (
        *("mm/slub.c", "mm/slab_common.c", "mm/page_alloc.c", "mm/vmalloc.c", "mm/mmap.c"),
        *("kernel/fork.c", "kernel/exit.c", "lib/xarray.c", "fs/inode.c", "fs/namei.c"),
    )
    ours, theirs = 0.0, 0.0
    tree_id, below = ground.base_tree, None
    with ExitStack() as stack:
        for path in files:
            text = ground.text(path, tree_id)
            added = f"\nint ktrial_{time.time_ns()} = 1;\n"
            tree_id = ground.patched({path: text + added}, tree_id)
            below = ground.make(ground.wish(tree_id, below=below), stack)
            assert below.how.startswith("increment")
            ours += below.seconds
            bare.write(path, tree_id)
            theirs += bare.make()
    print(f"\nten patches: ktrial {ours:.1f} s, bare make {theirs:.1f} s: {ours / theirs:.2f}")
    for path in files:
        bare.write(path, ground.base_tree)


def test_second_run(ground: Ground, base: Build) -> None:
    again = [ground.base() for _ in range(ROUNDS)]
    assert all(each.how == "cached" and each.key == base.key for each in again)
    print(f"\nnothing changed: {shown([each.seconds for each in again])} (aim: under 0.5 s)")


def test_cold_build_with_objects_of_another_worktree(
    ground: Ground, base: Build, folder: Path
) -> None:
    """The objects are in ccache, the worktree is a clone that has never been built."""
    assert base.image.exists()
    clone = folder / "clone"
    repository = ground.opened.repository
    subprocess.run(
        ("git", "clone", "-q", "--shared", "--no-checkout", repository, clone), check=True
    )
    seconds = {}
    for name in ("warm", "cold"):
        cache = folder / f"cache-{name}"
        cache.mkdir()
        if name == "warm":
            shutil.copytree(CACHE / "ccache", cache / "ccache")
        other = Ground(cache, folder / name, Scope(3600), spec=str(clone))
        before = statistics(cache)
        built = other.base()
        after = statistics(cache)
        hits, misses = (after[key] - before[key] for key in ("hits", "misses"))
        seconds[name] = built.seconds
        print(f"\n{name}: {built.how}, {built.seconds:.1f} s, hits {hits} of {hits + misses}")
        assert built.digest == base.digest
        shutil.rmtree(cache, ignore_errors=True)
    print(f"with the objects of another worktree: {seconds['warm'] / seconds['cold']:.2f} of cold")


def statistics(cache: Path) -> dict[str, int]:
    (cache / "ccache").mkdir(exist_ok=True)
    done = subprocess.run(
        ("ccache", "--print-stats"),
        env={**os.environ, "CCACHE_DIR": str(cache / "ccache")},
        capture_output=True,
        text=True,
        check=True,
    )
    found = {key: int(number) for key, number in re.findall(r"^(\w+)\t(\d+)$", done.stdout, re.M)}
    hits = found.get("direct_cache_hit", 0) + found.get("preprocessed_cache_hit", 0)
    return {"hits": hits, "misses": found.get("cache_miss", 0)}


def shown(seconds: list[float]) -> str:
    return f"{median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"
