"""Faults that come on some boots only: the test, and how many boots it takes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import fisher_exact

from pipeline import odds
from pipeline.odds import Rates

COUNT = st.integers(0, 40)


@given(COUNT, COUNT, COUNT, COUNT)
def test_the_chance_is_that_of_fishers_exact_test(a: int, b: int, c: int, d: int) -> None:
    mine = odds.chance(a, a + b, c, c + d)
    assert mine == pytest.approx(fisher_exact([[a, b], [c, d]]).pvalue)


def test_eleven_of_fifty_against_none() -> None:
    rates = Rates(patched=11, of=50, base=0, of_base=50)
    assert rates.more_often
    assert rates.words("base") == (
        "11 of 50 patched, 0 of 50 base, p = 0.00053 (Fisher's exact test)"
    )


@pytest.mark.parametrize(
    ("patched", "of", "base", "of_base", "more"),
    [
        (5, 50, 0, 50, False),  # p = 0.056
        (6, 50, 0, 50, True),  # p = 0.027
        (20, 50, 5, 50, True),
        (5, 50, 20, 50, False),  # as unlikely, but it is base that has it more often
        (1, 2, 0, 2, False),
        (50, 50, 50, 50, False),
    ],
)
def test_more_often(patched: int, of: int, base: int, of_base: int, more: bool) -> None:
    assert Rates(patched=patched, of=of, base=base, of_base=of_base).more_often is more


def test_a_rate_of_one_in_five_takes_about_fifty_boots() -> None:
    """The issue's figure."""
    boots = odds.boots_for(0.2)
    assert 45 <= boots <= 55
    assert odds.power(0.2, boots) >= odds.POWER > odds.power(0.2, boots - 10)


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.5])
def test_that_many_boots_find_it_as_often_as_promised(rate: float) -> None:
    """Simulated with the test itself, without the shortcut that `power` takes."""
    boots, dice, runs = odds.boots_for(rate), random.Random(1), 2000
    found = 0
    for _ in range(runs):
        faulty = sum(dice.random() < rate for _ in range(boots))
        found += odds.chance(faulty, boots, 0, boots) < odds.ALPHA
    assert found / runs >= odds.POWER - 0.015  # three standard errors


def test_a_fault_that_both_have_as_often_is_seldom_taken_for_new() -> None:
    dice, runs, boots = random.Random(2), 2000, 50
    wrong = 0
    for _ in range(runs):
        patched, base = (sum(dice.random() < 0.2 for _ in range(boots)) for _ in range(2))
        wrong += Rates(patched=patched, of=boots, base=base, of_base=boots).more_often
    assert wrong / runs <= odds.ALPHA / 2


def test_what_it_would_take_to_tell() -> None:
    rates = Rates(patched=1, of=5, base=0, of_base=5)
    assert f"takes {odds.boots_for(0.2)} boots of each (--odds 0.2)" in rates.needed
    rare = Rates(patched=1, of=1000, base=0, of_base=1000)
    assert f"{odds.MOST} or more boots" in rare.needed
