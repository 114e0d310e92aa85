"""What the summary says of builds: how they were made, what changed, what checks found. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline import coverview, text
from pipeline.model import Build, ChangeKind, Run

SHOWN = 8  # names in a row


def lines(run: Run) -> Iterator[str]:
    """Everything about builds, in the order in which a reader asks for it."""
    yield from _builds(run)
    yield from _identical(run)
    yield from _changes(run)
    yield from coverview.lines(run.evidence.examinations)
    yield from _checks(run)
    yield from _verified(run)


def _builds(run: Run) -> Iterator[str]:
    builds = {key: it for key, it in run.evidence.builds.items() if isinstance(it, Build)}
    for (target, kernel), build in builds.items():
        how = f"{build.how}, {build.seconds:.1f} s, {build.compiler}"
        yield f"build of {kernel} for {target}: {how}"
    if not all(build.sandboxed for build in builds.values()):
        yield "builds ran without the sandbox"


def _identical(run: Run) -> Iterator[str]:
    """Loudly: the author may have expected that something would be tried."""
    for (target, kernel), found in run.evidence.comparisons.items():
        if found.identical:
            yield (
                f"!! {kernel} for {target} is bit for bit the same as {found.below}: "
                "the series changes nothing there, and nothing of it was booted"
            )


def _changes(run: Run) -> Iterator[str]:
    for (target, kernel), found in run.evidence.examinations.items():
        if found.change.kind is not ChangeKind.NOTHING:
            yield f"{kernel} changes for {target}: {coverview.change(found.change)}"


def _checks(run: Run) -> Iterator[str]:
    for (target, kernel, check), found in run.evidence.checked.items():
        where = f" for {target}" if target else ""
        if found.problem:
            yield f"check {check} of {kernel}{where}: not made: {found.problem}"
        else:
            before = f", {found.old} that were there before" if found.old else ""
            yield f"check {check} of {kernel}{where}: {len(found.new)} new{before}"
        yield from (f"    {each}" for each in found.new[:SHOWN])


def _verified(run: Run) -> Iterator[str]:
    for (target, kernel), found in run.evidence.verified.items():
        same = "bit for bit the same as a clean build"
        if found.differing:
            same = f"NOT the same as a clean build: {text.some(found.differing, SHOWN)}"
        yield f"verified {kernel} for {target}: {same} ({found.seconds:.0f} s)"
