"""Which patch of a series broke a build, and whether a later one mends it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline import chain, outcomes, percommit, plan, verdict
from pipeline.model import (
    Build,
    BuildFailure,
    Case,
    Diagnostic,
    Evidence,
    KernelPlan,
    Outcome,
    Patch,
    Plan,
    Role,
    Series,
)
from tests import runs

SERIES = Series(
    name="s",
    origin="s.mbox",
    patches=tuple(
        Patch(
            number=n,
            subject=f"mm: step {n}",
            author="ktrial",
            email="ktrial@example.org",
            files=("mm/slub.c",),
            mail=b"x",
        )
        for n in (1, 2, 3)
    ),
)
WHOLE = KernelPlan(name="fix", role=Role.PATCHED, on="base", series=SERIES)
CHAIN = percommit.split((runs.BASE, WHOLE))
MADE = plan.builds(runs.scenario(CHAIN))
NEW = Diagnostic(
    tool="compiler",
    file="mm/slub.c",
    line=7,
    function="f",
    text="unused variable 'x'",
    kind="-Wunused-variable",
)


def broken(error: str = "expected ';'", line: int = 7) -> BuildFailure:
    return BuildFailure(
        kernel="k",
        architecture="x86_64",
        error=error,
        file="mm/slub.c",
        line=line,
        log=runs.ROOT / "build.log",
    )


def evidence(**builds: BuildFailure | Build | None) -> Evidence:
    """Kernels by name, with _ for -; what is not named builds without a warning."""
    good = runs.good_evidence(MADE)
    named = {name.replace("_", "-"): built for name, built in builds.items()}
    every = {("x86_64", k.name): named.get(k.name, runs.build(k.name)) for k in CHAIN}
    return replace(good, builds={place: built for place, built in every.items() if built})


def judged(found: Evidence, made: Plan = MADE) -> dict[str, Case]:
    cases = verdict.judge(made, found, root=runs.ROOT)
    return {f"{case.id.suite.rpartition('.')[2]} {case.id.name}": case for case in cases}


def test_a_patch_that_a_later_one_mends() -> None:
    cases = judged(evidence(fix_1=broken(), fix_2=broken(line=9)))
    first, second = cases["fix-1 build"], cases["fix-2 build"]
    assert first.outcome is second.outcome is Outcome.FAILED
    assert "mm/slub.c:7: expected ';'" in first.reason
    assert first.reason.endswith(
        "patch 1/3 “mm: step 1” breaks it, patch 3/3 “mm: step 3” mends it"
    )
    assert second.reason.endswith("as it does since patch 1/3 “mm: step 1”")
    assert cases["fix build"].outcome is Outcome.PASSED
    assert outcomes.run_exit(cases.values()) == 1


def test_a_patch_that_no_later_one_mends() -> None:
    cases = judged(evidence(fix_2=broken(), fix=broken()))
    assert cases["fix-1 build"].outcome is Outcome.PASSED
    assert cases["fix-2 build"].reason.endswith("breaks it, and no later one mends it")
    assert cases["fix build"].reason.endswith("as it does since patch 2/3 “mm: step 2”")


def test_another_error_is_another_patch_s() -> None:
    cases = judged(evidence(fix_2=broken(), fix=broken("no member x")))
    assert cases["fix build"].reason.endswith("; patch 3/3 “mm: step 3” breaks it")


def test_what_was_not_built_may_mend_it_or_not() -> None:
    words = judged(evidence(fix_2=broken(), fix=None))["fix-2 build"].reason
    assert words.endswith("whether a later one mends it is not known")


def test_a_kernel_on_its_own_is_not_spoken_of() -> None:
    alone = plan.builds(runs.scenario((runs.BASE, WHOLE)))
    good = runs.good_evidence(alone)
    found = replace(good, builds={**good.builds, ("x86_64", "fix"): broken()})
    assert "breaks it" not in judged(found, alone)["fix build"].reason
    assert chain.patch(WHOLE) == "fix"


def test_a_warning_is_its_own_patch_s_alone() -> None:
    warned = {
        name: replace(runs.build(name.replace("_", "-")), warnings=(NEW,))
        for name in ("fix_2", "fix")
    }
    cases = judged(evidence(**warned))
    assert cases["fix-1 warnings"].outcome is cases["fix warnings"].outcome is Outcome.PASSED
    assert cases["fix-2 warnings"].outcome is Outcome.FAILED
    assert cases["fix-2 warnings"].reason == (
        "patch 2/3 “mm: step 2”: 1 new warning: "
        "mm/slub.c:7 (f): unused variable 'x' [-Wunused-variable]"
    )


def test_warnings_over_one_that_does_not_build_are_held_against_the_next_that_does() -> None:
    warned = replace(runs.build("fix"), warnings=(NEW,))
    cases = judged(evidence(fix_2=broken(), fix=warned))
    assert cases["fix-2 warnings"].outcome is Outcome.NOT_RUN
    assert cases["fix warnings"].outcome is Outcome.FAILED
    old = replace(runs.build("fix-1"), warnings=(NEW,))
    assert judged(evidence(fix_1=old, fix_2=broken(), fix=warned))["fix warnings"].outcome is (
        Outcome.PASSED
    )


@pytest.mark.parametrize("kernel", ["base", "fix_2"])
def test_warnings_that_nobody_knows_of_are_no_pass(kernel: str) -> None:
    name = kernel.replace("_", "-")
    cases = judged(evidence(**{kernel: replace(runs.build(name), warnings=None)}))
    case = cases["fix-1 warnings" if kernel == "base" else "fix-2 warnings"]
    assert case.outcome is Outcome.UNSUPPORTED
    assert "is not known" in case.reason
