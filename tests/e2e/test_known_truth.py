"""Trials whose answer is known: patches that cost so many instructions, or so much time.

`-m full`: five kernels are built, and some forty guests booted.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import fmean

import pytest

from pipeline import record, trials
from pipeline.effects import Judgement, Matters
from pipeline.trials import Compared
from tests.e2e.conftest import HERE, Ktrial, Ran, rows

pytestmark = [pytest.mark.e2e, pytest.mark.full]

SHARE = ("--share", str(HERE / "share"))
# The interval is of the perturbations. That code lies elsewhere moves numbers too, the same way in
# each boot: what the kernel does now and then falls into the timed loop once more, or once less.
LAYOUT = 0.0005
OPERATIONS = 22_000  # of which the first tenth is not timed


def compared(ran: Ran) -> list[Compared]:
    assert ran.folder is not None
    run = record.load((ran.folder / "result.json").read_text())
    return list(trials.compare(run.plan, run.evidence.boots))


def consoles(ran: Ran) -> dict[str, bytes]:
    assert ran.folder is not None
    found = ran.folder.glob("cells/*/*/console.log")
    return {str(path.relative_to(ran.folder)): path.read_bytes() for path in found}


def spin() -> None:
    while True:
        pass


@contextmanager
def busy_cores() -> Iterator[None]:
    """As many loops without an end as the host has cores."""
    loops = [multiprocessing.Process(target=spin) for _ in range(os.cpu_count() or 1)]
    for each in loops:
        each.start()
    try:
        yield
    finally:
        for each in loops:
            each.kill()
            each.join()


def test_instructions_are_counted_whatever_the_host_does(ktrial: Ktrial) -> None:
    """A nop is an instruction, an instruction a nanosecond; each allocation passes them once."""
    idle = ktrial("run", str(HERE / "known_truth"), *SHARE)
    assert idle.exit_code == 1, idle.explain()  # 200 nops matter
    with busy_cores():
        busy = ktrial("run", str(HERE / "known_truth"), *SHARE)
    assert rows(busy) == rows(idle)
    assert consoles(busy) == consoles(idle)
    counts = {row.value for row in rows(idle) if (row.kernel, row.phase) == ("count", "after")}
    (each,) = {int(count) // OPERATIONS for count in counts}  # what the start takes is less
    assert each > 1
    found = {its.kernel: its for its in compared(idle)}
    for nops in (5, 20, 200):
        its = found[f"nops-{nops}"]
        assert its.effect is not None
        assert its.judgement in (Judgement.REGRESSED, Judgement.SMALL_REGRESSED), its
        truth = 1 + nops * each / fmean(its.base_values)
        print(f"{nops} nops, {each} times: {truth:.4f}, seen {its.effect}")
        assert its.effect.low - LAYOUT <= truth <= its.effect.high + LAYOUT


@pytest.mark.parametrize("ways", [(), ("--deterministic",)])
def test_hackbench_never_takes_slower_for_faster(ktrial: Ktrial, ways: tuple[str, ...]) -> None:
    """Its schedule is chaotic: small changes drown, and the answer says so.

    In time a nop costs an emulator nothing at all.
    """
    ran = ktrial("run", "nops-hackbench", *SHARE, *ways)
    found = compared(ran)
    assert len(found) == 3, ran.explain()
    for its in found:
        print(ways, its.kernel, its.judgement, its.effect, its.detectable)
        assert its.judgement not in (Judgement.IMPROVED, Judgement.SMALL_IMPROVED)
        assert its.judgement is not Judgement.INCONCLUSIVE or its.detectable


def test_a_path_that_is_a_third_slower_has_regressed(ktrial: Ktrial) -> None:
    """In time, on whatever host this is: detected, and it matters."""
    ran = ktrial("run", "slow-path", *SHARE)
    (its,) = compared(ran)
    print(its)
    assert its.effect is not None
    assert its.judgement is Judgement.REGRESSED, ran.explain()
    assert its.effect.matters(its.margin) is Matters.YES, ran.explain()
    assert its.effect.low < 1.6
    assert ran.exit_code == 1, ran.explain()
