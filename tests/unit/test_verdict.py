"""Who is charged with what, and that nobody passes without evidence."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from pipeline import odds, outcomes, plan, verdict
from pipeline.model import (
    NO_SSH,
    Accelerator,
    ApplyFailure,
    BootResult,
    Build,
    BuildFailure,
    Case,
    Comparison,
    ConfigFailure,
    Diagnostic,
    EventResult,
    EventState,
    Evidence,
    Finding,
    LostSymbol,
    Outcome,
    Phase,
    Plan,
    Revision,
    Role,
    Stop,
)
from pipeline.slots import SHAPE
from tests import runs
from tests.runs import BASE, FIX, PATCHED, PREREQUISITE

PAIR = (BASE, PATCHED)
CELL = "num_present_cpus.x86_64.smp2of8.hackbench"

Key = TypeVar("Key")
Item = TypeVar("Item")


def judged(made: Plan, evidence: Evidence) -> dict[str, Case]:
    """Cases by “kernel name”, such as “fix boot”; the last part of the suite is the kernel."""
    cases = verdict.judge(made, evidence, root=runs.ROOT)
    return {f"{case.id.suite.rpartition('.')[2]} {case.id.name}": case for case in cases}


def build_failure(
    kernel: str, error: str = "expected ‘;’", file: str = "mm/slub.c"
) -> BuildFailure:
    return BuildFailure(
        kernel=kernel,
        architecture="x86_64",
        error=error,
        file=file,
        line=3433,
        log=runs.ROOT / "builds" / "build.log",
    )


def without(mapping: Mapping[Key, Item], key: Key) -> dict[Key, Item]:
    return {each: item for each, item in mapping.items() if each != key}


def breaks(kind: str = "panic", title: str = "Oops in calculate_order") -> dict[str, object]:
    """A kernel that panics while hackbench runs."""
    return {
        "stop": Stop.KERNEL,
        "reason": "the kernel panicked",
        "findings": (runs.finding(kind, title),),
        "outputs": (
            runs.output("slab-orders", Phase.AFTER_BOOT),
            runs.output("hackbench", status=None, text="", problem="the guest died"),
        ),
    }


WARNING = Diagnostic(
    tool="compiler",
    file="mm/slub.c",
    line=7,
    function="calculate_order",
    text="unused variable 'nr'",
    kind="-Wunused-variable",
)
PANICS_AT_BOOT = runs.PANICS_AT_BOOT


@pytest.fixture
def pair() -> Plan:
    return runs.plan(runs.scenario(PAIR))


@pytest.fixture
def three() -> Plan:
    return runs.plan()


# --------------------------------------------------------------------------- names


def test_names_are_stable_and_have_no_dots(three: Plan) -> None:
    names = [f"{each.suite} / {each.name}" for each in verdict.planned(three)]
    assert names[:6] == [
        "num_present_cpus.base / apply",
        "num_present_cpus.prerequisite / apply",
        "num_present_cpus.fix / apply",
        "num_present_cpus.x86_64.base / build",
        "num_present_cpus.x86_64.prerequisite / build",
        "num_present_cpus.x86_64.fix / build",
    ]
    assert names[6] == "num_present_cpus.x86_64.fix / warnings"
    assert names[7:12] == [
        f"{CELL}.base / boot",
        f"{CELL}.base / shape",
        f"{CELL}.base / hackbench",
        f"{CELL}.base / probe slab-orders",
        f"{CELL}.base / probe slab-memory",
    ]
    assert len(names) == 3 + 3 + 1 + 3 * 5


def test_names_that_differ_in_dots_alone_stay_apart() -> None:
    kernels = (replace(BASE, name="v6.1"), replace(BASE, name="v6_1"), PATCHED)
    ids = verdict.planned(runs.plan(runs.scenario(kernels, probes=("a.b", "a_b"))))
    assert len(set(ids)) == len(ids)
    assert not any("." in each.name for each in ids)


# --------------------------------------------------------------------------- all is well


def test_good_evidence_passes_everything(three: Plan) -> None:
    cases = verdict.judge(three, runs.good_evidence(three), root=runs.ROOT)
    assert {case.outcome for case in cases} == {Outcome.PASSED}
    assert outcomes.run_exit(cases) == 0
    boot = next(case for case in cases if case.id.name == "boot")
    assert boot.seconds == 3.5
    assert boot.evidence == "cells/x86_64.smp2of8.hackbench/base.block0.boot0"


def test_only_what_is_tried_with_the_series_is_on_trial(three: Plan) -> None:
    cases = judged(three, runs.good_evidence(three))
    trial = {name for name, case in cases.items() if case.on_trial}
    assert trial == {
        "fix boot",
        "fix shape",
        "fix hackbench",
        "fix probe slab-orders",
        "fix probe slab-memory",
    }


def test_where_nothing_is_booted_the_build_is_the_trial() -> None:
    made = plan.builds(runs.scenario(PAIR))
    cases = verdict.judge(made, runs.good_evidence(made))
    assert outcomes.run_exit(cases) == 0
    assert [case.id.name for case in cases if case.on_trial] == ["build", "warnings"]


# --------------------------------------------------------------------------- apply and build


def test_a_series_that_does_not_apply_is_charged_and_stops_the_rest(pair: Plan) -> None:
    assert PATCHED.series is not None
    failure = ApplyFailure(
        kernel="patched",
        patch=PATCHED.series.patches[0],
        of=1,
        file="mm/slub.c",
        hunk="3433",
        words="error: patch failed: mm/slub.c:3433",
        log=runs.ROOT / "apply.patched.log",
    )
    evidence = runs.good_evidence(pair)
    evidence = replace(
        evidence,
        revisions={**evidence.revisions, "patched": failure},
        builds=without(evidence.builds, ("x86_64", "patched")),
        boots=tuple(b for b in evidence.boots if b.boot.kernel == "base"),
    )
    cases = judged(pair, evidence)
    assert cases["patched apply"].outcome is Outcome.FAILED
    assert cases["patched apply"].unjudgeable
    assert cases["patched apply"].evidence == "apply.patched.log"
    assert "patch failed" in cases["patched apply"].detail
    for name in ("build", "boot", "hackbench", "probe slab-orders"):
        assert cases[f"patched {name}"].outcome is Outcome.NOT_RUN
        assert "needs patched to apply" in cases[f"patched {name}"].reason
    assert cases["base hackbench"].outcome is Outcome.PASSED
    assert outcomes.run_exit(cases.values()) == 1
    assert outcomes.bisect_exit(cases.values()) == 125


def test_not_applying_is_charged_even_where_base_was_lost(pair: Plan) -> None:
    assert PATCHED.series is not None
    patch = PATCHED.series.patches[0]
    failure = ApplyFailure(kernel="patched", patch=patch, of=1, file="", hunk="", words="")
    evidence = Evidence(revisions={"patched": failure}, faults={"apply.base": "disk full"})
    cases = judged(pair, evidence)
    assert cases["base apply"].outcome is Outcome.ERROR
    assert cases["patched apply"].outcome is Outcome.FAILED


def test_a_prerequisite_that_does_not_apply_is_not_charged_to_the_series(three: Plan) -> None:
    assert PREREQUISITE.series is not None
    failure = ApplyFailure(
        kernel="prerequisite",
        patch=PREREQUISITE.series.patches[0],
        of=1,
        file="",
        hunk="",
        words="",
    )
    evidence = runs.good_evidence(three)
    evidence = replace(evidence, revisions={**evidence.revisions, "prerequisite": failure})
    cases = judged(three, evidence)
    assert cases["prerequisite apply"].outcome is Outcome.BASE_BROKEN
    assert cases["fix apply"].outcome is Outcome.NOT_RUN
    assert "prerequisite to apply" in cases["fix apply"].reason
    assert cases["fix boot"].outcome is Outcome.NOT_RUN
    assert outcomes.run_exit(cases.values()) == 3


@pytest.mark.parametrize(
    ("base", "patched", "outcome"),
    [
        (None, build_failure("patched"), Outcome.FAILED),
        (build_failure("base"), build_failure("patched"), Outcome.BASE_BROKEN),
        # base has another error: one in the series' own file is the series', …
        (build_failure("base", file="fs/a.c"), build_failure("patched"), Outcome.FAILED),
        # … any other may be base's second, which make -j met first this time.
        (
            build_failure("base", file="fs/a.c"),
            build_failure("patched", file="fs/b.c"),
            Outcome.INCONCLUSIVE,
        ),
    ],
)
def test_build_failures(
    pair: Plan, base: BuildFailure | None, patched: BuildFailure, outcome: Outcome
) -> None:
    evidence = runs.good_evidence(pair)
    builds: dict[tuple[str, str], Build | BuildFailure | ConfigFailure] = dict(evidence.builds)
    builds["x86_64", "patched"] = patched
    if base:
        builds["x86_64", "base"] = base
    cases = judged(pair, replace(evidence, builds=builds))
    assert cases["patched build"].outcome is outcome
    assert cases["patched build"].unjudgeable is (outcome is Outcome.FAILED)
    assert cases["patched boot"].outcome is Outcome.NOT_RUN
    if base:
        assert cases["base build"].outcome is Outcome.BASE_BROKEN


def test_a_symbol_lost_on_the_patched_kernel_is_charged(pair: Plan) -> None:
    lost = LostSymbol(
        symbol="CONFIG_SLUB", wanted="y", got="n", fragment="base", reason="needs EXPERT"
    )
    evidence = runs.good_evidence(pair)
    failure = ConfigFailure(kernel="patched", lost=(lost,), words="", log=Path("x.log"))
    evidence = replace(evidence, builds={**evidence.builds, ("x86_64", "patched"): failure})
    case = judged(pair, evidence)["patched build"]
    assert case.outcome is Outcome.FAILED
    assert case.unjudgeable
    assert "CONFIG_SLUB=y" in case.reason


# --------------------------------------------------------------------------- boots


def test_a_panic_at_boot_is_charged(pair: Plan) -> None:
    cases = judged(pair, runs.change_boot(runs.good_evidence(pair), "patched", PANICS_AT_BOOT))
    assert cases["patched boot"].outcome is Outcome.FAILED
    assert cases["patched boot"].evidence.endswith("patched.block0.boot0/console.log")
    assert "Oops in calculate_order" in cases["patched boot"].reason
    assert cases["patched hackbench"].outcome is Outcome.NOT_RUN
    assert "Oops in calculate_order" in cases["patched hackbench"].reason
    assert outcomes.bisect_exit(cases.values()) == 1


def test_the_same_panic_on_base_is_base_s(pair: Plan) -> None:
    evidence = runs.change_boot(runs.good_evidence(pair), "patched", PANICS_AT_BOOT)
    cases = judged(pair, runs.change_boot(evidence, "base", PANICS_AT_BOOT))
    assert cases["base boot"].outcome is Outcome.BASE_BROKEN
    assert cases["patched boot"].outcome is Outcome.BASE_BROKEN
    assert cases["patched boot"].reason.startswith("base is broken too: ")
    assert outcomes.run_exit(cases.values()) == 3, "nothing could be judged"
    assert outcomes.bisect_exit(cases.values()) == 125


OTHER_PANIC = {**PANICS_AT_BOOT, "findings": (runs.finding(title="Oops in vfs_read"),)}


def test_a_panic_is_not_charged_where_base_got_no_further(pair: Plan) -> None:
    evidence = runs.change_boot(runs.good_evidence(pair), "patched", PANICS_AT_BOOT)
    case = judged(pair, runs.change_boot(evidence, "base", OTHER_PANIC))["patched boot"]
    assert case.outcome is Outcome.INCONCLUSIVE
    assert "Oops in calculate_order" in case.reason
    assert "cannot be held against base: Oops in vfs_read" in case.reason


def test_a_panic_is_charged_where_base_complains_and_goes_on(pair: Plan) -> None:
    warning = runs.finding("warning", "mm/page_alloc.c:123", fatal=False)
    evidence = runs.change_boot(runs.good_evidence(pair), "patched", PANICS_AT_BOOT)
    cases = judged(pair, runs.change_boot(evidence, "base", {"findings": (warning,)}))
    assert cases["patched boot"].outcome is Outcome.FAILED


def test_one_boot_of_base_that_got_past_is_enough() -> None:
    made = runs.plan(runs.scenario(PAIR, boots=2))
    evidence = runs.change_boot(runs.good_evidence(made), "patched", PANICS_AT_BOOT)
    evidence = runs.change_boot(evidence, "base", OTHER_PANIC, block=0)
    assert judged(made, evidence)["patched boot"].outcome is Outcome.FAILED
    evidence = runs.change_boot(evidence, "base", OTHER_PANIC, block=1)
    assert judged(made, evidence)["patched boot"].outcome is Outcome.INCONCLUSIVE


def test_what_comes_after_base_broke_down_is_not_charged(pair: Plan) -> None:
    """Base came up and died under hackbench: it might have complained later, too."""
    warning = runs.finding("warning", "mm/slub.c:99 {calculate_order}", fatal=False)
    evidence = runs.change_boot(runs.good_evidence(pair), "patched", {"findings": (warning,)})
    cases = judged(pair, runs.change_boot(evidence, "base", breaks()))
    assert cases["base boot"].outcome is Outcome.PASSED
    assert cases["patched boot"].outcome is Outcome.INCONCLUSIVE
    assert "base: during hackbench: Oops in" in cases["patched boot"].reason


def test_a_panic_under_the_workload_belongs_to_the_workload(pair: Plan) -> None:
    cases = judged(pair, runs.change_boot(runs.good_evidence(pair), "patched", breaks()))
    assert cases["patched boot"].outcome is Outcome.PASSED
    assert cases["patched hackbench"].outcome is Outcome.FAILED
    assert cases["patched probe slab-memory"].outcome is Outcome.NOT_RUN
    assert "needs hackbench" in cases["patched probe slab-memory"].reason


@pytest.mark.parametrize(("ends", "outcome"), [(True, Outcome.FAILED), (False, Outcome.ERROR)])
def test_what_ends_a_guest_while_it_is_looked_at_is_not_lost(
    *, ends: bool, outcome: Outcome, pair: Plan
) -> None:
    """No workload and no probe has begun: of all cases only the shape's can tell of it."""
    lost = runs.output(SHAPE, Phase.AFTER_BOOT, status=None, text="", problem="no answer")
    change: dict[str, object] = {"outputs": (lost,), "differences": None}
    if ends:
        change |= {"stop": Stop.KERNEL, "findings": (runs.finding("panic", "kernel panic: x"),)}
    cases = judged(pair, runs.change_boot(runs.good_evidence(pair), "patched", change))
    assert cases["patched shape"].outcome is outcome
    assert cases["patched hackbench"].outcome is Outcome.NOT_RUN


