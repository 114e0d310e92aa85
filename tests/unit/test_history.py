from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline import history
from pipeline.history import History


def test_what_is_added_is_there_for_the_next_run(tmp_path: Path) -> None:
    first = History(tmp_path)
    assert first.known == {}
    first.add("boot a", 3.14159)
    first.add("boot a", 4)
    assert first.known == {"boot a": (3.142, 4)}
    assert History(tmp_path).known == first.known


def test_runs_beside_each_other_lose_nothing(tmp_path: Path) -> None:
    def one_run(number: int) -> None:
        own = History(tmp_path)
        for each in range(4):
            own.add("same", number)
            own.add(f"key {number} {each}", each)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(one_run, range(6)))
    known = History(tmp_path).known
    assert len(known) == 1 + 6 * 4
    assert len(known["same"]) == history.KEEP_VALUES
    assert not list(tmp_path.glob("history/.making-*"))


def test_only_the_last_values_and_keys_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "KEEP_KEYS", 3)
    own = History(tmp_path)
    for key in ("a", "b", "c", "a", "d"):
        own.add(key, 1)
    assert set(own.known) == {"a", "c", "d"}
    for value in range(20):
        own.add("d", value)
    assert own.known["d"] == tuple(range(11, 20))


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0])
def test_what_is_no_duration_is_not_kept(tmp_path: Path, seconds: float) -> None:
    own = History(tmp_path)
    own.add("a", seconds)
    assert own.known == {}


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"a": 3, "b": [], "c": ["x"], "d": [NaN], "good": [1.5]}', "\udcff"],
)
def test_a_broken_file_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    file = tmp_path / "history" / "durations.json"
    file.parent.mkdir()
    file.write_text(text, errors="surrogateescape")
    own = History(tmp_path)
    assert own.known in ({}, {"good": (1.5,)})
    own.add("new", 2)
    assert json.loads(file.read_text())["new"] == [2]


def test_a_cache_that_cannot_be_written_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("a file where a folder is to be")
    own = History(tmp_path)
    own.add("a", 1)
    assert own.known == {}
