"""`ktrial ktap`: what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline import ktapverb
from pipeline.errors import UserError
from pipeline.scope import Scope

GOOD = "KTAP version 1\n1..2\nok 1 a\nok 2 b # SKIP why\n"
BAD = "KTAP version 1\n1..2\nnot ok 1 ä\n"


def examine(path: Path, text: str, *, as_json: bool = False) -> tuple[int, str]:
    log = path / "a.log"
    log.write_text(text, encoding="utf-8")
    return ktapverb.examine(str(log), as_json=as_json, scope=Scope())


def test_text(tmp_path: Path) -> None:
    assert examine(tmp_path, GOOD) == (
        0,
        "passed   a\nskipped  b  # why\n2 tests: 1 passed, 1 skipped; complete\n",
    )
    assert examine(tmp_path, BAD) == (
        1,
        "failed   ä\nnot-run  2\nproblem  line 2: 2 tests planned, 1 found\n"
        "2 tests: 1 failed, 1 not-run; incomplete\n",
    )


def test_json(tmp_path: Path) -> None:
    code, text = examine(tmp_path, BAD, as_json=True)
    assert code == 1
    assert json.loads(text) == {
        "cases": [
            {"name": "ä", "status": "failed", "line": 3, "detail": "", "said": []},
            {"name": "2", "status": "not-run", "line": 1, "detail": "", "said": []},
        ],
        "plan": 2,
        "complete": False,
        "problems": ["line 2: 2 tests planned, 1 found"],
        "documents": [{"line": 1, "version": "KTAP 1", "plan": 2, "complete": False}],
    }


def test_what_a_failed_test_said_stands_below_it(tmp_path: Path) -> None:
    code, text = examine(tmp_path, "KTAP version 1\n1..1\n# a: no\n#   expected b\nnot ok 1 a\n")
    assert (code, text.splitlines()[:3]) == (
        1,
        ["failed   a", "           a: no", "           expected b"],
    )


def test_what_moves_the_terminals_cursor_or_turns_its_text_is_shown(tmp_path: Path) -> None:
    _, text = examine(tmp_path, "KTAP version 1\n1..1\nok 1 a\x9b31m\u202eb\n")
    assert text.startswith("passed   a\\x9b31m\\")
    assert text.endswith("b\n1 test: 1 passed; complete\n")


def test_lines_across_pieces() -> None:
    assert list(ktapverb._lines([b"a", b"b\n\nc", b"", b"\n", b"d"])) == [b"ab", b"", b"c", b"d"]
    assert list(ktapverb._lines([b"a\n", b""])) == [b"a"]


@pytest.mark.parametrize("text", ["", "Linux version 6.12\n", "all is ok\n"])
def test_no_ktap_is_bad_input(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match="no KTAP"):
        examine(tmp_path, text)


def test_what_cannot_be_read_is_bad_input(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(UserError, match=str(path)):
            ktapverb.examine(str(path), as_json=False, scope=Scope())