def test_a_panic_that_base_has_in_another_step_is_base_s_all_the_same(pair: Plan) -> None:
    evidence = runs.change_boot(runs.good_evidence(pair), "patched", PANICS_AT_BOOT)
    cases = judged(pair, runs.change_boot(evidence, "base", breaks()))
    assert cases["base hackbench"].outcome is Outcome.BASE_BROKEN
    assert cases["patched boot"].outcome is Outcome.BASE_BROKEN


def test_a_fault_is_held_against_the_nearest_kernel_below(three: Plan) -> None:
    """Base is fine; what the prerequisite brings is not charged to the fix on top of it."""
    evidence = runs.change_boot(runs.good_evidence(three), "fix", breaks())
    assert judged(three, evidence)["fix hackbench"].outcome is Outcome.FAILED
    cases = judged(three, runs.change_boot(evidence, "prerequisite", breaks()))
    assert cases["base hackbench"].outcome is Outcome.PASSED
    assert cases["prerequisite hackbench"].outcome is Outcome.BASE_BROKEN
    assert cases["fix hackbench"].outcome is Outcome.BASE_BROKEN
    assert "prerequisite “prerequisite” is broken too" in cases["fix hackbench"].reason


def test_two_patched_kernels_are_both_held_against_base() -> None:
    second = replace(PATCHED, name="second", on="patched")
    made = runs.plan(runs.scenario((BASE, PATCHED, second)))
    evidence = runs.good_evidence(made)
    for name in ("patched", "second"):
        evidence = runs.change_boot(evidence, name, breaks())
    cases = judged(made, evidence)
    assert cases["patched hackbench"].outcome is Outcome.FAILED
    assert cases["second hackbench"].outcome is Outcome.FAILED


