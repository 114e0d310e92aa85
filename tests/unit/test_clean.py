from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import clean
from pipeline.clean import DAY, Entry, Freed, Policy
from pipeline.errors import UserError

NOW = 100 * DAY


def entry(
    name: str, *, days: float, size: int = 10, kind: str = "builds", busy: bool = False
) -> Entry:
    return Entry(path=Path(name), kind=kind, used=NOW - days * DAY, size=size, busy=busy)


def names(entries: tuple[Entry, ...]) -> list[str]:
    return [each.path.name for each in entries]


OLD, MIDDLE, NEW = entry("old", days=20), entry("middle", days=10), entry("new", days=1)


def test_by_age_only_older_ones_go() -> None:
    assert names(clean.select([NEW, OLD, MIDDLE], Policy(older_than=9 * DAY), now=NOW)) == [
        "old",
        "middle",
    ]


def test_an_entry_exactly_of_that_age_stays() -> None:
    assert clean.select([MIDDLE], Policy(older_than=10 * DAY), now=NOW) == ()


def test_by_size_the_longest_unused_go_until_the_rest_fits() -> None:
    assert names(clean.select([NEW, OLD, MIDDLE], Policy(max_size=20), now=NOW)) == ["old"]
    assert names(clean.select([NEW, OLD, MIDDLE], Policy(max_size=19), now=NOW)) == [
        "old",
        "middle",
    ]
    assert clean.select([NEW, OLD, MIDDLE], Policy(max_size=30), now=NOW) == ()


def test_what_is_in_use_counts_but_stays() -> None:
    busy = entry("busy", days=50, size=100, busy=True)
    assert names(clean.select([busy, OLD, NEW], Policy(max_size=115), now=NOW)) == ["old"]
    assert names(clean.select([busy, OLD, NEW], Policy(everything=True), now=NOW)) == ["old", "new"]


def test_age_and_size_together() -> None:
    wanted = Policy(older_than=15 * DAY, max_size=10)
    assert names(clean.select([NEW, OLD, MIDDLE], wanted, now=NOW)) == ["old", "middle"]


def test_while_a_run_is_live_what_was_used_since_it_began_stays() -> None:
    repository = entry("repository", days=30, kind="repos")
    chosen = clean.select(
        [NEW, OLD, MIDDLE, repository],
        Policy(everything=True),
        now=NOW,
        live_since=NOW - 10 * DAY,
    )
    assert names(chosen) == ["old"]


def test_everything_leaves_results() -> None:
    result = entry("result", days=90, kind="results")
    assert names(clean.select([result, NEW], Policy(everything=True), now=NOW)) == ["new"]
    assert names(clean.select([result, NEW], Policy(older_than=DAY * 30), now=NOW)) == ["result"]


@pytest.mark.parametrize(
    ("text", "seconds"), [("14d", 14 * DAY), ("12h", 43200), ("30m", 1800), ("2w", 14 * DAY)]
)
def test_ages(text: str, seconds: float) -> None:
    assert clean.parse_age(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("20G", 20 << 30), ("500M", 500 << 20), ("1.5k", 1536), ("7", 7), ("2GiB", 2 << 30)],
)
def test_sizes(text: str, size: int) -> None:
    assert clean.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "14", "d", "-3d", "14 days", "1y"])
def test_what_is_no_age(text: str) -> None:
    with pytest.raises(UserError, match="is not an age"):
        clean.parse_age(text)


@pytest.mark.parametrize("text", ["", "G", "-1G", "many", "1e3"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UserError, match="is not a size"):
        clean.parse_size(text)


def test_without_options_old_things_go() -> None:
    assert clean.policy(None, None, False) == Policy(older_than=clean.DEFAULT_AGE)
    assert clean.policy(None, "1K", True) == Policy(max_size=1024, everything=True)


def test_what_is_said() -> None:
    gone = (entry("a", days=9, size=3 << 20), entry("b", days=9, size=1 << 20))
    freed = Freed(gone=gone, busy=(NEW,), left=1 << 30)
    assert clean.render(freed) == (
        "  builds        2     4.0 MiB\nfreed 4.0 MiB, 1.0 GiB left\n1 in use by a live run: kept\n"
    )
    assert clean.render(Freed(gone=(), busy=(), left=5, dry_run=True)) == (
        "would free 0 B, 5 B left\n"
    )
