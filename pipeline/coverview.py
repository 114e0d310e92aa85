"""What the report says of changed lines that were not compiled. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipeline import coverage
from pipeline.model import ChangedFile, Examination


def lines(examinations: Mapping[tuple[str, str], Examination]) -> Iterator[str]:
    """`examinations`: by target and kernel, as the evidence has them."""
    for (target, kernel), found in examinations.items():
        yield from _target(target, kernel, found)
    for kernel in dict.fromkeys(kernel for _, kernel in examinations):
        of_kernel = [each for (_, name), each in examinations.items() if name == kernel]
        for path, missing in coverage.uncovered(of_kernel).items():
            yield f"!! no target compiles these changed lines of {kernel}: {path}:{spans(missing)}"


def _target(target: str, kernel: str, found: Examination) -> Iterator[str]:
    seen = sum(len(file.compiled) for file in found.files)
    every = seen + sum(len(_left(file)) for file in found.files)
    if every:
        yield f"changed lines of {kernel} compiled for {target}: {seen} of {every}"
    for file in found.files:
        for each in file.hidden:
            yield f"    {file.path}:{spans(each.lines)}: hidden by {each.by}{_with(each.options)}"
        if file.not_built:
            what = f"{file.path}:{spans(file.not_built)}"
            yield f"    {what}: not built: {file.why}{_with(file.options)}"


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
