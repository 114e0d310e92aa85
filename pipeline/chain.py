"""Kernels on trial that stand on each other, as those of a series per commit do. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline import plan
from pipeline.model import Build, BuildFailure, Evidence, KernelPlan, Role, Scenario


def patch(kernel: KernelPlan) -> str:
    """What a kernel adds to the one below it: “patch 2/3 “subject””, or its name if it is more."""
    series = kernel.series
    if series is None or len(series.patches) != 1:
        return kernel.name
    its = series.patches[0]
    return f"patch {its.number}/{series.whole} “{its.subject}”"


def above(scenario: Scenario, kernel: KernelPlan) -> Iterator[KernelPlan]:
    """The kernels on trial that stand on this one, in their order."""
    for each in scenario.kernels:
        if each.role is Role.PATCHED and kernel in plan.beneath(scenario, each):
            yield each


def of_failure(scenario: Scenario, evidence: Evidence, target: str, kernel: KernelPlan) -> str:
    """Which patch broke a build, and whether a later one mends it; "" of a kernel on its own."""
    low, high = list(plan.beneath(scenario, kernel)), list(above(scenario, kernel))
    if not (low or high):
        return ""
    first = kernel
    for each in low:
        if not _same(evidence, target, each, kernel):
            break
        first = each
    if first != kernel:
        return f"as it does since {patch(first)}"
    built = [evidence.builds.get((target, each.name)) for each in high]
    mending = next((k for k, b in zip(high, built, strict=True) if isinstance(b, Build)), None)
    if mending:
        return f"{patch(kernel)} breaks it, {patch(mending)} mends it"
    if not high:
        return f"{patch(kernel)} breaks it"
    if all(isinstance(each, BuildFailure) for each in built):
        return f"{patch(kernel)} breaks it, and no later one mends it"
    return f"{patch(kernel)} breaks it; whether a later one mends it is not known"


def _same(evidence: Evidence, target: str, one: KernelPlan, other: KernelPlan) -> bool:
    """Whether two kernels break at the same place, wherever it stands in its file by now."""
    a, b = (evidence.builds.get((target, each.name)) for each in (one, other))
    if not (isinstance(a, BuildFailure) and isinstance(b, BuildFailure)):
        return False
    return (a.file, a.error) == (b.file, b.error)