@pytest.mark.parametrize("stop", [Stop.INFRA, Stop.CUT])
def test_a_panic_that_base_was_not_seen_without_is_inconclusive(pair: Plan, stop: Stop) -> None:
    evidence = runs.change_boot(runs.good_evidence(pair), "patched", PANICS_AT_BOOT)
    lost = {"stop": stop, "reason": "QEMU died", "ready": None, "outputs": (), "samples": ()}
    cases = judged(pair, runs.change_boot(evidence, "base", lost))
    assert cases["base boot"].outcome is Outcome.ERROR
    assert cases["patched boot"].outcome is Outcome.INCONCLUSIVE
    assert "cannot be held against base: QEMU died" in cases["patched boot"].reason
    assert outcomes.run_exit(cases.values()) == 3


def test_a_tree_alone_is_charged_with_its_own_faults() -> None:
    made = runs.plan(runs.scenario((replace(PATCHED, name="tree"),)))
    cases = judged(made, runs.change_boot(runs.good_evidence(made), "tree", breaks()))
    assert cases["tree hackbench"].outcome is Outcome.FAILED


def ends(reason: str, *, stop: Stop = Stop.KERNEL, ready: float | None = None) -> dict[str, object]:
    """A guest that leaves, or hangs, without a word of the kernel's."""
    return {**breaks(), "stop": stop, "reason": reason, "findings": (), "ready": ready}


@pytest.mark.parametrize("ready", [None, 1003.5])
@pytest.mark.parametrize(
    ("stop", "words"),
    [
        (Stop.KERNEL, "the guest reset itself; the console's last line: [    {}] clk: done"),
        (Stop.HANG, "the guest did not get ready in time; the console's last line: [    {}] x"),
    ],
)
def test_base_s_own_end_is_not_charged_whatever_its_last_line(
    pair: Plan, stop: Stop, words: str, ready: float | None
) -> None:
    good = runs.good_evidence(pair)
    here = ends(words.format("1.734122"), stop=stop, ready=ready)
    evidence = runs.change_boot(good, "patched", here)
    name = "patched hackbench" if ready else "patched boot"
    case = judged(pair, evidence)[name]
    assert case.outcome is Outcome.FAILED
    assert "1.734122" in case.reason
    there = ends(words.format("1.698410"), stop=stop, ready=ready)
    case = judged(pair, runs.change_boot(evidence, "base", there))[name]
    assert case.outcome is Outcome.BASE_BROKEN


def test_a_reset_in_another_step_is_another_fault(pair: Plan) -> None:
    reset = "the guest reset itself; the console's last line: x"
    evidence = runs.change_boot(runs.good_evidence(pair), "patched", ends(reset))
    evidence = runs.change_boot(evidence, "base", ends(reset, ready=1003.5))
    assert judged(pair, evidence)["patched boot"].outcome is Outcome.FAILED


@pytest.mark.parametrize("ready", [None, 1003.5])
def test_a_hang_is_a_fault_of_the_guest(pair: Plan, ready: float | None) -> None:
    hang = {**breaks(), "stop": Stop.HANG, "findings": (), "ready": ready}
    cases = judged(pair, runs.change_boot(runs.good_evidence(pair), "patched", hang))
    charged = "patched hackbench" if ready else "patched boot"
    assert cases[charged].outcome is Outcome.FAILED


@pytest.mark.parametrize("ready", [None, 1003.5])
def test_qemu_s_death_is_never_a_failure(pair: Plan, ready: float | None) -> None:
    """… not even where the console holds a complaint of the kernel."""
    dead = {
        **breaks(),
        "stop": Stop.INFRA,
        "reason": "QEMU was killed",
        "findings": (runs.finding("warning", fatal=False),),
        "ready": ready,
    }
    cases = judged(pair, runs.change_boot(runs.good_evidence(pair), "patched", dead))
    assert Outcome.FAILED not in {case.outcome for case in cases.values()}
    charged = cases["patched hackbench" if ready else "patched boot"]
    assert charged.outcome is Outcome.ERROR
    assert "QEMU was killed" in charged.reason
    assert outcomes.run_exit(cases.values()) == 3


def test_a_new_warning_fails_the_boot_and_an_old_one_does_not(pair: Plan) -> None:
    old = runs.finding("warning", "mm/page_alloc.c:123 warn_alloc", fatal=False)
    new = runs.finding("warning", "mm/slub.c:99 calculate_order", fatal=False)
    evidence = runs.change_boot(runs.good_evidence(pair), "base", {"findings": (old,)})
    cases = judged(pair, runs.change_boot(evidence, "patched", {"findings": (old,)}))
    assert cases["patched boot"].outcome is Outcome.BASE_BROKEN
    assert cases["patched hackbench"].outcome is Outcome.PASSED
    cases = judged(pair, runs.change_boot(evidence, "patched", {"findings": (old, new)}))
    assert cases["patched boot"].outcome is Outcome.FAILED
    assert "calculate_order" in cases["patched boot"].reason


def test_a_new_warning_before_an_old_panic_is_charged(pair: Plan) -> None:
    warning = runs.finding("warning", "mm/slub.c:99 calculate_order", fatal=False)
    both = {**PANICS_AT_BOOT, "findings": (warning, runs.finding())}
    evidence = runs.change_boot(runs.good_evidence(pair), "base", PANICS_AT_BOOT)
    case = judged(pair, runs.change_boot(evidence, "patched", both))["patched boot"]
    assert case.outcome is Outcome.FAILED
    assert "mm/slub.c:99" in case.reason


