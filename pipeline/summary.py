"""`summary.txt`: what was run and what came of it, for people. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pipeline import bootnotes, buildview, outcomes, tables, text, trialview
from pipeline.model import (
    ApplyFailure,
    Case,
    Cell,
    KernelPlan,
    Outcome,
    Revision,
    Run,
)

REASON_LIMIT = 400
# Where the same reason stands in many cases, this many are named.
SAME_REASON = 3

_WORDS = {
    outcomes.GOOD: "good, nothing is charged to the series",
    outcomes.BAD: "bad, a fault is charged to the series",
    outcomes.FAULT: "none, the series could not be judged, or not wholly",
}


def render(run: Run, *, strict: bool = False) -> str:
    """The whole text. `strict` as in `outcomes.run_exit`."""
    parts = (_what(run), _host(run), _numbers(run), _cases(run), _verdict(run, strict))
    return text.clean("\n".join(line for part in parts for line in part)).rstrip("\n") + "\n"


# --------------------------------------------------------------------------- what was run


def _what(run: Run) -> Iterator[str]:
    scenario = run.plan.scenario
    yield f"{scenario.name}: {scenario.title}"
    if scenario.posted:
        yield f"posted: {scenario.posted}"
    tree = run.evidence.tree
    if tree:
        version = f"{tree.version}, " if tree.version else ""
        yield f"tree: {tree.name} ({version}base {tree.base[:12]})"
    else:
        yield f"tree: {scenario.tree.name} (base {scenario.tree.base})"
    if scenario.variant:
        yield f"variant: {scenario.variant}"
    for note in dict.fromkeys((*scenario.notes, *run.notes)):
        yield f"note: {note}"
    yield "kernels:"
    width = max((len(kernel.name) for kernel in scenario.kernels), default=0)
    for kernel in scenario.kernels:
        yield from _kernel(run, kernel, width)
    yield ""


def _kernel(run: Run, kernel: KernelPlan, width: int) -> Iterator[str]:
    found = run.evidence.revisions.get(kernel.name)
    commit = found.commit[:12] if isinstance(found, Revision) else ""
    if isinstance(found, ApplyFailure):
        commit = "does not apply"
    under = f" on {kernel.on}" if kernel.on else ""
    yield f"  {kernel.name.ljust(width)}  {kernel.role.value}{under}  {commit}".rstrip()
    for patch in kernel.series.patches if kernel.series else ():
        yield f"  {' ' * width}    {patch.number}: {patch.subject}"
    for problem in problems(run, kernel):
        yield f"  {' ' * width}    ! {problem}"


def problems(run: Run, kernel: KernelPlan) -> tuple[str, ...]:
    """What a reader should know before trusting a series, each once."""
    found = run.evidence.revisions.get(kernel.name)
    came_out = found.problems if isinstance(found, Revision) else ()
    said = kernel.series.problems if kernel.series else ()
    told = {*run.plan.scenario.notes, *run.notes}
    return tuple(each for each in dict.fromkeys((*said, *came_out)) if each not in told)


def _host(run: Run) -> Iterator[str]:
    for name, accelerator in run.evidence.accelerators.items():
        yield f"accelerator for {name}: {accelerator.name}, since {accelerator.reason}"
    for name, image in run.evidence.images.items():
        yield f"image for {name}: {image.name} ({image.how}, {image.seconds:.1f} s)"
    yield from buildview.lines(run)
    yield from bootnotes.lines(run)
    yield ""


# --------------------------------------------------------------------------- numbers


def _numbers(run: Run) -> Iterator[str]:
    any_lines, judged = False, trialview.lines(run)
    for cell in run.plan.cells:
        lines = [*tables.render(run, cell), *bootnotes.events(run, cell)]
        if lines:
            any_lines = True
            yield _cell_title(run, cell)
            yield ""
            yield from lines
    if over_guests := tables.across(run):
        any_lines = True
        yield "== guests beside each other"
        yield ""
        yield from over_guests
    if any_lines:
        yield "Each number is the mean over the boots, with [smallest … largest] where they differ."
        yield "" if judged else "Times are not judged: one or two boots decide nothing.\n"
    yield from judged


def _cell_title(run: Run, cell: Cell) -> str:
    boots = Counter(boot.kernel for boot in run.plan.boots if boot.cell == cell)
    each = max(boots.values(), default=0)
    workload = (
        f", {cell.workload}"
        if any(one.label == cell.workload for one in run.plan.scenario.workloads)
        else ""
    )
    many = f"{each} boot{'s' if each != 1 else ''} of each kernel"
    return f"== {cell.target}, guest {cell.guest}{workload}: {many}"


# --------------------------------------------------------------------------- cases


def _cases(run: Run) -> Iterator[str]:
    """Every case that did not pass; those of one outcome and reason stand together."""
    groups: dict[tuple[Outcome, str], list[Case]] = {}
    for case in run.cases:
        if case.outcome is not Outcome.PASSED:
            groups.setdefault((case.outcome, case.reason), []).append(case)
    for outcome in Outcome:
        for (its, reason), cases in groups.items():
            if its is outcome:
                yield from _group(outcome, reason, cases)
    if groups:
        yield ""


def _group(outcome: Outcome, reason: str, cases: list[Case]) -> Iterator[str]:
    for case in cases[:SAME_REASON]:
        yield f"{outcome.value.upper()}: {case.id.suite} {case.id.name}"
    if len(cases) > SAME_REASON:
        yield f"{outcome.value.upper()}: and {len(cases) - SAME_REASON} more for the same reason"
    if reason:
        yield f"    {' '.join(reason.split())[:REASON_LIMIT]}"
    evidence = next((case.evidence for case in cases if case.evidence), "")
    if evidence:
        yield f"    see {evidence}"


def counts(run: Run) -> str:
    """“4 passed, 1 failed”, in the order of the outcomes."""
    count = Counter(case.outcome for case in run.cases)
    return ", ".join(f"{count[each]} {each.value}" for each in Outcome if count[each]) or "no cases"


def _verdict(run: Run, strict: bool) -> Iterator[str]:
    code = outcomes.run_exit(run.cases, strict)
    yield f"{counts(run)} of {len(run.cases)} cases in {max(0.0, run.ended - run.started):.0f} s"
    cut = "; the run was cut before its end" if run.evidence.cut else ""
    yield f"verdict: {_WORDS[code]}{cut}"
    yield f"results: {run.folder} (junit.xml, result.json, logs; paths above are below it)"
