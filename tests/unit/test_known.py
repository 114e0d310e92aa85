"""Known issues: how a file is read, what matches, what has expired."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from pipeline import known
from pipeline.errors import UserError
from pipeline.model import Expected, Finding

TODAY = date(2026, 12, 1)
FINDING = Finding(
    kind="warning",
    title="WARNING in ring_add",
    line=7,
    excerpt="WARNING: …",
    fatal=False,
    count=3,
    fingerprint="0123456789abcdef",
)


def written(folder: Path, text: str) -> Path:
    path = folder / "known.toml"
    path.write_text(text)
    return path


def test_a_file(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        '[[issue]]\ntitle = "WARNING in ring_.*"\nnote = "slow ring"\nexpires = 2027-03-31\n'
        '[[issue]]\nfingerprint = "0123456789abcdef"\nnote = "b"\nexpires = "2027-01-01"\n'
        'workload = "hackbench"\narchitecture = "x86_64"\n',
    )
    assert known.read(path) == (
        Expected(
            note="slow ring", title="WARNING in ring_.*", expires="2027-03-31", origin=str(path)
        ),
        Expected(
            note="b",
            fingerprint="0123456789abcdef",
            expires="2027-01-01",
            workload="hackbench",
            architecture="x86_64",
            origin=str(path),
        ),
    )


def test_an_empty_file_has_none(tmp_path: Path) -> None:
    assert known.read(written(tmp_path, "")) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[issue]]\nnote = "a"\n', "neither of “fingerprint” and “title”"),
        ('[[issue]]\nnote = "a"\ntitle = "b"\nfingerprint = "c"\n', "both of"),
        ('[[issue]]\nnote = "a"\nfingerprint = "123"\n', "16 hexadecimal digits"),
        ('[[issue]]\nnote = "a"\ntitle = "ring("\n', "no regular expression"),
        ('[[issue]]\nnote = "a"\ntitle = "b"\nexpires = "soon"\n', "YYYY-MM-DD"),
        ('[[issue]]\nnote = "a"\ntitle = "b"\nexpires = "20270101"\n', "YYYY-MM-DD"),
        ('[[issue]]\nnote = " "\ntitle = "b"\n', "why this is no news"),
        ('[[issue]]\ntitle = "b"\n', "“note” is missing"),
        ('[[issue]]\nnote = "a"\ntitel = "b"\n', "did you mean title?"),
        ('[[issues]]\nnote = "a"\n', "did you mean issue?"),
        ('[[issue]]\nnote = "a"\ntitle = "b"\norigin = "c"\n', "unknown key “origin”"),
        ('issue = "a"\n', "[[issue]]"),
        ("issue = [", "not valid TOML"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        known.read(written(tmp_path, text))
    assert words in str(caught.value)
    assert "known.toml" in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not there"):
        known.read(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("expected", "is_matched"),
    [
        (Expected(note="n", fingerprint="0123456789abcdef"), True),
        (Expected(note="n", fingerprint="0123456789abcdee"), False),
        (Expected(note="n", title="WARNING in ring_.*"), True),
        (Expected(note="n", title="WARNING in ring"), False),  # the whole title
        (Expected(note="n", title="WARNING in .*", workload="hackbench"), True),
        (Expected(note="n", title="WARNING in .*", workload="boot"), False),
        (Expected(note="n", title="WARNING in .*", architecture="x86_64"), True),
        (Expected(note="n", title="WARNING in .*", architecture="aarch64"), False),
        (Expected(note="n", title="WARNING in .*", expires="2026-12-01"), True),  # its last day
        (Expected(note="n", title="WARNING in .*", expires="2026-11-30"), False),
        (Expected(note="n"), False),
    ],
)
def test_what_matches(expected: Expected, is_matched: bool) -> None:
    (marked,) = known.mark(
        [FINDING], [expected], workload="hackbench", architecture="x86_64", today=TODAY
    )
    assert marked.known == ("n" if is_matched else "")
    assert (marked.count, marked.title, marked.line) == (3, FINDING.title, 7)


def test_the_first_that_matches_gives_its_note() -> None:
    several = [Expected(note="a", title="no"), Expected(note="b", title="WARN.*"),
               Expected(note="c", title=".*")]  # fmt: skip
    (marked,) = known.mark([FINDING], several, workload="w", architecture="a", today=TODAY)
    assert marked.known == "b"


def test_what_has_expired_is_told() -> None:
    old = Expected(note="old", title=".*", expires="2026-11-30", origin="known.toml")
    used = Expected(note="used", title="WARNING in .*")
    (words,) = known.expired([old, used], TODAY)
    assert words == "known.toml: “old” has expired on 2026-11-30 and matches nothing any more"