def test_what_base_reported_before_its_qemu_died_is_still_known_of_it() -> None:
    made = runs.plan(runs.scenario(PAIR, boots=2))
    warning = runs.finding("warning", "mm/page_alloc.c:123", fatal=False)
    lost = {"stop": Stop.INFRA, "reason": "QEMU died", "findings": (warning,)}
    evidence = runs.change_boot(runs.good_evidence(made), "base", lost, block=0)
    evidence = runs.change_boot(evidence, "patched", {"findings": (warning,)})
    assert judged(made, evidence)["patched boot"].outcome is Outcome.BASE_BROKEN


# --------------------------------------------------------------------------- workload and probes


def exits(status: int) -> dict[str, object]:
    return {
        "outputs": (
            runs.output("slab-orders", Phase.AFTER_BOOT),
            runs.output("slab-memory", Phase.AFTER_BOOT),
            runs.output("hackbench", status=status, text="SENDER: write (error: Bad address)\n"),
        )
    }


def test_a_workload_that_fails_is_charged_where_base_s_does_not(pair: Plan) -> None:
    evidence = runs.change_boot(runs.good_evidence(pair), "patched", exits(1))
    cases = judged(pair, evidence)
    assert cases["patched hackbench"].outcome is Outcome.FAILED
    assert "exited with 1: SENDER: write" in cases["patched hackbench"].reason
    assert cases["patched probe slab-memory"].outcome is Outcome.PASSED
    cases = judged(pair, runs.change_boot(evidence, "base", exits(1)))
    assert cases["patched hackbench"].outcome is Outcome.BASE_BROKEN
    cases = judged(pair, runs.change_boot(evidence, "base", exits(2)))
    assert cases["patched hackbench"].outcome is Outcome.FAILED


@pytest.mark.parametrize("status", [126, 127])
def test_a_workload_that_is_not_there_is_our_fault(pair: Plan, status: int) -> None:
    evidence = runs.change_boot(runs.good_evidence(pair), "patched", exits(status))
    assert judged(pair, evidence)["patched hackbench"].outcome is Outcome.ERROR


def late(seconds: float) -> dict[str, object]:
    problem = "no end after 60 s"
    made = runs.output("hackbench", status=None, problem=problem, timed_out=True)
    return {"outputs": (replace(made, seconds=seconds),)}


def test_a_workload_that_base_only_just_ends_may_be_late_by_load(pair: Plan) -> None:
    """It was given less than ten times of what base took."""
    good = runs.good_evidence(pair)
    case = judged(pair, runs.change_boot(good, "patched", late(14.0)))["patched hackbench"]
    assert case.outcome is Outcome.INCONCLUSIVE
    assert "--boots 5" in case.reason
    kvm = {**late(14.0), "accelerator": Accelerator(name="kvm", reason="")}
    assert judged(pair, runs.change_boot(good, "patched", kvm))["patched hackbench"].outcome is (
        Outcome.FAILED
    )
    twice = runs.plan(runs.scenario(PAIR, boots=2))
    evidence = runs.change_boot(runs.good_evidence(twice), "patched", late(14.0))
    assert judged(twice, evidence)["patched hackbench"].outcome is Outcome.FAILED


def test_a_workload_without_end_is_charged_to_a_tree_alone() -> None:
    made = runs.plan(runs.scenario((replace(PATCHED, name="tree"),)))
    evidence = runs.change_boot(runs.good_evidence(made), "tree", late(60.0))
    assert judged(made, evidence)["tree hackbench"].outcome is Outcome.FAILED


def test_a_workload_without_end_is_charged(pair: Plan) -> None:
    """Base took 1.5 s."""
    evidence = runs.change_boot(runs.good_evidence(pair), "patched", late(60.0))
    cases = judged(pair, evidence)
    assert cases["patched hackbench"].outcome is Outcome.FAILED
    assert "no end after 60 s" in cases["patched hackbench"].reason
    assert cases["patched probe slab-memory"].outcome is Outcome.NOT_RUN


STALL = runs.finding("hang", "RCU stall", fatal=False)


@pytest.mark.parametrize(
    ("boots", "stalled", "finding", "accelerator", "outcome"),
    [
        (1, 1, STALL, "tcg", Outcome.INCONCLUSIVE),
        (1, 1, STALL, "kvm", Outcome.FAILED),
        (1, 1, replace(STALL, fatal=True), "tcg", Outcome.FAILED),
        (2, 1, STALL, "tcg", Outcome.INCONCLUSIVE),
        (2, 2, STALL, "tcg", Outcome.FAILED),
    ],
)
def test_a_stall_that_host_load_may_have_made_is_not_charged(
    boots: int, stalled: int, finding: Finding, accelerator: str, outcome: Outcome
) -> None:
    made = runs.plan(runs.scenario(PAIR, boots=boots))
    evidence = runs.good_evidence(made)
    change = {"findings": (finding,), "accelerator": Accelerator(name=accelerator, reason="")}
    for block in range(stalled):
        evidence = runs.change_boot(evidence, "patched", change, block=block)
    case = judged(made, evidence)["patched boot"]
    assert case.outcome is outcome
    assert ("--boots 5" in case.reason) is (outcome is Outcome.INCONCLUSIVE)
    alone = runs.plan(runs.scenario((PATCHED,), boots=boots))
    of_it = tuple(each for each in evidence.boots if each.boot.kernel == "patched")
    case = judged(alone, replace(evidence, boots=of_it))["patched boot"]
    assert case.outcome is outcome, "nor to a tree alone"


def test_a_stall_hides_no_warning(pair: Plan) -> None:
    warning = runs.finding("warning", "mm/slub.c:99 calculate_order", fatal=False)
    change = {"findings": (STALL, warning)}
    evidence = runs.change_boot(runs.good_evidence(pair), "patched", change)
    case = judged(pair, evidence)["patched boot"]
    assert case.outcome is Outcome.FAILED
    assert "calculate_order" in case.reason


@pytest.mark.parametrize("base_too", [False, True])
def test_a_guest_that_ssh_does_not_reach_is_no_fault_of_the_series(
    pair: Plan, base_too: bool
) -> None:
    """… but where base answers it may be, and the reason says how to find out."""
    lost = runs.output("slab-orders", Phase.AFTER_BOOT, None, "", problem=f"{NO_SSH}: refused")
    evidence = runs.change_boot(runs.good_evidence(pair), "patched", {"outputs": (lost,)})
    if base_too:
        evidence = runs.change_boot(evidence, "base", {"outputs": (lost,)})
    cases = judged(pair, evidence)
    case = cases["patched probe slab-orders"]
    assert case.outcome is Outcome.ERROR
    assert ("base answered over ssh in the same cell" in case.reason) is not base_too
    assert ("--transport console" in case.reason) is not base_too
    assert Outcome.FAILED not in {each.outcome for each in cases.values()}
    assert outcomes.run_exit(cases.values()) == 3


def test_a_lost_connection_is_our_fault(pair: Plan) -> None:
    lost = runs.output("hackbench", status=None, problem="the connection was closed")
    evidence = runs.change_boot(runs.good_evidence(pair), "patched", {"outputs": (lost,)})
    case = judged(pair, evidence)["patched hackbench"]
    assert case.outcome is Outcome.ERROR
    assert "the connection was closed" in case.reason


