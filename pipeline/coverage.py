"""Which changed lines a configuration compiles, and what would bring in the rest. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pipeline import conditionals
from pipeline.conditionals import Source
from pipeline.model import ChangedFile, Examination, HiddenLines


def of_file(
    path: str,
    lines: Iterable[int],
    *,
    text: str,
    seen: Collection[int],
    config: Mapping[str, str],
) -> ChangedFile:
    """Of a file that is in some object. `seen`: its lines in what the compiler got.

    A branch is active where anything within it was seen: a call over several lines is seen on
    one of them only. IS_ENABLED() in an if () hides nothing, both sides are compiled.
    """
    source = conditionals.read(text)
    active = {index for line in seen for index in source.chain(line)}
    compiled: list[int] = []
    hidden: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for line in sorted(source.code.intersection(lines)):
        off = [index for index in source.chain(line) if index not in active]
        if off:
            hidden.setdefault(_hiding(source, off, config), []).append(line)
        else:
            compiled.append(line)
    return ChangedFile(
        path=path,
        compiled=tuple(compiled),
        hidden=tuple(
            HiddenLines(lines=tuple(each), by=by, options=options)
            for (by, options), each in hidden.items()
        ),
    )


def _hiding(
    source: Source, off: list[int], config: Mapping[str, str]
) -> tuple[str, tuple[str, ...]]:
    """The innermost branch that does not hold, and what all of those around it lack."""
    needs = [conditionals.needed(source.branches[index], config) for index in off]
    at = next(
        (index for index, need in zip(off, needs, strict=True) if need is None or need), off[-1]
    )
    options = {option for need in needs for option in need or ()}
    return source.branches[at].text, tuple(sorted(options))


def uncovered(found: Iterable[Examination]) -> dict[str, tuple[int, ...]]:
    """The changed lines of code that no target compiles, by file."""
    lines: dict[str, set[int]] = {}
    for file in (file for each in found for file in each.files):
        lines.setdefault(file.path, set()).update(_missing(file))
    for file in (file for each in found for file in each.files):
        lines[file.path] -= set(file.compiled)
    return {path: tuple(sorted(each)) for path, each in lines.items() if each}


def _missing(file: ChangedFile) -> set[int]:
    return {*file.not_built, *(line for each in file.hidden for line in each.lines)}


def bring_in(found: Iterable[Examination]) -> dict[str, str]:
    """CONFIG_ symbol -> value for a configuration with what no target compiles.

    Where two want a symbol otherwise the first stays: one kernel cannot have both.
    """
    examined = tuple(found)
    lacking = uncovered(examined)
    settings: dict[str, str] = {}
    for file in (file for each in examined for file in each.files):
        wanted = set(lacking.get(file.path, ()))
        groups = [(each.lines, each.options) for each in file.hidden]
        for lines, options in [*groups, (file.not_built, file.options)]:
            for option in options if wanted.intersection(lines) else ():
                name, _, value = option.partition("=")
                settings.setdefault(name, value)
    return settings
