"""The rule by which file times advance."""

from __future__ import annotations

import pytest

from pipeline.layout import TICK, Entry, advance, moves_a_link, read_raw
from pipeline.model import FileTimes


def test_a_new_build_folder_starts_at_the_epoch() -> None:
    assert advance(None, {"a.c"}, "t1", 5) == FileTimes(tree_id="t1", later={})


def test_what_changed_is_new_and_the_rest_keeps_its_time() -> None:
    seen = FileTimes(tree_id="t1", later={"a.c": 3, "b.c": 4})
    now = 10**18
    assert advance(seen, {"b.c", "c.c"}, "t2", now).later == {"a.c": 3, "b.c": now, "c.c": now}


def test_going_back_is_a_change_too() -> None:
    there = advance(FileTimes(tree_id="t1", later={}), {"a.c"}, "t2", 5)
    back = advance(there, {"a.c"}, "t1", 7)
    assert back.later["a.c"] > there.later["a.c"] > 0


def test_a_clock_that_went_back_does_not_make_changes_old() -> None:
    seen = FileTimes(tree_id="t1", later={"a.c": 100})
    assert advance(seen, {"b.c"}, "t2", 50).later["b.c"] > 100


def test_a_change_is_newer_than_every_object_though_the_clock_went_back() -> None:
    seen = FileTimes(tree_id="t1", later={}, newest=10**9)
    assert advance(seen, {"b.c"}, "t2", 50).later == {"b.c": 10**9 + TICK}


FILE, LINK, NONE = "100644", "120000", "000000"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([("a.h", FILE, FILE)], False),
        ([("link", LINK, LINK)], True),
        ([("link", FILE, LINK)], True),
        ([("link", NONE, LINK), ("other", FILE, NONE)], False),
        ([("link", NONE, LINK), ("link/deep/x.h", FILE, NONE)], True),
        ([("link", LINK, NONE), ("link/x.h", NONE, FILE)], False),
    ],
)
def test_a_link_is_moved_where_a_path_leads_elsewhere(
    changes: list[tuple[str, str, str]], expected: bool
) -> None:
    entries = [Entry(path=path, was=was, mode=mode, blob="") for path, was, mode in changes]
    assert moves_a_link(entries) is expected


def test_raw_differences_are_read() -> None:
    raw = (
        b":100644 100755 1111 2222 M\0scripts/a b.sh\0"
        b":100644 000000 1111 0000 D\0gone.c\0"
        b":000000 120000 0000 3333 A\0link\0"
    )
    changed, gone, link = read_raw(raw)
    assert changed == Entry(path="scripts/a b.sh", mode="100755", blob="2222", was="100644")
    assert not gone.there
    assert link.there
    assert read_raw(b"") == ()
