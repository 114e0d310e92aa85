"""The size limit of the cache, on real folders."""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from pipeline import cache as caches
from pipeline import clean, evict
from pipeline.progress import Step
from pipeline.scope import Scope

SIZE = 1 << 20


def make(path: Path, *, days: float) -> Path:
    path.mkdir(parents=True)
    (path / "data").write_bytes(os.urandom(SIZE))
    when = time.time() - days * clean.DAY
    os.utime(path, (when, when))
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Five entries, the oldest first."""
    names = ("builds/a", "work/group/tree", "images/b", "ccache", "builds/c")
    for number, name in enumerate(names):
        make(tmp_path / "cache" / name, days=20 - number)
    return tmp_path / "cache"


def left(cache: Path) -> list[str]:
    return sorted(str(path.parent.relative_to(cache)) for path in cache.rglob("data"))


def test_nothing_goes_below_the_limit(cache: Path, scope: Scope, step: Step) -> None:
    assert evict.evict(cache, 6 * SIZE, scope=scope, step=step) is None
    assert len(left(cache)) == 5


def test_longest_unused_ones_go_until_there_is_room(cache: Path, scope: Scope, step: Step) -> None:
    freed = evict.evict(cache, 4 * SIZE, scope=scope, step=step)
    assert freed
    assert [entry.path.name for entry in freed.gone] == ["a", "tree"]
    assert left(cache) == ["builds/c", "ccache", "images/b"]
    assert freed.left <= 4 * SIZE


def test_what_a_live_run_uses_stays(cache: Path, scope: Scope, step: Step) -> None:
    with ExitStack() as stack:
        stack.enter_context(clean.live(cache, "20260101-000000-abcd", scope=scope))
        stack.enter_context(caches.using(cache / "builds/a"))
        os.utime(cache / "work/group/tree")  # by the run, after it began
        freed = evict.evict(cache, 2 * SIZE, scope=scope, step=step)
    assert freed
    assert left(cache) == ["builds/a", "work/group/tree"]


def test_size_is_measured_once(
    cache: Path, scope: Scope, step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    evict.evict(cache, 6 * SIZE, scope=scope, step=step)
    measured: list[Path] = []
    real = clean.disk_usage

    def counted(path: Path, scope: Scope) -> int:
        measured.append(path)
        return real(path, scope)

    monkeypatch.setattr("pipeline.clean.disk_usage", counted)
    make(cache / "builds/new", days=0)
    evict.evict(cache, 7 * SIZE, scope=scope, step=step)
    assert measured == [cache / "builds/new"]


def test_what_may_grow_is_measured_again(cache: Path, scope: Scope, step: Step) -> None:
    evict.evict(cache, 6 * SIZE, scope=scope, step=step)
    (cache / "ccache/more").write_bytes(os.urandom(2 * SIZE))
    memory = cache / evict.SIZES
    known = json.loads(memory.read_text())
    for each in known.values():
        each["at"] -= 2 * evict.FRESH
    memory.write_text(json.dumps(known))
    assert evict.evict(cache, 6 * SIZE, scope=scope, step=step)


@pytest.mark.parametrize("text", ["", "[]", '{"builds/a": 1}', '{"builds/a": {"x": 1}}'])
def test_sizes_that_cannot_be_read_are_measured(
    cache: Path, scope: Scope, step: Step, text: str
) -> None:
    (cache / evict.SIZES).write_text(text)
    assert evict.evict(cache, 4 * SIZE, scope=scope, step=step)


def test_two_at_once_do_no_harm(cache: Path, scope: Scope, step: Step) -> None:
    for number in range(40):
        make(cache / f"builds/n{number}", days=30)
    faults: list[BaseException] = []

    def one() -> None:
        try:
            evict.evict(cache, 4 * SIZE, scope=scope, step=step)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert left(cache) == ["builds/c", "ccache", "images/b"]
