"""`--cover`: a kernel in a configuration with those changed lines that no other one compiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from pipeline import coverage, kconfig
from pipeline.model import (
    Build,
    BuildFailure,
    ConfigFailure,
    Cover,
    Covered,
    Examination,
    Fragment,
    LostSymbol,
)

# A symbol that comes out otherwise is given up, and what depends on it comes to light then.
TRIES = 4

Make = Callable[[Fragment], Build | BuildFailure | ConfigFailure]
Examine = Callable[[Build, Fragment], Examination]


@dataclass(frozen=True, kw_only=True)
class _Made:
    """What came of building with the fragment. `lost`: what had to be given up for it."""

    fragment: Fragment | None
    outcome: Build | BuildFailure | ConfigFailure | None = None
    lost: tuple[LostSymbol, ...] = field(default_factory=tuple)


def cover(wanted: Cover, *, make: Make, examine: Examine) -> Covered:
    """Build with the settings of `wanted` on top, as far as the tree gives them, and see which
    lines are compiled then. What it does not give is told, and ends nothing.

    Raises:
        InfraError: as `make` and `examine` do.
    """
    made = _make(wanted, make)
    whole = Covered(cover=wanted, lost=made.lost)
    if isinstance(made.outcome, Build):
        assert made.fragment is not None
        found = examine(made.outcome, made.fragment)
        return replace(whole, examination=found, seconds=made.outcome.seconds)
    if made.outcome is None:
        nothing = "the tree gives none of its settings" if made.lost else ""
        return replace(whole, problem=nothing)
    return replace(whole, problem=_problem(made.outcome))


def _make(wanted: Cover, make: Make) -> _Made:
    made = _Made(fragment=coverage.fragment(wanted.symbols))
    for _ in range(TRIES):
        fragment = made.fragment
        if fragment is None:
            return replace(made, outcome=None)
        outcome = make(fragment)
        made = replace(made, outcome=outcome)
        if not (isinstance(outcome, ConfigFailure) and outcome.lost):
            return made
        symbols = without(fragment.symbols, outcome.lost)
        mine = tuple(each for each in outcome.lost if each.fragment == coverage.COVER)
        given_up = mine or outcome.lost
        made = _Made(
            fragment=coverage.fragment(symbols), outcome=outcome, lost=(*made.lost, *given_up)
        )
    return made


def without(symbols: Mapping[str, str], lost: tuple[LostSymbol, ...]) -> dict[str, str]:
    """The settings without those that came out otherwise. What another fragment asks for in vain
    beside them is taken as it comes."""
    mine = {each.symbol for each in lost if each.fragment == coverage.COVER}
    left = {name: value for name, value in symbols.items() if name not in mine}
    if mine:
        return left
    return left | {
        each.symbol: kconfig.NOT_SET if each.got == "not set" else each.got for each in lost
    }


def _problem(failure: BuildFailure | ConfigFailure) -> str:
    if isinstance(failure, BuildFailure):
        return str(failure)
    return failure.words
