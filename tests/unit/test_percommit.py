"""A series as a chain of kernels."""

from __future__ import annotations

from dataclasses import replace

from pipeline import nodes, percommit, plan
from pipeline.budget import Node
from pipeline.model import KernelPlan, Patch, Role, Series
from pipeline.nodes import Demand
from tests import runs

THREE = Series(
    name="s",
    origin="s.mbox",
    patches=tuple(
        Patch(number=n, subject=f"patch {n}", author="A", email="a@example.org", mail=b"x")
        for n in (1, 2, 3)
    ),
    problems=("odd",),
)
FIX = KernelPlan(name="fix", role=Role.PATCHED, on="prerequisite", series=THREE)
CHAIN = percommit.split((runs.BASE, runs.PREREQUISITE, FIX))


def todo(**more: object) -> list[Node]:
    made = plan.make(replace(runs.scenario(CHAIN), **more))  # type: ignore[arg-type]
    return nodes.nodes(made, lambda _: Demand())


def test_each_patch_stands_on_the_one_before() -> None:
    assert [(k.name, k.on, k.boots) for k in CHAIN] == [
        ("base", None, True),
        ("prerequisite", "base", True),
        ("fix-1", "prerequisite", False),
        ("fix-2", "fix-1", False),
        ("fix", "fix-2", True),
    ]
    last = CHAIN[-1].series
    assert last and [p.number for p in last.patches] == [3]
    assert last.whole == 3
    assert last.problems == ("odd",)
    first = CHAIN[2].series
    assert first and first.whole == 3 and not first.problems


def test_commits_of_a_range_keep_their_commits() -> None:
    patches = tuple(replace(p, commit=f"c{p.number}", mail=b"") for p in THREE.patches)
    ranged = KernelPlan(
        name="patched", role=Role.PATCHED, series=replace(THREE, patches=patches), commit="c3"
    )
    chain = percommit.split((runs.BASE, ranged))
    assert [k.commit for k in chain] == [None, "c1", "c2", "c3"]


def test_one_patch_is_no_chain() -> None:
    alone = replace(FIX, series=replace(THREE, patches=THREE.patches[:1]))
    assert percommit.split((alone,)) == (alone,)


def test_all_are_built_in_their_order_and_only_the_last_boots() -> None:
    made = {node.id: node for node in todo()}
    assert "build.x86_64.fix-1" in made["build.x86_64.fix-2"].after
    assert made["build.x86_64.fix-2"].needs == ("apply.fix-2",)
    booted = {name.split(".")[3] for name in made if ".block" in name}
    assert booted == {"base", "prerequisite", "fix"}
    assert "examine.x86_64.fix" in made and "examine.x86_64.fix-1" not in made


def test_a_check_is_held_against_the_patch_before() -> None:
    made = {node.id: node for node in todo(checks=("sparse",))}
    assert made["check.x86_64.fix-2.sparse"].needs == ("build.x86_64.fix-2", "build.x86_64.fix-1")
    first = made["check.x86_64.fix-1.sparse"].needs
    assert first == ("build.x86_64.fix-1", "build.x86_64.prerequisite")
