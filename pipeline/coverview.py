"""What the report says of changed lines that were not compiled. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipeline import coverage, text
from pipeline.model import Change, ChangedFile, ChangeKind, Cover, Covered, Examination

FUNCTIONS = 12  # names in a row


def change(found: Change, most: int = FUNCTIONS) -> str:
    """ "only strings: f, g": the kind of a change and where it is."""
    words = found.kind.value
    left = f"{found.left} {'objects' if found.left > 1 else 'object'} with changed files"
    if found.kind is ChangeKind.UNKNOWN:
        words = f"unknown, nothing but lines or strings was seen and {left} not looked at"
    elif found.kind is ChangeKind.CODE and found.left:
        words = f"{words} ({left} not looked at)"
    named = (*found.functions, *found.data) or found.files
    return f"{words}: {text.some(named, most)}" if named else words


def lines(
    examinations: Mapping[tuple[str, str], Examination],
    covered: Mapping[tuple[str, str], Covered] | None = None,
) -> Iterator[str]:
    """`examinations`: by target and kernel, `covered` by architecture and kernel, as the evidence
    has them."""
    besides = covered or {}
    for (target, kernel), found in examinations.items():
        yield from _target(target, kernel, found)
    for (architecture, kernel), each in besides.items():
        yield from _covered(f"{architecture}.{coverage.COVER}", kernel, each)
    for kernel in dict.fromkeys(kernel for _, kernel in examinations):
        of_kernel = [each for (_, name), each in examinations.items() if name == kernel]
        of_kernel += [
            each.examination
            for (_, name), each in besides.items()
            if name == kernel and each.examination
        ]
        for path, missing in coverage.uncovered(of_kernel).items():
            yield f"!! no target compiles these changed lines of {kernel}: {path}:{spans(missing)}"


def cover(found: Cover) -> Iterator[str]:
    """What is said of the configuration `cover`."""
    if found.symbols:
        settings = ", ".join(f"{name}={value}" for name, value in found.symbols.items())
        yield f"configuration {coverage.COVER}: {settings}"
    for each in found.conflicts:
        yield f"!! one kernel cannot have both: {each}"
    for path, numbers in found.beyond.items():
        yield f"!! no setting is known that would compile {path}:{spans(numbers)}"


def _covered(target: str, kernel: str, found: Covered) -> Iterator[str]:
    if not (found.cover.symbols or found.cover.beyond):
        yield f"configuration {target} of {kernel}: not needed, all changed lines are compiled"
        return
    yield from cover(found.cover)
    for each in found.lost:
        yield f"!! {target}: given up: {each}"
    if found.problem:
        yield f"!! {target} of {kernel} was not built: {found.problem}"
    if found.examination:
        yield from _target(target, kernel, found.examination)


def _target(target: str, kernel: str, found: Examination) -> Iterator[str]:
    seen = sum(len(file.compiled) for file in found.files)
    every = seen + sum(len(_left(file)) for file in found.files)
    if every:
        yield f"changed lines of {kernel} compiled for {target}: {seen} of {every}"
    for file in found.files:
        rest = f"; {file.left} more objects with it not looked at" if file.left else ""
        for each in file.hidden:
            by = f"hidden by {each.by}{_with(each.options)}"
            yield f"    {file.path}:{spans(each.lines)}: {by}{rest}"
        if file.why:
            what = f"{file.path}:{spans(file.not_built)}" if file.not_built else file.path
            how = "not looked at" if file.left else "not built"
            yield f"    {what}: {how}: {file.why}{_with(file.options)}"


def _left(file: ChangedFile) -> list[int]:
    return [*file.not_built, *(line for each in file.hidden for line in each.lines)]


def _with(options: tuple[str, ...]) -> str:
    return f" ({', '.join(options)} would bring it in)" if options else ""


def spans(numbers: tuple[int, ...]) -> str:
    """ "3-5,9" of 3, 4, 5 and 9."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(f"{a}-{b}" if a < b else str(a) for a, b in found)
