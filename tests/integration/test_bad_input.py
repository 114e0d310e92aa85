"""Bad input gets one clear line and its exit code, and leaves nothing behind."""

from __future__ import annotations

import mailbox
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline import settings
from pipeline.catalog import Catalog
from tests import minikernel_repo

ROOT = Path(__file__).resolve().parents[2]
SHELF = Catalog(data=settings.PACKAGE / "data", share=(settings.shipped_root(),))


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A kernel tree, patches for it, and places of its own for everything ktrial writes."""

    root: Path
    tree: Path
    patches: Path

    def run(self, *arguments: str, stdin: bytes = b"") -> Ran:
        return run(self.root, *arguments, stdin=stdin)

    def on_tree(self, *arguments: str, stdin: bytes = b"") -> Ran:
        return self.run(*arguments, "--tree", str(self.tree), stdin=stdin)


@dataclass(frozen=True, kw_only=True)
class Ran:
    exit_code: int
    out: str
    err: str

    def refused(self, code: int, *words: str) -> None:
        """It ended with this code and one line (and a hint) that has these words."""
        assert self.exit_code == code, f"{self.out}\n{self.err}"
        assert "Traceback" not in self.err
        lines = [line for line in self.err.splitlines() if line.startswith("ktrial: ")]
        assert len(lines) == 1, self.err
        for word in words:
            assert word in self.err


def run(root: Path, *arguments: str, stdin: bytes = b"") -> Ran:
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "run", "--cache", str(root / "cache"), *arguments],
        input=stdin,
        capture_output=True,
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(ROOT), "KTRIAL_RUNTIME": str(root / "rt")},
        timeout=300,
        check=False,
    )
    return Ran(exit_code=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())


def symbols() -> dict[str, str]:
    """Every symbol of the shipped fragments, so that the miniature knows them."""
    names = ("base", "x86_64")
    return {key: value for name in names for key, value in SHELF.fragments[name].symbols.items()}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    tree = minikernel_repo.make_repository(tmp_path / "linux", symbols=symbols())
    first = minikernel_repo.git(tree, "rev-parse", "HEAD")
    for order in (4, 5, 6):
        minikernel_repo.change(tree, order=order)
    folder = tmp_path / "patches"
    minikernel_repo.format_patches(tree, f"{first}..HEAD", folder)
    minikernel_repo.git(tree, "reset", "-q", "--hard", first)
    return Bench(root=tmp_path, tree=tree, patches=folder)


@pytest.fixture(autouse=True)
def _nothing_left(bench: Bench) -> object:
    before = snapshot(bench.tree)
    yield
    assert snapshot(bench.tree) == before, "the user's tree was written to"
    cache = bench.root / "cache"
    assert not list((cache / "tmp").glob("*"))
    assert not list(cache.glob("*/.making-*"))
    assert not list((bench.root / "rt").glob("*"))
    assert not (bench.root / "results").exists()


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_no_such_source(bench: Bench) -> None:
    bench.on_tree("no.mbox").refused(2, "no.mbox")


def test_no_such_scenario_names_the_nearest(bench: Bench) -> None:
    bench.run("num_present_cpu").refused(2, "did you mean num_present_cpus?")


def test_nothing_at_all(bench: Bench) -> None:
    bench.run().refused(2, "nothing to try")


def test_an_empty_mbox(bench: Bench) -> None:
    (bench.root / "empty.mbox").write_bytes(b"")
    bench.on_tree("empty.mbox").refused(2, "empty.mbox")


def test_an_empty_stdin(bench: Bench) -> None:
    bench.on_tree("-").refused(2)


def test_mail_without_a_patch(bench: Bench) -> None:
    box = mailbox.mbox(bench.root / "talk.mbox")
    box.add("From: Ada <ada@example.org>\nSubject: hello\nMessage-Id: <1@example.org>\n\nHi.\n")
    box.close()
    bench.on_tree("talk.mbox").refused(2, "talk.mbox")


def test_a_series_with_a_patch_missing(bench: Bench) -> None:
    next(bench.patches.glob("0002-*")).unlink()
    bench.on_tree("patches").refused(2, "2")


def test_a_tree_that_is_no_repository(bench: Bench) -> None:
    (bench.root / "plain").mkdir()
    bench.run("patches", "--tree", "plain").refused(2, "plain", "git repository")


def test_a_repository_that_is_no_kernel(bench: Bench) -> None:
    other = bench.root / "other"
    other.mkdir()
    (other / "file").write_text("x")
    minikernel_repo.git(other, "init", "-q")
    minikernel_repo.commit(other, "first")
    bench.run("patches", "--tree", "other").refused(2, "other", "kernel")


def test_no_tree_at_all(bench: Bench) -> None:
    bench.run("patches").refused(2, "no kernel tree", "--tree")


def test_an_unknown_debian_tree(bench: Bench) -> None:
    bench.run("patches", "--tree", "debian:4.99").refused(2, "4.99")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--base", "v5.11"), ("v5.11", "v5.10")),
        (("--arch", "aarch46"), ("unknown architecture “aarch46”", "did you mean aarch64?")),
        (("--workload", "hackbenhc"), ("unknown workload “hackbenhc”", "did you mean hackbench?")),
        (("--workload", "hackbench:loop=3"), ("loop", "loops")),
        (("--workload", "hackbench:loops=many"), ("loops", "many")),
        (("--guest", "smp3"), ("unknown guest “smp3”", "did you mean")),
        (("--kconfig", "slub-stat"), ("unknown kconfig fragment", "slub-stats")),
        (("--probe", "slab-order"), ("unknown probe", "slab-orders")),
        (("--image", "benhc"), ("unknown image", "bench")),
        (("--image", "minimal"), ("hackbench needs hackbench", "minimal")),
        (("--boots", "-1"), ("--boots",)),
        (("--boots", "0"), ("--boots",)),
        (("--share", "nope"), ("--share", "nope")),
        (("--connect", "qemu:///system"), ("qemu:///system",)),
        (("--workload", "hackbench:loops=1,loops=2"), ("loops", "twice")),
        (("--accel", "xen"), ("unknown accelerator xen",)),
        (("--jobs", "0"), ("--jobs",)),
        (("--no-such-option",), ("--no-such-option",)),
    ],
)
def test_unknown_names(bench: Bench, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    bench.on_tree("patches", *arguments).refused(2, *words)


def test_an_unknown_revision_and_an_empty_range(bench: Bench) -> None:
    bench.on_tree("--rev", "no-such").refused(2, "no-such")
    bench.on_tree("HEAD..HEAD").refused(2, "HEAD..HEAD")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('title = "t"\ngests = ["smp1"]\n', ("gests", "did you mean guests?")),
        ('title = 3\nposted = ""\n', ("title", "expected a string")),
        ("title = \n", ("not valid TOML",)),
    ],
)
def test_a_scenario_that_is_wrong(bench: Bench, text: str, words: tuple[str, ...]) -> None:
    folder = bench.root / "mine"
    folder.mkdir()
    (folder / "scenario.toml").write_text(text)
    bench.run("mine").refused(2, "scenario.toml", *words)


def test_results_that_cannot_be_written(bench: Bench) -> None:
    (bench.root / "file").write_text("in the way")
    bench.on_tree("patches", "--results", str(bench.root / "file")).refused(2, "--results DIR")


def test_several_patch_files_are_one_series(bench: Bench) -> None:
    """Taken as far as the results, which is where this test stops it; not with one missing."""
    (bench.root / "file").write_text("in the way")
    stop = ("--results", str(bench.root / "file"))
    files = [str(path) for path in sorted(bench.patches.iterdir())]
    bench.on_tree(*files, *stop).refused(2, "--results DIR")
    bench.on_tree(files[0], files[2], *stop).refused(2, "2/3")
    bench.on_tree(*files, "none.patch", *stop).refused(2, "none.patch is no file")


def test_a_lost_symbol_stops_the_run_before_any_build(bench: Bench) -> None:
    extra = bench.root / "own" / "kconfigs"
    extra.mkdir(parents=True)
    (extra / "mine.config").write_text("# ktrial: mine\nCONFIG_NOT_IN_THIS_TREE=y\n")
    bench.on_tree("patches", "--share", "own", "--kconfig", "mine").refused(
        2, "CONFIG_NOT_IN_THIS_TREE", "mine"
    )
    assert not list((bench.root / "cache" / "builds").glob("*/vmlinux"))


def test_no_compiler_for_the_architecture(bench: Bench) -> None:
    """A toolchain of the user's own, whose cross compiler is not installed."""
    shipped = (settings.PACKAGE / "data" / "toolchains" / "gcc.toml").read_text()
    own = bench.root / "own" / "toolchains"
    own.mkdir(parents=True)
    (own / "gcc.toml").write_text(shipped.replace('"aarch64-linux-gnu-"', '"aarch64-none-gnu-"'))
    bench.on_tree("patches", "--share", "own", "--arch", "arm64").refused(
        3, "aarch64-none-gnu-gcc", "gcc-aarch64-linux-gnu"
    )


def test_a_disk_too_full_is_found_before_the_build(bench: Bench) -> None:
    """A file system of 64 MiB of its own under the cache."""
    full = bench.root / "cache"
    full.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(full)], check=False
    )
    if mounted.returncode:
        pytest.skip("only root can mount a small file system")
    try:
        bench.on_tree("patches").refused(3, "free")
    finally:
        subprocess.run(["umount", str(full)], check=True)


def test_help_and_version_need_nothing(bench: Bench) -> None:
    for word in ("--help", "--version"):
        done = subprocess.run(
            [sys.executable, "-m", "pipeline", word],
            capture_output=True,
            cwd=bench.root,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            check=False,
        )
        assert done.returncode == 0
        assert b"ktrial" in done.stdout