@pytest.mark.parametrize("base_too", [False, True])
def test_a_connection_that_the_oom_killer_ended_is_the_kernel_s(
    pair: Plan, *, base_too: bool
) -> None:
    """The guest lives on without its sshd: out of memory is the reason, and base decides."""
    lost = runs.output("hackbench", status=None, problem="the connection broke")
    change = {
        "outputs": (lost,),
        "findings": (runs.finding("oom", "out of memory", fatal=False),),
    }
    evidence = runs.change_boot(runs.good_evidence(pair), "patched", change)
    if base_too:
        evidence = runs.change_boot(evidence, "base", change)
    case = judged(pair, evidence)["patched hackbench"]
    assert case.outcome is (Outcome.BASE_BROKEN if base_too else Outcome.FAILED)
    assert "during hackbench: out of memory" in case.reason


@pytest.mark.parametrize("source", ["hackbench", "slab-orders"])
def test_numbers_that_cannot_be_read_are_our_fault(pair: Plan, source: str) -> None:
    good = runs.good_evidence(pair)
    problem = {"problems": (f"{source} (workload): no line matches “x”",)}
    none = {"samples": tuple(s for s in good.boots[0].samples if s.source != source)}
    name = "patched hackbench" if source == "hackbench" else "patched probe slab-orders"
    for change in (problem, none):
        cases = judged(pair, runs.change_boot(good, "patched", change))
        assert cases[name].outcome is Outcome.ERROR
        others = {case.outcome for key, case in cases.items() if key != name}
        assert others == {Outcome.PASSED}


def test_a_probe_that_fails_is_our_fault(pair: Plan) -> None:
    outputs = (runs.output("slab-orders", Phase.AFTER_BOOT, 1, "no such file"),)
    evidence = runs.change_boot(runs.good_evidence(pair), "patched", {"outputs": outputs})
    case = judged(pair, evidence)["patched probe slab-orders"]
    assert case.outcome is Outcome.ERROR
    assert "in phase after-boot: no such file" in case.reason


# --------------------------------------------------------------------------- harness and host


@pytest.mark.parametrize("node", ["image.x86_64", "accelerator.x86_64"])
def test_a_host_fault_is_the_boot_s_error_and_stops_the_rest(pair: Plan, node: str) -> None:
    evidence = replace(runs.good_evidence(pair), boots=(), faults={node: "no space left"})
    cases = judged(pair, evidence)
    assert cases["patched build"].outcome is Outcome.PASSED
    assert cases["patched boot"].outcome is Outcome.ERROR
    assert cases["patched hackbench"].outcome is Outcome.NOT_RUN
    assert "no space left" in cases["patched hackbench"].reason


def test_a_tree_that_cannot_be_had_is_an_error_everywhere(pair: Plan) -> None:
    cases = judged(pair, Evidence(faults={"tree": "mirror is down"}))
    assert {case.outcome for case in cases.values()} == {Outcome.ERROR, Outcome.NOT_RUN}
    assert all("mirror is down" in case.reason for case in cases.values())


def test_a_run_that_was_cut_says_so(pair: Plan) -> None:
    good = runs.good_evidence(pair)
    cases = judged(pair, replace(good, boots=good.boots[:1], cut=True))
    assert cases["base hackbench"].outcome is Outcome.PASSED
    for name in ("boot", "hackbench", "probe slab-orders"):
        assert cases[f"patched {name}"].outcome is Outcome.ERROR
        assert "cut" in cases[f"patched {name}"].reason


def test_no_evidence_at_all_is_an_error_not_a_pass(pair: Plan) -> None:
    cases = judged(pair, Evidence())
    assert cases["base apply"].outcome is Outcome.ERROR
    assert cases["base apply"].reason == "no result came back"
    assert outcomes.run_exit(cases.values()) == 3


def test_an_unsupported_cell_names_its_cause() -> None:
    made = runs.plan(runs.scenario(PAIR, architectures=("x86_64", "aarch64")))
    causes = {
        cell: "no qemu-system-aarch64" for cell in made.cells if cell.architecture != "x86_64"
    }
    made = runs.plan(made.scenario, causes)
    good = runs.good_evidence(made)
    cases = verdict.judge(
        made, replace(good, builds={("x86_64", k.name): runs.build(k.name) for k in PAIR})
    )
    arm = [case for case in cases if ".aarch64." in case.id.suite]
    assert len(arm) == 3 + 2 * 5
    assert {(case.outcome, case.reason) for case in arm} == {
        (Outcome.UNSUPPORTED, "no qemu-system-aarch64")
    }
    assert outcomes.run_exit(cases) == 0
    assert outcomes.bisect_exit(cases) == 125


def test_an_unsupported_cell_beside_one_that_runs() -> None:
    made = runs.plan(runs.scenario(PAIR, guests=("smp1", "smp512")))
    causes = {cell: "too many vCPUs" for cell in made.cells if cell.guest == "smp512"}
    made = runs.plan(made.scenario, causes)
    cases = verdict.judge(made, runs.good_evidence(made))
    large = {case.outcome for case in cases if ".smp512." in case.id.suite}
    others = {case.outcome for case in cases if ".smp512." not in case.id.suite}
    assert (large, others) == ({Outcome.UNSUPPORTED}, {Outcome.PASSED})


# --------------------------------------------------------------------------- several boots


def test_one_bad_boot_of_two_may_be_chance_and_says_so() -> None:
    made = runs.plan(runs.scenario(PAIR, boots=2))
    evidence = runs.change_boot(runs.good_evidence(made), "patched", PANICS_AT_BOOT, block=1)
    cases = judged(made, evidence)
    assert cases["patched boot"].outcome is Outcome.INCONCLUSIVE
    assert cases["patched boot"].reason.startswith("1 of 2 boots: Oops in calculate_order")
    assert (
        "1 of 2 patched, 0 of 2 base, p = 1 (Fisher's exact test)" in cases["patched boot"].reason
    )
    assert f"takes {odds.boots_for(0.5)} boots of each (--odds 0.5)" in cases["patched boot"].reason
    assert cases["patched hackbench"].outcome is Outcome.NOT_RUN
    assert "block1" in cases["patched boot"].evidence


def test_a_panic_in_one_boot_counts_though_qemu_died_in_the_other() -> None:
    made = runs.plan(runs.scenario(PAIR, boots=2))
    evidence = runs.change_boot(runs.good_evidence(made), "patched", PANICS_AT_BOOT, block=1)
    lost = {"stop": Stop.INFRA, "reason": "QEMU died", "ready": None, "outputs": ()}
    evidence = runs.change_boot(evidence, "patched", lost, block=0)
    assert judged(made, evidence)["patched boot"].outcome is Outcome.FAILED


def test_a_missing_boot_is_no_pass() -> None:
    made = runs.plan(runs.scenario(PAIR, boots=2))
    good = runs.good_evidence(made)
    cases = judged(made, replace(good, boots=good.boots[:-1]))
    assert cases["patched boot"].outcome is Outcome.ERROR
    assert cases["patched boot"].reason == "1 of 2 boots: no result came back"


