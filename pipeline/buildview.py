"""What the summary says of builds: how they were made, what changed, what checks found. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline import coverview, imagesize, text
from pipeline.model import Build, ChangeKind, Run

SHOWN = 8  # names in a row


def lines(run: Run) -> Iterator[str]:
    """Everything about builds, in the order in which a reader asks for it."""
    yield from _builds(run)
    yield from _identical(run)
    yield from _sizes(run)
    yield from _changes(run)
    yield from coverview.lines(run.evidence.examinations, run.evidence.covered)
    yield from _checks(run)
    yield from _verified(run)


def _builds(run: Run) -> Iterator[str]:
    builds = {key: it for key, it in run.evidence.builds.items() if isinstance(it, Build)}
    for (target, kernel), build in builds.items():
        if kernel == next(name for place, name in builds if place == target):
            yield from _facts(
                target, [each for (place, _), each in builds.items() if place == target]
            )
        how = f"{build.how}, {build.seconds:.1f} s, {build.compiler}"
        yield f"build of {kernel} for {target}: {how}"
    if not all(build.sandboxed for build in builds.values()):
        yield "builds ran without the sandbox"


def _facts(target: str, builds: list[Build]) -> Iterator[str]:
    """What a reader of times must know: all kernels of a target have the same configuration,
    unless one of them changes what its Kconfig files give."""
    for name in dict.fromkeys(name for build in builds for name in build.facts):
        values = [build.facts.get(name, "") for build in builds]
        if len(set(values)) > 1:
            told = ", ".join(f"{b.kernel}: {b.facts.get(name) or 'none'}" for b in builds)
            yield f"!! {name} differs between the kernels for {target}: {told}"
    if builds[0].facts:
        words = ", ".join(f"{name} {value}" for name, value in builds[0].facts.items())
        yield f"configuration for {target}: {words}"


def _identical(run: Run) -> Iterator[str]:
    """Loudly: the author may have expected that something would be tried."""
    for (target, kernel), found in run.evidence.comparisons.items():
        if found.identical:
            yield (
                f"!! {kernel} for {target} is bit for bit the same as {found.below}: "
                "the series changes nothing there, and nothing of it was booted"
            )


def _sizes(run: Run) -> Iterator[str]:
    for (target, kernel), found in run.evidence.comparisons.items():
        if found.growth:
            sizes, *symbols = imagesize.lines(found.growth, most=SHOWN)
            yield f"{kernel} against {found.below} for {target}: {sizes}"
            yield from symbols


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
