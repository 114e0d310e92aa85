"""Runs that the reports are rendered from: a good one, and one in which much went wrong."""

from __future__ import annotations

from dataclasses import replace

from pipeline.model import (
    ApplyFailure,
    BuildFailure,
    ConfigFailure,
    EventResult,
    EventState,
    Evidence,
    LostSymbol,
    Outcome,
    Phase,
    Run,
    Stop,
)
from tests import runs

WILD = (
    "\x1b[31mred\x1b[0m \x00 \x07 \x0b \x0c \x7f \x85 \x9b1m \ud800 \ufffe ]]> & < \"'\r\n"
    "\x1b]0;title\x07after \U0001f427 \u0130"
)


def good() -> Run:
    made = runs.plan(runs.scenario(boots=2))
    return runs.run(made, runs.good_evidence(made))


def broken() -> Run:
    """Each outcome that a run may have, on two architectures, with a console gone wild."""
    third = replace(runs.PATCHED, name="other", on="base")
    fourth = replace(runs.PATCHED, name="fourth", on="base")
    fifth = replace(runs.PATCHED, name="fifth", on="base")
    kernels = (*runs.KERNELS, third, fourth, fifth)
    scenario = runs.scenario(kernels, architectures=("x86_64", "aarch64"), boots=2)
    causes = {
        cell: "qemu-system-aarch64 is not there"
        for cell in runs.plan(scenario).cells
        if cell.architecture == "aarch64"
    }
    made = runs.plan(scenario, causes)
    evidence = runs.change_boot(_sources(runs.good_evidence(made)), "fix", _panic())
    evidence = runs.change_boot(evidence, "prerequisite", _warning(), block=1)
    evidence = runs.change_boot(evidence, "base", _lost(), block=1)
    return runs.run(made, evidence)


def varied() -> Run:
    """Two configurations and two guests, events that go wrong, and QEMU that died once."""
    scenario = runs.scenario(
        guests=("smp1", "smp2of8"), configurations=("plain", "debug"), events=("add", "again")
    )
    made = runs.plan(scenario)
    good = runs.good_evidence(made)
    first, *others = good.boots
    again = replace(first, boot=replace(first.boot, boot=1), notes=("booted once more",))
    lost = replace(first, **_lost())  # type: ignore[arg-type]
    bad = EventResult(label="again", state=EventState.FAILED, title="not seen", reason=WILD)
    boots = tuple(
        replace(each, events=(*each.events[:1], bad))
        if each.boot.kernel == "fix" and each.events
        else each
        for each in (lost, again, *others)
    )
    return runs.run(made, replace(good, boots=boots))


def _sources(evidence: Evidence) -> Evidence:
    """One kernel does not apply, one does not build, one loses a symbol; no arm64 builds."""
    assert runs.PATCHED.series is not None
    log = runs.ROOT / "log"
    return replace(
        evidence,
        revisions={
            **evidence.revisions,
            "other": ApplyFailure(
                kernel="other",
                patch=runs.PATCHED.series.patches[0],
                of=3,
                file="mm/slub.c",
                hunk="3433",
                words=f"error: patch failed: mm/slub.c:3433\n{WILD}",
                log=runs.ROOT / "apply.other.log",
            ),
        },
        builds={
            **{key: value for key, value in evidence.builds.items() if key[0] == "x86_64"},
            ("x86_64", "fourth"): BuildFailure(
                kernel="fourth",
                architecture="x86_64",
                error="‘x’ undeclared",
                file="mm/slub.c",
                line=3436,
                log=log,
            ),
            ("x86_64", "fifth"): ConfigFailure(
                kernel="fifth",
                lost=(
                    LostSymbol(
                        symbol="CONFIG_SLUB_DEBUG",
                        wanted="y",
                        got="n",
                        fragment="base",
                        reason="needs SLUB",
                    ),
                ),
                words="",
                log=log,
            ),
        },
        images={"x86_64": runs.image()},
        accelerators={"x86_64": runs.TCG},
    )


def _panic() -> dict[str, object]:
    return {
        "stop": Stop.KERNEL,
        "reason": "the kernel panicked",
        "findings": (replace(runs.finding(), excerpt=WILD + "x" * 100_000),),
        "outputs": (
            runs.output("slab-orders", Phase.AFTER_BOOT),
            runs.output("hackbench", status=None, text="", problem="the guest died"),
        ),
    }


def _warning() -> dict[str, object]:
    return {"findings": (runs.finding("warning", f"mm/slub.c:3436 {WILD}", fatal=False),)}


def _lost() -> dict[str, object]:
    lost = runs.output("hackbench", status=None, problem="QEMU was killed (signal 9)")
    return {"stop": Stop.INFRA, "reason": "QEMU was killed (signal 9)", "outputs": (lost,)}


def with_every_outcome() -> Run:
    run = broken()
    cases = tuple(
        replace(case, outcome=outcome, reason=f"a reason {WILD}", detail=WILD)
        for case, outcome in zip(run.cases, Outcome, strict=False)
    )
    return replace(run, cases=cases + run.cases[len(cases) :])