def test_a_boot_that_was_never_planned_counts_for_nothing(pair: Plan) -> None:
    good = runs.good_evidence(pair)
    cases = verdict.judge(replace(pair, boots=()), good)
    assert all(case.outcome is not Outcome.PASSED for case in cases if case.id.name == "boot")


# --------------------------------------------------------------------------- attempts


QEMU_DIED = {"stop": Stop.INFRA, "reason": "QEMU died", "ready": None, "outputs": (), "samples": ()}


def again(evidence: Evidence, kernel: str, first: Mapping[str, object]) -> Evidence:
    """The evidence with an attempt at the boots of a kernel that went wrong before the good one."""
    attempts: list[BootResult] = []
    for result in evidence.boots:
        if result.boot.kernel == kernel:
            attempts.append(replace(result, **first))  # type: ignore[arg-type]
            attempts.append(replace(result, boot=replace(result.boot, boot=1)))
        else:
            attempts.append(result)
    return replace(evidence, boots=tuple(attempts))


def test_the_last_attempt_at_a_boot_counts(pair: Plan) -> None:
    good = again(runs.good_evidence(pair), "patched", QEMU_DIED)
    cases = verdict.judge(pair, good)
    assert {case.outcome for case in cases} == {Outcome.PASSED}
    turned = tuple(reversed(good.boots))
    assert verdict.judge(pair, replace(good, boots=turned)) == cases


def test_a_boot_whose_second_attempt_failed_too_is_an_error(pair: Plan) -> None:
    evidence = runs.change_boot(runs.good_evidence(pair), "patched", QEMU_DIED)
    cases = judged(pair, again(evidence, "patched", {}))
    assert cases["patched boot"].outcome is Outcome.ERROR
    assert cases["patched boot"].reason == "QEMU died", "one boot, however many attempts"


def test_what_base_reported_in_a_lost_attempt_is_known_of_it(pair: Plan) -> None:
    warning = runs.finding("warning", "mm/page_alloc.c:123", fatal=False)
    evidence = runs.change_boot(runs.good_evidence(pair), "patched", {"findings": (warning,)})
    assert judged(pair, evidence)["patched boot"].outcome is Outcome.FAILED
    evidence = again(evidence, "base", {**QEMU_DIED, "findings": (warning,)})
    assert judged(pair, evidence)["patched boot"].outcome is Outcome.BASE_BROKEN


# --------------------------------------------------------------------------- events


@pytest.fixture
def eventful() -> Plan:
    return runs.plan(runs.scenario(PAIR, events=("add", "again")))


def happened(evidence: Evidence, kernel: str, **events: EventResult) -> Evidence:
    """The evidence with some events of a kernel's boots changed."""
    return replace(
        evidence,
        boots=tuple(
            replace(r, events=tuple(events.get(e.label, e) for e in r.events))
            if r.boot.kernel == kernel
            else r
            for r in evidence.boots
        ),
    )


def unseen(label: str) -> EventResult:
    return EventResult(
        label=label,
        state=EventState.FAILED,
        title="vcpu-add: the guest does not see it",
        reason="the guest does not see it after 10.2 s",
        host="QEMU has 3 vCPUs",
        guest="present 0-1",
    )


def test_an_event_is_charged_where_base_s_goes_well(eventful: Plan) -> None:
    good = runs.good_evidence(eventful)
    assert {case.outcome for case in verdict.judge(eventful, good)} == {Outcome.PASSED}
    evidence = happened(good, "patched", again=unseen("again"))
    case = judged(eventful, evidence)["patched event again"]
    assert case.outcome is Outcome.FAILED
    assert case.detail == "host: QEMU has 3 vCPUs\nguest: present 0-1"
    here = happened(evidence, "base", again=unseen("again"))
    assert judged(eventful, here)["patched event again"].outcome is Outcome.BASE_BROKEN


def test_base_s_fault_in_another_event_is_another_fault(eventful: Plan) -> None:
    evidence = happened(runs.good_evidence(eventful), "patched", again=unseen("again"))
    evidence = happened(evidence, "base", add=unseen("add"))
    assert judged(eventful, evidence)["patched event again"].outcome is Outcome.FAILED


@pytest.mark.parametrize("stop", [Stop.INFRA, Stop.CUT])
def test_an_event_that_failed_as_the_host_did_is_not_charged(eventful: Plan, stop: Stop) -> None:
    evidence = happened(runs.good_evidence(eventful), "patched", again=unseen("again"))
    evidence = runs.change_boot(evidence, "patched", {"stop": stop, "reason": "QEMU died"})
    case = judged(eventful, evidence)["patched event again"]
    assert case.outcome is (Outcome.NOT_RUN if stop is Stop.INFRA else Outcome.ERROR)
    assert "QEMU died" in case.reason


def test_an_event_is_planned_only_where_its_shape_is() -> None:
    made = runs.plan(runs.scenario(PAIR, guests=("smp1", "smp2of8"), events=("add",)))
    named = {each.suite.split(".")[2] for each in verdict.planned(made) if "event" in each.name}
    assert named == {"smp2of8"}


# --------------------------------------------------------------------------- kconfig axis


def test_each_point_of_the_kconfig_axis_is_judged_by_itself() -> None:
    made = runs.plan(runs.scenario(PAIR, configurations=("plain", "debug")))
    good = runs.good_evidence(made)
    builds: dict[tuple[str, str], Build | BuildFailure | ConfigFailure] = dict(good.builds)
    builds["x86_64.debug", "patched"] = build_failure("patched")
    cases = verdict.judge(made, replace(good, builds=builds))
    bad = {(case.id.suite, case.id.name): case.outcome for case in cases if case.reason}
    assert bad["num_present_cpus.x86_64.debug.patched", "build"] is Outcome.FAILED
    cell = "num_present_cpus.x86_64.debug.smp2of8.hackbench.patched"
    assert {suite for suite, _ in bad} == {"num_present_cpus.x86_64.debug.patched", cell}


# --------------------------------------------------------------------------- what was spared


@pytest.mark.parametrize("node", ["apply.patched", "build.x86_64.patched", "boot"])
def test_what_was_not_started_is_not_run_and_says_why(pair: Plan, node: str) -> None:
    good = runs.good_evidence(pair)
    name = pair.boots[1].name if node == "boot" else node
    why = "not started: the run ends at the first failure: see build.x86_64.base"
    evidence = replace(
        good,
        revisions=without(good.revisions, "patched" if node.startswith("apply") else ""),
        builds=without(good.builds, ("x86_64", "patched" if node != "boot" else "")),
        boots=good.boots[:1],
        spared={name: why},
    )
    cases = judged(pair, evidence)
    kinds = {case.outcome for key, case in cases.items() if key.startswith("patched")}
    assert Outcome.ERROR not in kinds
    assert cases["patched boot"].outcome is Outcome.NOT_RUN
    assert cases["patched boot"].reason.endswith(why)


# --------------------------------------------------------------------------- property


def chance(dice: random.Random, share: float) -> bool:
    return dice.random() < share


def random_event(dice: random.Random, good: EventResult) -> EventResult:
    state = dice.choice([EventState.GOOD] * 3 + list(EventState))
    return replace(good, state=state, reason="" if state is EventState.GOOD else dice.choice("AB"))


