"""A check that found nothing out is none that passed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline import checking
from pipeline.model import Checked, Diagnostic

NEW = Diagnostic(tool="w1", file="mm/slub.c", line=1, function="", text="it is odd", kind="-Wodd")
NOTHING = Checked(check="w1")


@pytest.mark.parametrize(
    "told",
    [
        replace(NOTHING, read=1),
        replace(NOTHING, read=1, left_out=("mm/a.c: not built in this configuration",)),
        replace(NOTHING, new=(NEW,)),
        replace(NOTHING, problem="sparse is not installed"),
    ],
)
def test_what_was_read_or_has_a_reason_stays_as_it_is(told: Checked) -> None:
    assert checking.with_reason(told) == told


def test_nothing_read_is_a_problem_with_a_reason() -> None:
    assert checking.with_reason(NOTHING).problem == (
        "w1 read nothing: no object here is made of what changed"
    )
    left = tuple(f"mm/{n}.c: not built in this configuration" for n in range(9))
    found = checking.with_reason(replace(NOTHING, left_out=left))
    assert found.problem == f"w1 read nothing: {'; '.join(left[: checking.SHOWN])}"
