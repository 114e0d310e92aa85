"""What is read from a Makefile and from git's words."""

from __future__ import annotations

import pytest

from pipeline.model import Patch, Series
from pipeline.ranges import read_commits
from pipeline.repository import Reply
from pipeline.tree import read_version, refusal


@pytest.mark.parametrize(
    ("makefile", "version"),
    [
        ("#\nVERSION = 5\nPATCHLEVEL = 10\nSUBLEVEL = 262\nEXTRAVERSION =\nNAME = x", "5.10.262"),
        ("VERSION = 6\nPATCHLEVEL = 13\nSUBLEVEL = 0\nEXTRAVERSION = -rc1\n", "6.13.0-rc1"),
        ("all:\n\techo VERSION = 5\n", ""),
        ("VERSION = 5\n", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_the_version_is_read_from_the_makefile(makefile: str, version: str) -> None:
    assert read_version(makefile) == version


@pytest.mark.parametrize(
    ("words", "file", "hunk"),
    [
        ("error: patch failed: a/b.c:34\nerror: a/b.c: patch does not apply", "a/b.c", "34"),
        ("error: mm/gone.c: does not exist in index", "mm/gone.c", ""),
        ("error: mm/new.c: already exists in index", "mm/new.c", ""),
        ("error: cannot apply binary patch to 'logo.png' without full index line", "logo.png", ""),
        ("error: invalid path '../x'", "../x", ""),
        ("error: corrupt patch at line 12", "", ""),
        ("Patch is empty.", "", ""),
    ],
)  # fmt: skip
def test_a_refusal_names_patch_file_and_hunk(words: str, file: str, hunk: str) -> None:
    patches = tuple(
        Patch(number=n, subject=f"s{n}", author="Ada", email="ada@example.org") for n in (1, 2)
    )
    series = Series(name="x", origin="x", patches=patches)
    told = refusal(
        Reply(exit_code=128, output=b"Applying: s1\n", words=words),
        kernel="fix", series=series, number=2, log=None,
    )  # fmt: skip
    assert (told.patch.subject, told.of, told.file, told.hunk) == ("s2", 2, file, hunk)
    assert told.words in words


def test_commits_are_read_with_their_files() -> None:
    listing = (
        b"\x01c1\x02one\x02Ada\x02ada@example.org\x02\n\0a.c\0b c.c\0"
        b"\0\x01c2\x02empty\x02Bob\x02bob@example.org\x02\0"
    )
    one, two = read_commits(listing, first=5)
    assert (one.number, one.commit, one.files) == (5, "c1", ("a.c", "b c.c"))
    assert (two.number, two.subject, two.files) == (6, "empty", ())
