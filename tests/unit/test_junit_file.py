"""junit.xml while a run is under way: complete from the start, seldom enough, and in one piece."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from lxml import etree  # type: ignore[import-untyped]

from pipeline import junitfile, results, verdict
from pipeline.errors import Cancelled
from pipeline.junitfile import Journal
from pipeline.model import Evidence, Plan, Run
from tests import runs

PLAN = runs.plan(runs.scenario(boots=2))
WHOLE = runs.good_evidence(PLAN)


def empty(plan: Plan, folder: Path) -> Run:
    return replace(runs.run(plan, Evidence(cut=True)), cases=(), folder=folder)


@dataclass
class Clock:
    """A clock that goes on by `cost` whenever it is read."""

    cost: float
    time: float = 0.0

    def __call__(self) -> float:
        self.time += self.cost
        return self.time


def states(folder: Path) -> dict[tuple[str, str], list[str]]:
    root = etree.parse(str(folder / "junit.xml")).getroot()
    return {
        (case.get("classname"), case.get("name")): [child.tag for child in case]
        for case in root.iter("testcase")
    }


@pytest.mark.parametrize("dialect", ["jenkins", "ant"])
def test_at_the_start_every_planned_case_is_an_error(tmp_path: Path, dialect: str) -> None:
    Journal(empty(PLAN, tmp_path), dialect=dialect).begin()
    found = states(tmp_path)
    assert set(found) == {(each.suite, each.name) for each in verdict.planned(PLAN)}
    assert set(map(tuple, found.values())) <= {("error",), ("skipped",)}
    errors = etree.parse(str(tmp_path / "junit.xml")).getroot().iter("error")
    assert {each.get("message") for each in errors} == {"the run was cut before its end"}


def test_what_is_over_is_told_at_once(tmp_path: Path) -> None:
    journal = Journal(empty(PLAN, tmp_path))
    journal.begin()
    journal.told(lambda: replace(WHOLE, boots=WHOLE.boots[:2], cut=True))
    found = states(tmp_path)
    good = [each for each, tags in found.items() if not tags or tags == ["system-out"]]
    assert ("num_present_cpus.base", "apply") in good
    assert any(tags == ["error"] for tags in found.values())
    journal.told(lambda: WHOLE)
    assert not any("error" in tags for tags in states(tmp_path).values())


def test_writing_takes_no_more_than_its_share(tmp_path: Path) -> None:
    """2,000 nodes of a second each, when each writing takes two."""
    clock, asked = Clock(cost=2.0), 0

    def evidence() -> Evidence:
        nonlocal asked
        asked += 1
        return Evidence(cut=True)

    journal = Journal(empty(PLAN, tmp_path), clock=clock)
    journal.begin()
    for _ in range(2_000):
        clock.time += 1.0 - clock.cost  # telling reads the clock, which is no writing
        journal.told(evidence)
    spent = 2.0 * asked
    assert 0 < spent <= junitfile.AHEAD + junitfile.SHARE * clock.time


def test_a_full_disk_ends_no_run_and_leaves_the_file_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(empty(PLAN, tmp_path))
    journal.begin()
    before = (tmp_path / "junit.xml").read_bytes()

    def full(self: Path, *_: object, **__: object) -> int:
        self.write_bytes(b"<half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    journal.told(lambda: WHOLE)
    assert "No space left" in journal.problem
    monkeypatch.undo()
    assert [each.name for each in tmp_path.iterdir()] == ["junit.xml"]
    assert (tmp_path / "junit.xml").read_bytes() == before
    journal.told(lambda: WHOLE)
    assert not journal.problem


def test_a_run_that_goes_gives_latest_back(tmp_path: Path) -> None:
    with results.new_folder(tmp_path) as first:
        results.point_latest(first)
    with pytest.raises(Cancelled), results.new_folder(tmp_path) as second:
        results.point_latest(second)
        assert (tmp_path / "latest").resolve() == second.root
        raise Cancelled
    assert (tmp_path / "latest").resolve() == first.root
    with pytest.raises(Cancelled), results.new_folder(tmp_path / "new") as third:
        results.point_latest(third)
        raise Cancelled
    assert not (tmp_path / "new").exists()
