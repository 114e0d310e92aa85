"""A configuration with the changed lines that no other one compiles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pipeline import cover, coverage, coverview, evidence, nodes, plan
from pipeline.model import (
    Build,
    BuildFailure,
    Change,
    ChangedFile,
    ChangeKind,
    ConfigFailure,
    Cover,
    Covered,
    Examination,
    Fragment,
    HiddenLines,
    LostSymbol,
)
from pipeline.nodes import Demand
from pipeline.scheduler import Done
from tests import runs

SYMBOLS = {"CONFIG_X": "y", "CONFIG_Y": "y"}


def examination(compiled: Iterable[int] = (), hidden: Iterable[int] = ()) -> Examination:
    off = HiddenLines(lines=tuple(hidden), by="#ifdef CONFIG_X", options=("CONFIG_X=y",))
    file = ChangedFile(path="f.c", compiled=tuple(compiled), hidden=(off,) if off.lines else ())
    return Examination(change=Change(kind=ChangeKind.CODE), files=(file,))


def lost(symbol: str, fragment: str = coverage.COVER, got: str = "not set") -> LostSymbol:
    return LostSymbol(symbol=symbol, wanted="y", got=got, fragment=fragment, reason="depends on Z")


def failure(*symbols: LostSymbol) -> ConfigFailure:
    return ConfigFailure(kernel="fix", lost=symbols, words="it broke", log=Path("config.log"))


class Maker:
    """Gives the outcomes in order, and keeps what it was asked for."""

    def __init__(self, *outcomes: Build | BuildFailure | ConfigFailure) -> None:
        self.outcomes, self.asked = list(outcomes), list[dict[str, str]]()

    def make(self, extra: Fragment) -> Build | BuildFailure | ConfigFailure:
        assert extra.name == coverage.COVER
        self.asked.append(dict(extra.symbols))
        return self.outcomes.pop(0)

    def cover(self, symbols: dict[str, str]) -> Covered:
        def examine(built: Build, extra: Fragment) -> Examination:
            assert (built.kernel, dict(extra.symbols)) == ("fix", self.asked[-1])
            return examination((3,))

        return cover.cover(Cover(symbols=symbols), make=self.make, examine=examine)


def test_what_is_lost_is_given_up_and_told() -> None:
    maker = Maker(failure(lost("CONFIG_Y")), runs.build("fix"))
    found = maker.cover(SYMBOLS)
    assert maker.asked == [SYMBOLS, {"CONFIG_X": "y"}]
    assert found.examination == examination((3,))
    assert (found.lost, found.problem) == ((lost("CONFIG_Y"),), "")


def test_what_another_fragment_asks_for_in_vain_is_taken_as_it_comes() -> None:
    other = failure(lost("CONFIG_A", "base"), lost("CONFIG_B", "base", "m"))
    maker = Maker(other, runs.build("fix"))
    found = maker.cover({"CONFIG_X": "y"})
    assert maker.asked[1] == {"CONFIG_X": "y", "CONFIG_A": "n", "CONFIG_B": "m"}
    assert found.examination
    assert found.lost == other.lost


def test_a_tree_that_gives_none_of_it_or_never_all() -> None:
    found = Maker(failure(lost("CONFIG_X"))).cover({"CONFIG_X": "y"})
    assert (found.examination, found.problem) == (None, "the tree gives none of its settings")
    symbols = {f"CONFIG_{number}": "y" for number in range(9)}
    maker = Maker(*(failure(lost(symbol)) for symbol in symbols))
    assert maker.cover(symbols).problem == "it broke"
    assert len(maker.asked) == cover.TRIES


def test_a_build_that_breaks_is_told() -> None:
    broken = BuildFailure(
        kernel="fix", architecture="x86_64", error="oops", file="f.c", line=3, log=Path("l")
    )
    assert "f.c:3: oops" in Maker(broken).cover(SYMBOLS).problem


def test_nothing_is_built_where_nothing_is_missing() -> None:
    maker = Maker()
    found = maker.cover({})
    assert (maker.asked, found.problem, found.examination) == ([], "", None)
    (line,) = coverview.lines({}, {("x86_64", "fix"): found})
    assert "not needed" in line


def test_the_matrix_counts_what_cover_compiles() -> None:
    targets = {("x86_64", "fix"): examination((1,), (3, 5))}
    missing = "!! no target compiles these changed lines of fix: f.c:"
    assert f"{missing}3,5" in list(coverview.lines(targets))
    found = Covered(
        cover=Cover(symbols={"CONFIG_X": "y"}),
        lost=(lost("CONFIG_Y"),),
        examination=examination((1, 3), (5,)),
    )
    said = list(coverview.lines(targets, {("x86_64", "fix"): found}))
    assert "configuration cover: CONFIG_X=y" in said
    assert "changed lines of fix compiled for x86_64.cover: 2 of 3" in said
    assert any("given up: CONFIG_Y=y" in line and "depends on Z" in line for line in said)
    assert said[-1] == f"{missing}5"


def test_cover_comes_behind_all_that_was_examined() -> None:
    made = plan.make(runs.scenario(configurations=("plain", "debug")))
    assert not any(node.id.startswith("cover") for node in nodes.nodes(made, lambda _: Demand()))
    covering = replace(made, cover=True)
    listed = {node.id: node for node in nodes.nodes(covering, lambda _: Demand())}
    covers = [node for name, node in listed.items() if name.startswith("cover.")]
    assert covers
    for node in covers:
        kernel = node.id.split(".")[2]
        examined = {n for n in listed if n.startswith("examine.") and n.endswith(f".{kernel}")}
        assert examined
        assert examined <= {*node.needs, *node.after}
        assert set(node.needs) | set(node.after) <= set(listed)


def test_cover_is_gathered() -> None:
    made = plan.make(runs.scenario())
    found = Covered(cover=Cover(symbols={}))
    gathered = evidence.gather(made, (Done(id="cover.x86_64.fix", value=found),))
    assert gathered.covered == {("x86_64", "fix"): found}
