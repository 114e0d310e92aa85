"""Trials: what is compared with what, what cannot be, and how it is told."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from pipeline import nodes, plan, trials, trialview
from pipeline.budget import Budget
from pipeline.effects import Judgement
from pipeline.model import (
    Better,
    BootId,
    BootResult,
    Evidence,
    KernelPlan,
    Phase,
    Plan,
    Role,
    Run,
    Scenario,
    Trial,
)
from pipeline.nodes import Demand
from pipeline.trials import Compared
from tests import runs

TWO = (runs.BASE, runs.PATCHED)
Value = Callable[[str, int], float | None]


def made(kernels: tuple[KernelPlan, ...] = TWO, boots: int = 6, **more: object) -> Plan:
    found: Scenario = replace(runs.scenario(kernels, boots=boots), **more)  # type: ignore[arg-type]
    return plan.make(found)


def result(boot: BootId, value: float | None, unit: str = "s", metric: str = "time") -> BootResult:
    sample = runs.sample(
        "hackbench",
        metric,
        value or 0.0,
        phase=Phase.WORKLOAD,
        unit=unit,
        better=Better.LOWER,
    )
    samples = () if value is None else (sample,)
    return replace(runs.good_boot(boot), samples=samples)


def booted(of: Plan, value: Value, units: Mapping[str, str] | None = None) -> list[BootResult]:
    return [
        result(boot, value(boot.kernel, boot.block), (units or {}).get(boot.kernel, "s"))
        for boot in of.boots
    ]


def noisy(factor: float, noise: float = 0.01) -> Value:
    dice = random.Random(9)

    def value(kernel: str, _: int) -> float:
        return dice.gauss(1, noise) * (factor if kernel == "patched" else 1)

    return value


def one(of: Plan, value: Value, units: Mapping[str, str] | None = None) -> Compared:
    (found,) = trials.compare(of, booted(of, value, units))
    return found


def test_a_slower_kernel_is_regressed() -> None:
    found = one(made(), noisy(1.3))
    assert found.judgement is Judgement.REGRESSED
    assert found.effect and found.effect.ratio == pytest.approx(1.3, rel=0.03)
    assert (found.base, found.kernel, found.name) == ("base", "patched", "hackbench/time")


def test_the_same_kernel_is_no_change_or_inconclusive() -> None:
    assert one(made(), noisy(1.0, 0.001)).judgement is Judgement.NO_CHANGE
    found = one(made(), noisy(1.0, 0.05))
    assert found.judgement is Judgement.INCONCLUSIVE
    assert found.detectable and found.detectable > 0.05
    assert found.boots_for_margin and found.boots_for_margin > 50


@pytest.mark.parametrize(
    ("value", "units", "words"),
    [
        (lambda kernel, _: None if kernel == "patched" else 1.0, None, "no boot of patched gave"),
        (lambda kernel, _: 0.0 if kernel == "base" else 1.0, None, "not positive"),
        (lambda *_: -1.0, None, "not positive"),
        (lambda *_: 1.0, {"patched": "ms"}, "unit changes: ms, s"),
        (lambda _, block: 1.0 if block == 0 else None, None, "one boot of each"),
    ],
)
def test_bad_numbers_are_inconclusive_by_name(
    value: Value, units: Mapping[str, str] | None, words: str
) -> None:
    found = one(made(), value, units)
    assert found.judgement is Judgement.INCONCLUSIVE
    assert words in found.problem
    assert found.effect is None


def test_equal_values_are_no_change_and_exact_ones_a_change() -> None:
    assert one(made(), lambda *_: 2.0).judgement is Judgement.NO_CHANGE
    found = one(made(), lambda kernel, _: 3.0 if kernel == "patched" else 2.0)
    assert found.judgement is Judgement.REGRESSED
    assert found.effect and (found.effect.low, found.effect.high) == pytest.approx((1.5, 1.5))


def test_only_blocks_that_both_have_are_compared() -> None:
    found = one(made(), lambda kernel, block: None if (kernel, block) == ("base", 2) else 1.0)
    assert len(found.values) == len(found.base_values) == 5


def test_repeated_measurements_of_a_boot_are_one_sample() -> None:
    of = made()
    boots = [
        replace(each, samples=(*each.samples, *result(each.boot, 3.0).samples))
        for each in booted(of, lambda *_: 1.0)
    ]
    (found,) = trials.compare(of, boots)
    assert set(found.values) == {2.0}
    assert len(found.values) == 6


def test_the_family_has_every_cell_kernel_and_metric() -> None:
    of = made(runs.KERNELS, guests=("smp1", "smp2"))
    boots = [
        replace(each, samples=(*each.samples, *result(each.boot, 1.0, metric="other").samples))
        for each in booted(of, lambda *_: 1.0)
    ]
    assert trials.family(of, boots) == 2 * 1 * 2
    three = made(
        runs.KERNELS,
        guests=("smp1", "smp2"),
        trials=(Trial(name="all", base="base", metrics=("hackbench/*",)),),
    )
    assert trials.family(three, boots) == 2 * 2 * 2


def test_a_trial_has_metrics_of_its_own() -> None:
    probe = Trial(name="slab", metrics=("slab-memory/Slab@after-drop",), margin=0.01)
    of = made(trials=(probe,))
    found = trials.compare(of, [runs.good_boot(boot) for boot in of.boots])
    assert [(each.name, each.margin) for each in found] == [("slab-memory/Slab@after-drop", 0.01)]


def test_few_boots_are_no_trial_by_themselves() -> None:
    assert trials.wanted(made(boots=2).scenario) == ()
    assert trials.wanted(made(boots=3).scenario)
    alone = (KernelPlan(name="tree", role=Role.PATCHED, commit="c"),)
    assert trials.wanted(made(alone, boots=9).scenario) == ()


def test_an_outlier_is_shown_and_not_dropped() -> None:
    found = one(made(boots=8), lambda _, block: 9.0 if block == 3 else 1 + block / 1000)
    assert any("block 3 lies far" in note for note in found.notes)
    assert 9.0 in found.values


def test_looks_come_between_blocks_where_a_trial_is_sequential() -> None:
    plain = made(boots=4)
    assert not any(node.id.startswith("look") for node in nodes.nodes(plain, lambda _: Demand()))
    todo = {node.id: node for node in nodes.nodes(replace(plain, sequential=True), _weightless)}
    looks = [name for name in todo if name.startswith("look")]
    cell = plain.cells[0].name
    assert looks == [f"look.{cell}.block{n}" for n in (1, 2, 3)]
    third = next(node for name, node in todo.items() if name.endswith("base.block2.boot0"))
    assert f"look.{cell}.block2" in third.needs
    assert nodes.limited(Budget(cores=2, memory=4096), list(todo.values()))


def _weightless(_: object) -> Demand:
    return Demand()


def test_the_text_has_mmtests_layout_and_says_what_decides() -> None:
    of = made()
    boots = tuple(booted(of, noisy(1.3)))
    text = "\n".join(trialview.lines(_run(of, boots)))
    assert "Amean  hackbench/time (s)" in text
    assert "(   0.00%)" in text
    assert "*-" in text.replace(" ", "")  # a loss, with a star: lower is better
    assert "regressed" in text and "yes (at 2 %)" in text
    assert "Bonferroni over 1 comparisons" in text
    assert "Boots a side to detect an effect at the noise" in text


def test_what_is_inconclusive_says_what_could_have_been_seen() -> None:
    of = made()
    text = "\n".join(trialview.lines(_run(of, tuple(booted(of, noisy(1.0, 0.05))))))
    assert "inconclusive: these boots would have seen" in text
    assert "it takes" in text
    assert "*" not in text.split("trial")[1].split("ratio")[0]


def _run(of: Plan, boots: tuple[BootResult, ...]) -> Run:
    return Run(
        id="r",
        plan=of,
        evidence=Evidence(boots=boots),
        cases=(),
        folder=runs.ROOT,
        command="ktrial run",
        started=0.0,
        ended=1.0,
    )
