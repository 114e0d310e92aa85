"""Real folders with real locks, held by another process where that matters."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline import cache as caches
from pipeline import clean
from pipeline.clean import DAY, Freed, Policy
from pipeline.errors import Cancelled
from pipeline.progress import Step
from pipeline.scope import Scope

NOW = 1_800_000_000.0
RUN = "20260101-000000-abcd"


def make(path: Path, *, days: float, size: int = 4096) -> Path:
    path.mkdir(parents=True)
    (path / "data").write_bytes(b"x" * size)
    os.utime(path, (NOW - days * DAY,) * 2)
    return path


class Cleaner:
    def __init__(self, root: Path, scope: Scope, step: Step) -> None:
        self.cache, self.results = root / "cache", root / "results"
        self.scope, self.step = scope, step

    def __call__(self, wanted: Policy, *, dry_run: bool = False) -> Freed:
        return clean.clean(
            cache=self.cache,
            results=self.results,
            wanted=wanted,
            now=NOW,
            scope=self.scope,
            step=self.step,
            dry_run=dry_run,
        )


@pytest.fixture
def cleaner(tmp_path: Path, scope: Scope, step: Step) -> Cleaner:
    return Cleaner(tmp_path, scope, step)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Another process holds the lock of `path`."""
    code = (
        "import fcntl, os, sys; fd = os.open(sys.argv[1], os.O_RDONLY);"
        "fcntl.flock(fd, fcntl.LOCK_SH); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.kill()


def test_old_entries_of_every_kind_go(cleaner: Cleaner) -> None:
    old = [
        make(cleaner.cache / name, days=20)
        for name in ("builds/a", "images/a", "trees/a", "repos/a.git", "work/group/tree", "apt")
    ]
    old.append(make(cleaner.results / RUN, days=20))
    new = make(cleaner.cache / "builds/new", days=1)
    freed = cleaner(Policy(older_than=14 * DAY))
    assert {entry.path for entry in freed.gone} == set(old)
    assert not any(path.exists() for path in old)
    assert (new / "data").exists()
    assert freed.size >= 7 * 4096
    assert freed.left >= 4096


def test_nothing_is_touched_that_is_not_an_entry(cleaner: Cleaner, tmp_path: Path) -> None:
    stranger = make(cleaner.results / "my notes", days=99)
    outside = make(tmp_path / "outside", days=99)
    (cleaner.cache / "builds").mkdir(parents=True)
    (cleaner.cache / "builds" / "link").symlink_to(outside)
    (cleaner.cache / "setup.log").write_text("log")
    cleaner(Policy(older_than=DAY, everything=True))
    assert (stranger / "data").exists()
    assert (outside / "data").exists()
    assert (cleaner.cache / "setup.log").exists()


def test_a_dry_run_removes_nothing(cleaner: Cleaner) -> None:
    old = make(cleaner.cache / "builds/a", days=20)
    freed = cleaner(Policy(everything=True), dry_run=True)
    assert [entry.path for entry in freed.gone] == [old]
    assert (old / "data").exists()


@pytest.mark.parametrize(
    ("entry", "lock"),
    [
        ("builds/a", "builds/a"),
        ("builds/a", "locks/build-a"),
        ("trees/a", "trees/a.lock"),
        ("sources/a", "sources/a/lock"),
        ("repos/a.git", "repos/a.git/ktrial.lock"),
        ("work/g-host", "locks/build-g-host"),
    ],
)
def test_an_entry_in_use_stays_until_it_is_let_go(cleaner: Cleaner, entry: str, lock: str) -> None:
    path = make(cleaner.cache / entry, days=20)
    if lock != entry:
        (cleaner.cache / lock).parent.mkdir(exist_ok=True)
        (cleaner.cache / lock).touch()
    with held(cleaner.cache / lock):
        freed = cleaner(Policy(everything=True))
        assert [each.path for each in freed.busy] == [path]
        assert (path / "data").exists()
        assert not clean.remove(path, cleaner.cache), "even when asked for directly"
    cleaner(Policy(everything=True))
    assert not path.exists()


def test_a_live_run_keeps_its_result_folder(cleaner: Cleaner) -> None:
    folder = make(cleaner.results / RUN, days=20)
    with caches.using(folder):
        cleaner(Policy(older_than=DAY))
        assert folder.exists()
    (cleaner.results / "latest").symlink_to(RUN)
    cleaner(Policy(older_than=DAY))
    assert not folder.exists()
    assert not (cleaner.results / "latest").is_symlink(), "it would dangle"


def test_while_a_run_is_live_what_it_may_have_used_stays(cleaner: Cleaner, scope: Scope) -> None:
    before = make(cleaner.cache / "builds/before", days=2)
    with clean.live(cleaner.cache, "run", scope=scope):
        lock = cleaner.cache / "runs" / "run.lock"
        os.utime(lock, (NOW - DAY,) * 2)
        since = make(cleaner.cache / "builds/since", days=0.5)
        repository = make(cleaner.cache / "repos/r.git", days=9)
        cleaner(Policy(everything=True))
        assert not before.exists()
        assert since.exists()
        assert repository.exists()
    assert not lock.exists()
    cleaner(Policy(everything=True))
    assert not since.exists()
    assert not repository.exists()


def test_a_dead_run_holds_nothing(cleaner: Cleaner) -> None:
    lock = cleaner.cache / "runs" / "dead.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    assert clean.live_since(cleaner.cache) is None
    assert not lock.exists()


def test_a_lock_that_goes_meanwhile(cleaner: Cleaner) -> None:
    """It is listed, and gone when it is looked at: as a dangling link always is."""
    runs = cleaner.cache / "runs"
    runs.mkdir(parents=True)
    (runs / "a.lock").symlink_to(runs / "gone")
    assert clean.live_since(cleaner.cache) is None


class Remover:
    """A step during whose notes another process removes what is noted."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, text: str) -> None:
        if text.endswith(self._path.name):
            shutil.rmtree(self._path, ignore_errors=True)


@pytest.mark.parametrize("name", ["builds/a", "work/group/a"])
def test_an_entry_that_goes_meanwhile(cleaner: Cleaner, name: str) -> None:
    other = make(cleaner.cache / "images/other", days=20)
    cleaner.step = Remover(make(cleaner.cache / name, days=20))
    freed = cleaner(Policy(everything=True))
    assert [entry.path for entry in freed.gone] == [other]


def test_what_a_killed_process_left_goes_first(cleaner: Cleaner) -> None:
    left = make(cleaner.cache / "builds" / f"{caches.TEMPORARY_PREFIX}x-1", days=0)
    whole = make(cleaner.cache / "builds/x", days=20)
    cleaner(Policy(older_than=100 * DAY))
    assert not left.exists()
    assert whole.exists()


def test_a_file_with_two_names_counts_once(tmp_path: Path, scope: Scope) -> None:
    make(tmp_path / "a", days=0, size=1 << 20)
    once = clean.disk_usage(tmp_path / "a", scope)
    os.link(tmp_path / "a/data", tmp_path / "a/again")
    assert clean.disk_usage(tmp_path / "a", scope) == once >= 1 << 20


def test_ctrl_c_ends_it(cleaner: Cleaner) -> None:
    path = make(cleaner.cache / "builds/a", days=20)
    cleaner.scope.cancel()
    with pytest.raises(Cancelled):
        cleaner(Policy(everything=True))
    assert path.exists()
