"""What is told apart, and refused, before anything is read."""

from __future__ import annotations

import pytest

from pipeline.errors import UserError
from pipeline.intake import Request, _is_range, check


@pytest.mark.parametrize(
    ("text", "is_range"),
    [
        ("A..B", True),
        ("v6.12..", True),
        ("origin/main..topic", True),
        ("HEAD@{1}..HEAD", True),
        ("../up.mbox", False),
        ("a/../../b.mbox", False),
        ("topic", False),
        ("..topic", False),
    ],
)
def test_ranges(text: str, is_range: bool) -> None:
    assert _is_range(text) is is_range


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request(sources=("x",), rev="HEAD"), "tries the tree as it is, without x"),
        (Request(rev="HEAD", base="v1"), "--base has no meaning here"),
        (Request(sources=("A..B",), base="v1"), "--base has no meaning here"),
    ],
)
def test_what_would_leave_out_a_part_of_what_was_asked_for(request_: Request, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        check(request_)
    assert caught.value.hint


def test_what_makes_sense() -> None:
    for fine in (
        Request(sources=("x",), base="v1"), Request(rev="HEAD"), Request(sources=("A..B",)),
    ):  # fmt: skip
        check(fine)
