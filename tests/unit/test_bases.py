"""Trailers that name prerequisites, and the blobs that a series finds."""

from __future__ import annotations

import pytest

from pipeline import bases, blobguess
from pipeline.bases import Given, asked_for, prerequisites, without_history
from pipeline.model import Patch, Series

ASKS = Series(
    name="x",
    origin="x",
    base_commit="1" * 40,
    prerequisites=("patch-id: abc", "message-id: <one@x>", "Change-Id: 2025-one:v2"),
)


def patch(number: int, diff: str) -> Patch:
    mail = f"From: a@b.c\nSubject: x\n\n---\n{diff}".encode()
    return Patch(number=number, subject="x", author="a", email="a@b.c", mail=mail)


def edited(path: str, old: str, new: str) -> str:
    return (
        f"diff --git a/{path} b/{path}\nindex {old}..{new} 100644\n--- a/{path}\n+++ b/{path}\n"
        "@@ -1 +1 @@\n-a\n+b\n"
    )


def created(path: str, new: str) -> str:
    return (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\nindex 0000000..{new}\n"
        f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+b\n"
    )


RENAMED = "diff --git a/x b/z\nsimilarity index 100%\nrename from x\nrename to z\n"
MODE = "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n"


def test_prerequisites_are_told_apart() -> None:
    assert prerequisites(ASKS) == (
        ("patch-id", "abc"), ("message-id", "<one@x>"), ("change-id", "2025-one:v2"),
    )  # fmt: skip
    names = frozenset({("message-id", "one@x"), ("change-id", "2025-one")})
    assert asked_for(prerequisites(ASKS), names) == set(prerequisites(ASKS)[1:])
    assert asked_for(prerequisites(ASKS), frozenset({("patch-id", "one@x")})) == frozenset()


def test_what_a_tree_of_one_commit_cannot_have() -> None:
    given = Given(
        series=Series(name="p", origin="p"),
        names=frozenset({("message-id", "one@x"), ("change-id", "2025-one")}),
    )
    assert without_history(ASKS, given, "debian:6.12") == (
        f"base-commit {'1' * 40} is not in debian:6.12",
        "prerequisite patch-id abc is neither in debian:6.12 nor among what was given",
    )
    assert len(without_history(ASKS, None, "debian:6.12")) == 4
    assert without_history(Series(name="x", origin="x"), None, "debian:6.12") == ()
    assert bases.BLOBS != bases.TRAILER


@pytest.mark.parametrize(
    ("diffs", "want"),
    [
        ((edited("x", "1111111", "2222222"),), {"x": "1111111"}),
        ((edited("x", "1111111", "2222222"), edited("x", "2222222", "3333333")), {"x": "1111111"}),
        ((created("n", "1111111"), edited("n", "1111111", "2222222")), {}),
        ((edited("x", "1111111", "2222222"), edited("y", "4444444", "5555555")),
         {"x": "1111111", "y": "4444444"}),
        ((edited("x", "1111111", "2222222"), RENAMED, edited("z", "2222222", "3333333")),
         {"x": "1111111"}),
        ((RENAMED, edited("z", "2222222", "3333333")), {}),
        ((MODE,), {}),
        ((edited("x", "1111111", "2222222"), "--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n"), {}),
    ],
)  # fmt: skip
def test_the_blobs_that_a_series_finds(diffs: tuple[str, ...], want: dict[str, str]) -> None:
    patches = tuple(patch(number, diff) for number, diff in enumerate(diffs, start=1))
    assert blobguess.before(Series(name="x", origin="x", patches=patches)) == want
