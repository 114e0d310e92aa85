"""Mails held against their own diffstat and against the commits that they gave."""

from __future__ import annotations

from dataclasses import replace

from pipeline.faithful import Commit, claims, compare
from pipeline.model import Diffstat, Patch, Series
from tests.unit.test_diffs import PLAIN

PATCH = Patch(
    number=1,
    subject="mm: x",
    author="Ada",
    email="ada@example.org",
    files=("mm/slub.c",),
    mail=b"From: Ada <ada@example.org>\nSubject: [PATCH] mm: x\n\n---\n" + PLAIN.encode(),
    claimed=Diffstat(files=1, insertions=2, deletions=1, lines={"mm/slub.c": 3}),
)
COMMIT = Commit(
    id="c1",
    author="Ada",
    email="ada@example.org",
    subject="mm: x",
    files=("mm/slub.c",),
    lines={"mm/slub.c": (2, 1)},
    modes={"mm/slub.c": "100644"},
    blobs={"mm/slub.c": ("1234567" + "0" * 33, "89abcde" + "0" * 33)},
)


def series(*patches: Patch) -> Series:
    return Series(name="x", origin="x", patches=patches)


def test_what_agrees_is_no_finding() -> None:
    assert compare(series(PATCH), (COMMIT,)) == ()
    assert claims(series(PATCH)) == ()
    assert claims(series(replace(PATCH, claimed=None))) == ()


def test_author_address_subject_and_number() -> None:
    other = replace(COMMIT, author="Bob\u202e", email="bob@example.org", subject="mm: y")
    told = compare(series(PATCH, PATCH), (other,))
    assert told[0] == "2 patches gave 1 commits"
    assert "its author is “Ada”, the commit's “Bob\\u202e”" in told[1]
    assert "its address is “ada@example.org”" in told[2]
    assert "its subject is “mm: x”, the commit's “mm: y”" in told[3]


def test_a_file_that_is_not_what_the_index_line_names() -> None:
    edited = replace(COMMIT, blobs={"mm/slub.c": ("1234567" + "0" * 33, "f" * 40)})
    (told,) = compare(series(PATCH), (edited,))
    assert "mm/slub.c is not what its index line names" in told
    # Nothing is known of what comes out of another file than the sender's.
    merged = replace(COMMIT, blobs={"mm/slub.c": ("e" * 40, "f" * 40)})
    assert compare(series(PATCH), (merged,)) == ()


def test_a_moved_file_and_a_new_binary_are_held_against_their_names() -> None:
    text = (
        "diff --git a/a.c b/b.c\nsimilarity index 90%\nrename from a.c\nrename to b.c\n"
        "index 1234567..89abcde 100644\n--- a/a.c\n+++ b/b.c\n@@ -1 +1 @@\n-x\n+y\n"
        f"diff --git a/d.bin b/d.bin\nnew file mode 100644\nindex {'0' * 40}..{'d' * 40}\n"
        "GIT binary patch\nliteral 1\nIcmZPo000310RR91\n\n"
    )
    patch = replace(PATCH, mail=PATCH.mail.partition(b"diff ")[0] + text.encode())
    good = replace(
        COMMIT,
        files=("a.c", "b.c", "d.bin"),
        lines={"a.c": (0, 1), "b.c": (1, 0), "d.bin": None},
        blobs={
            "a.c": ("1234567" + "1" * 33, "0" * 40),
            "b.c": ("0" * 40, "89abcde" + "1" * 33),
            "d.bin": ("0" * 40, "d" * 40),
        },
    )
    assert compare(series(patch), (good,)) == ()
    for path in ("b.c", "d.bin"):
        bad = replace(good, blobs={**good.blobs, path: ("0" * 40, "f" * 40)})
        assert [path in told for told in compare(series(patch), (bad,))] == [True]


def test_a_folded_subject_is_the_same() -> None:
    assert compare(series(replace(PATCH, subject="mm:\n  x")), (COMMIT,)) == ()


def test_files_and_lines_of_the_commit() -> None:
    other = replace(COMMIT, files=("mm/slub.c", "mm/more.c"), lines={"mm/slub.c": (1, 1)})
    told = compare(series(PATCH), (other,))
    assert told == (
        "patch 1: the commit changes mm/more.c, its diff does not",
        "patch 1: its diff has +2 -1 lines in mm/slub.c, the commit +1 -1",
    )
    (lost,) = compare(series(PATCH), (replace(COMMIT, files=(), lines={}),))
    assert lost == "patch 1: its diff has mm/slub.c, the commit has not"


def test_renames_count_as_both_names_and_not_by_lines() -> None:
    diff = (
        "diff --git a/one b/two\nsimilarity index 90%\nrename from one\nrename to two\n"
        "index 1234567..89abcde 100644\n--- a/one\n+++ b/two\n@@ -1 +1 @@\n-a\n+b\n"
    )
    patch = replace(
        PATCH,
        mail=b"Subject: x\n\n" + diff.encode(),
        claimed=Diffstat(files=1, insertions=1, deletions=1),
    )
    commit = replace(COMMIT, files=("one", "two"), lines={"one": (0, 9), "two": (9, 0)})
    assert compare(series(patch), (commit,)) == ()
    assert claims(series(patch)) == ()


def test_a_diffstat_that_does_not_fit_the_diff() -> None:
    wrong = Diffstat(files=2, insertions=5, deletions=1, lines={"mm/slub.c": 6, "mm/gone.c": 1})
    told = claims(series(replace(PATCH, claimed=wrong)))
    assert told == (
        "patch 1: its diffstat says 2 files, its diff has 1",
        "patch 1: its diffstat says +5 -1 lines, its diff has +2 -1",
        "patch 1: its diffstat says 6 lines in mm/slub.c, its diff has 3",
        "patch 1: its diffstat names mm/gone.c, its diff does not",
    )


def test_two_changes_of_one_file_are_added_up() -> None:
    twice = replace(PATCH, mail=PATCH.mail + PLAIN.encode())
    assert compare(series(twice), (replace(COMMIT, lines={"mm/slub.c": (4, 2)}),)) == ()