def random_boot(dice: random.Random, good: BootResult) -> BootResult:
    """A boot that may have gone wrong in any way, consistent or not."""
    outputs = list(good.outputs)
    if chance(dice, 0.3):
        outputs = outputs[: dice.randrange(len(outputs) + 1)]
    if outputs and chance(dice, 0.4):
        n = dice.randrange(len(outputs))
        outputs[n] = replace(
            outputs[n],
            exit_status=dice.choice([None, 1, 127, 139]),
            problem=dice.choice(["", "lost"]),
            timed_out=chance(dice, 0.5),
        )
    if chance(dice, 0.1):
        outputs.append(runs.output("unplanned", status=dice.choice([0, 1, None])))
    findings = [
        replace(
            runs.finding(
                dice.choice(["panic", "warning"]), dice.choice("ABC"), fatal=chance(dice, 0.5)
            ),
            known="an old one" if chance(dice, 0.2) else "",
        )
        for _ in range(dice.choice([0, 0, 0, 1, 2]))
    ]
    return replace(
        good,
        stop=dice.choice([Stop.COMPLETED] * 5 + list(Stop)),
        outputs=tuple(outputs),
        findings=tuple(findings),
        samples=tuple(s for s in good.samples if chance(dice, 0.9)),
        problems=("hackbench (workload): unreadable",) if chance(dice, 0.1) else (),
        ready=None if chance(dice, 0.1) else good.ready,
        differences=dice.choice([(), (), (), None, ("CPU 1 is missing",)]),
        events=tuple(random_event(dice, event) for event in good.events if chance(dice, 0.9)),
    )


def random_attempts(dice: random.Random, boot: BootResult) -> list[BootResult]:
    """The boot, perhaps behind an attempt that was lost with its QEMU."""
    if chance(dice, 0.9):
        return [boot]
    lost = replace(random_boot(dice, boot), stop=Stop.INFRA)
    return [lost, replace(boot, boot=replace(boot.boot, boot=1))]


def random_plan(dice: random.Random) -> Plan:
    kernels = dice.choice([(BASE, PREREQUISITE, FIX), PAIR, (PATCHED,), (BASE,)])
    made = runs.scenario(
        kernels,
        architectures=dice.choice([("x86_64",), ("x86_64", "aarch64")]),
        guests=dice.choice([("smp2of8",), ("smp1", "smp2"), ()]),
        probes=dice.choice([(), ("slab-orders", "slab-memory")]),
        labels=dice.choice([(), ("hackbench",), ("hackbench", "hackbench-pipe")]),
        boots=dice.choice([1, 1, 2, 3]),
        configurations=dice.choice([(), (), ("plain", "debug")]),
        events=dice.choice([(), ("add",), ("add", "again")]),
    )
    causes = {cell: "cannot" for cell in runs.plan(made).cells if chance(dice, 0.1)}
    return runs.plan(made, causes)


def thinned(dice: random.Random, mapping: Mapping[Key, Item]) -> dict[Key, Item]:
    return {key: item for key, item in mapping.items() if chance(dice, 0.93)}


def random_evidence(dice: random.Random, made: Plan) -> Evidence:
    good = runs.good_evidence(made)
    revisions: dict[str, Revision | ApplyFailure] = dict(good.revisions)
    for kernel in made.scenario.kernels:
        if kernel.series and chance(dice, 0.05):
            revisions[kernel.name] = ApplyFailure(
                kernel=kernel.name,
                patch=kernel.series.patches[0],
                of=1,
                file="",
                hunk="",
                words="",
            )
    builds: dict[tuple[str, str], Build | BuildFailure | ConfigFailure] = dict(good.builds)
    for key in builds:
        if chance(dice, 0.07):
            builds[key] = build_failure(
                key[1], dice.choice("AB"), dice.choice(["mm/slub.c", "b.c"])
            )
        elif chance(dice, 0.1):
            builds[key] = replace(runs.build(key[1]), warnings=dice.choice([None, (WARNING,)]))
    nodes = ["tree", *(f"apply.{k.name}" for k in made.scenario.kernels)]
    nodes += [f"build.{a}.{k}" for a, k in good.builds] + [f"image.{a}" for a in good.images]
    nodes += [f"accelerator.{a}" for a in good.images] + [boot.name for boot in made.boots]
    boots = [random_boot(dice, b) if chance(dice, 0.4) else b for b in good.boots]
    boots = [boot for boot in boots if chance(dice, 0.95)]
    return Evidence(
        tree=good.tree if chance(dice, 0.9) else None,
        revisions=thinned(dice, revisions),
        builds=thinned(dice, builds),
        images=thinned(dice, good.images),
        accelerators=thinned(dice, good.accelerators),
        comparisons={
            place: Comparison(below="base", identical=chance(dice, 0.2))
            for place in good.builds
            if place[1] in {"fix", "patched"} and len(made.scenario.kernels) > 1
        },
        boots=tuple(each for boot in boots for each in random_attempts(dice, boot)),
        faults={node: "harness" for node in nodes if chance(dice, 0.03)},
        spared={node: "not started" for node in nodes if chance(dice, 0.05)},
        cut=chance(dice, 0.1),
    )


def has_evidence(case: Case, made: Plan, evidence: Evidence) -> bool:
    """Whether anything came back that a pass of this case may rest on. Written apart from
    the verdict's own way: by what the name says."""
    kernel = case.id.suite.rpartition(".")[2]
    if case.id.name == "apply":
        return isinstance(evidence.revisions.get(kernel), Revision)
    if case.id.name == "build":
        target = ".".join(case.id.suite.split(".")[1:-1])
        return isinstance(evidence.builds.get((target, kernel)), Build)
    if case.id.name == "warnings":
        target = ".".join(case.id.suite.split(".")[1:-1])
        built = evidence.builds.get((target, kernel))
        others = [b for (t, k), b in evidence.builds.items() if t == target and k != kernel]
        old = {w for b in others if isinstance(b, Build) for w in b.warnings or ()}
        return isinstance(built, Build) and built.warnings is not None and {*built.warnings} <= old
    if case.id.name == "trial times":
        return any(
            s.unit == "s" for b in evidence.boots if b.boot.kernel == kernel for s in b.samples
        )
    boots = {b for b in made.boots if f"num_present_cpus.{b.cell.name}.{b.kernel}" == case.id.suite}
    results = [r for r in last_attempts(evidence) if replace(r.boot, boot=0) in boots]
    if not boots or len(results) != len(boots) or any(r.ready is None for r in results):
        return False
    return all(is_good(case.id.name, result, made) for result in results)


def is_good(name: str, result: BootResult, made: Plan) -> bool:
    if name == "boot":
        return is_clean_boot(result, made)
    if name == "shape":
        return result.differences == ()
    if name.startswith("event "):
        wanted = name.removeprefix("event "), EventState.GOOD
        return wanted in {(event.label, event.state) for event in result.events}
    source = name.removeprefix("probe ")
    return any(o.source == source and o.exit_status == 0 for o in result.outputs) and any(
        s.source == source for s in result.samples
    )


def last_attempts(evidence: Evidence) -> list[BootResult]:
    return list({replace(result.boot, boot=0): result for result in evidence.boots}.values())


def is_clean_boot(result: BootResult, made: Plan) -> bool:
    """No complaint but a fatal one under a step that is a case of its own."""
    if any(not finding.fatal for finding in result.findings):
        return False
    planned = {"shape", *made.scenario.probes, *(run.label for run in made.scenario.workloads)}
    outputs = [output for output in result.outputs if output.source in planned]
    return not result.findings or outputs[-1].exit_status is None


