"""What `ktrial series` prints."""

from __future__ import annotations

import json
from dataclasses import replace

from pipeline.faithful import Commit
from pipeline.model import LeftOut, Patch
from pipeline.seriesview import SeriesView, as_json, as_text

PATCH = Patch(
    number=1, subject="mm: x", author="Ada", email="ada@example.org", files=("mm/slub.c", "b\udcff")
)
VIEW = SeriesView(
    source="my.mbox",
    name="my",
    version=2,
    patches=(PATCH,),
    left_out=(LeftOut(subject="Re: x", author="Bob", message_id="r@x", reason="a reply"),),
    notes=("v2 is taken",),
    tree="linux",
    base="a" * 40,
    rule="base-commit",
    base_words="aaaaaaaaaaaa, the series' base-commit",
    applies=True,
    commits=(
        Commit(id="c" * 40, author="Ada", email="ada@example.org", subject="mm: x", files=("f",)),
    ),
    problems=("applied with a three-way merge",),
)


def test_json_has_what_is_promised() -> None:
    found = json.loads(as_json(VIEW))
    assert found["schema"] == 1
    assert found["version"] == 2
    assert found["patches"][0] == {
        "n": 1, "author": "Ada", "email": "ada@example.org", "subject": "mm: x",
        "files": ["mm/slub.c", "b\\xff"], "message_id": "",
    }  # fmt: skip
    assert found["left_out"][0]["reason"] == "a reply"
    assert found["missing"] == []
    assert (found["base"], found["base_rule"], found["applies"]) == ("a" * 40, "base-commit", True)
    assert found["commits"][0]["subject"] == "mm: x"
    assert found["problems"] == ["applied with a three-way merge"]
    assert VIEW.exit_code == 0


def test_json_explains_a_failure_and_hides_nothing() -> None:
    words = "error: patch failed: a:1\nthe mail's white space is damaged"
    view = replace(VIEW, applies=False, failure="no \u202ex", details=words, problems=("\x1b[1m",))
    found = json.loads(as_json(view))
    assert found["details"] == words
    assert found["problems"] == ["no \\u202ex", "the mail's white space is damaged", "\\x1b[1m"]


def test_without_a_tree_it_does_not_say_whether_it_applies() -> None:
    view = replace(VIEW, tree="", base="", applies=None, commits=())
    found = json.loads(as_json(view))
    assert (found["applies"], found["commits"], found["base"]) == (None, [], None)
    assert view.exit_code == 0
    assert "applies" not in as_text(view)


def test_where_it_does_not_apply() -> None:
    view = replace(VIEW, applies=False, failure="patch 1/1 “mm: x” does not apply", commits=())
    assert view.exit_code == 1
    assert json.loads(as_json(view))["problems"][0] == view.failure
    assert "applies: no\n  patch 1/1" in as_text(view)


def test_where_there_is_no_series() -> None:
    view = SeriesView(source="x", error="x is not complete", hint="save it all", missing=(2,))
    found = json.loads(as_json(view))
    assert view.exit_code == 2
    assert (found["missing"], found["version"], found["patches"]) == ([2], None, [])
    assert found["problems"] == ["x is not complete"]
    assert "save it all" in as_text(view)
    assert "missing: 2" in as_text(view)


def test_nothing_hidden_reaches_the_terminal() -> None:
    sly = replace(PATCH, subject="a\u202eb\x1b[2J", author="\u2066Eve", files=("x\ny",))
    view = replace(VIEW, patches=(sly,), problems=("\x07",))
    for text in (as_text(view), as_json(view)):
        assert not {each for each in text if not each.isprintable()} - {"\n"}
    assert "a\\u202eb\\x1b[2J" in as_text(view)
    assert json.loads(as_json(view))["patches"][0]["subject"] == sly.subject


def test_the_text_tells_all() -> None:
    text = as_text(VIEW)
    for words in (
        "my.mbox: v2, 1 patch", "1  mm: x", "Ada <ada@example.org>: mm/slub.c, b\\xff",
        "base: aaaaaaaaaaaa, the series' base-commit", "applies: yes", "cccccccccccc  mm: x",
        "left out: “Re: x” by Bob: a reply", "note: v2 is taken", "problem: applied with a three",
    ):  # fmt: skip
        assert words in text