def charges_the_guest(evidence: Evidence) -> bool:
    """Whether there is anything at all that code under test did wrong."""
    return (
        any(isinstance(each, ApplyFailure) for each in evidence.revisions.values())
        or any(not isinstance(each, Build) or each.warnings for each in evidence.builds.values())
        or any(guest_fault(result) for result in evidence.boots)
    )


def guest_fault(result: BootResult) -> bool:
    if result.stop in {Stop.INFRA, Stop.CUT}:
        return any(o.exit_status not in {0, None, 127} for o in result.outputs)
    return bool(
        result.findings
        or result.differences
        or any(event.state is EventState.FAILED for event in result.events)
        or result.stop in {Stop.KERNEL, Stop.HANG}
        or any(o.exit_status not in {0, 127} for o in result.outputs)
    )


def only_harness(dice: random.Random, evidence: Evidence) -> Evidence:
    """The same evidence with every fault that could be the guest's taken out or made ours."""
    return replace(
        evidence,
        revisions={k: v for k, v in evidence.revisions.items() if isinstance(v, Revision)},
        builds={
            k: replace(v, warnings=()) for k, v in evidence.builds.items() if isinstance(v, Build)
        },
        boots=tuple(
            replace(result, stop=dice.choice([Stop.INFRA, Stop.CUT]), outputs=result.outputs[:0])
            if guest_fault(result)
            else result
            for result in evidence.boots
        ),
    )


def check_planned_equals_reported(made: Plan, cases: tuple[Case, ...]) -> None:
    ids = verdict.planned(made)
    assert tuple(case.id for case in cases) == ids
    assert len(set(ids)) == len(ids)


def check_no_crash_is_lost(evidence: Evidence, cases: tuple[Case, ...]) -> None:
    for result in last_attempts(evidence):
        if result.stop in {Stop.KERNEL, Stop.HANG} or any(f.fatal for f in result.findings):
            suite = f"num_present_cpus.{result.boot.cell.name}.{result.boot.kernel}"
            kinds = {case.outcome for case in cases if case.id.suite == suite}
            assert kinds != {Outcome.PASSED}, result


def check_exit_codes(cases: tuple[Case, ...]) -> None:
    code, bisect = outcomes.run_exit(cases), outcomes.bisect_exit(cases)
    kinds = {case.outcome for case in cases}
    assert code == 1 if Outcome.FAILED in kinds else code in {0, 3}
    assert code == 3 or Outcome.ERROR not in kinds or Outcome.FAILED in kinds
    if code == 0 or bisect == 0:
        says = {Outcome.PASSED, Outcome.KNOWN, Outcome.IDENTICAL}
        assert any(case.on_trial and case.outcome in says for case in cases)


def check_outcomes(made: Plan, evidence: Evidence, cases: tuple[Case, ...]) -> None:
    roles = {kernel.name: kernel.role for kernel in made.scenario.kernels}
    for case in cases:
        role = roles[case.id.suite.rpartition(".")[2]]
        if case.outcome is Outcome.PASSED:
            assert has_evidence(case, made, evidence), case
        else:
            assert case.reason, case
        if case.outcome is Outcome.FAILED:
            assert role is Role.PATCHED, case
        if case.unjudgeable:
            assert case.outcome is Outcome.FAILED


@pytest.mark.parametrize("seed", range(20))
def test_whatever_comes_back(seed: int) -> None:
    """Planned == reported, no pass without evidence, no failure by the harness; 20 × 40 runs."""
    dice = random.Random(seed)
    for _ in range(40):
        made = random_plan(dice)
        evidence = random_evidence(dice, made)
        cases = verdict.judge(made, evidence, root=runs.ROOT)
        check_planned_equals_reported(made, cases)
        check_outcomes(made, evidence, cases)
        check_no_crash_is_lost(evidence, cases)
        check_exit_codes(cases)
        ours = only_harness(dice, evidence)
        assert not charges_the_guest(ours)
        found = verdict.judge(made, ours)
        assert not {case.outcome for case in found} & {Outcome.FAILED, Outcome.BASE_BROKEN}
        # Numbers that a host in trouble kept back may be too few for a trial.
        unclear = {case.id.name for case in found if case.outcome is Outcome.INCONCLUSIVE}
        assert unclear <= {"trial times"}


def test_the_property_test_sees_every_outcome() -> None:
    """Its evidence is varied enough to mean something."""
    dice = random.Random(1)
    kinds: set[Outcome] = set()
    for _ in range(200):
        made = random_plan(dice)
        kinds |= {case.outcome for case in verdict.judge(made, random_evidence(dice, made))}
    assert kinds == set(Outcome)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda e: replace(e, boots=()),
        lambda e: replace(e, builds={}),
        lambda e: replace(e, revisions={}),
        lambda e: replace(e, faults={"tree": "x"}),
    ],
)
def test_evidence_that_lacks_a_step_never_passes_the_later_ones(
    three: Plan, spoil: Callable[[Evidence], Evidence]
) -> None:
    cases = verdict.judge(three, spoil(runs.good_evidence(three)))
    boots = [case for case in cases if case.id.name not in {"apply", "build", "warnings"}]
    assert all(case.outcome is not Outcome.PASSED for case in boots)


def test_a_stall_in_boots_that_shared_the_host_is_no_evidence_without_a_base() -> None:
    """We kept the host busy ourselves: every boot may stall for that."""
    alone = runs.plan(replace(runs.scenario((replace(PATCHED, on=None),)), boots=2))
    stall = {"findings": (runs.finding("hang", "rcu stall", fatal=False),)}
    evidence = runs.change_boot(runs.good_evidence(alone), "patched", stall)
    assert judged(alone, evidence)["patched boot"].outcome is Outcome.FAILED
    busy = runs.change_boot(evidence, "patched", {"shared": True})
    case = judged(alone, busy)["patched boot"]
    assert case.outcome is Outcome.INCONCLUSIVE
    assert "--exclusive always" in case.reason


def test_a_stall_that_base_had_the_chance_of_too_is_charged() -> None:
    pair = runs.plan(replace(runs.scenario(PAIR), boots=2))
    stall = {"findings": (runs.finding("hang", "rcu stall", fatal=False),)}
    evidence = runs.change_boot(runs.good_evidence(pair), "base", {"shared": True})
    evidence = runs.change_boot(evidence, "patched", {**stall, "shared": True})
    assert judged(pair, evidence)["patched boot"].outcome is Outcome.FAILED


def test_a_tree_that_a_fragment_is_not_for_is_nobodys_fault(pair: Plan) -> None:
    """The fragment says so itself; nothing is charged, and nothing has passed."""
    words = "kconfig fragment kcsan is only for x86_64: the kernel has it from 5.17 on"
    failure = ConfigFailure(
        kernel="patched", lost=(), words=words, log=runs.ROOT / "config.log", unsupported=True
    )
    good = runs.good_evidence(pair)
    builds = dict.fromkeys(good.builds, failure)
    cases = judged(pair, replace(good, builds=builds, boots=()))
    assert cases["patched build"].outcome is Outcome.UNSUPPORTED
    assert cases["patched boot"].outcome is Outcome.UNSUPPORTED
    assert cases["patched boot"].reason == words
    assert outcomes.run_exit(cases.values()) == 3
