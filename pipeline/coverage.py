"""Which changed lines a configuration compiles, and what would bring in the rest. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from pipeline import conditionals
from pipeline.conditionals import Source
from pipeline.model import ChangedFile, Cover, Examination, Fragment, HiddenLines

COVER = "cover"  # the name of the fragment


def of_file(
    path: str,
    lines: Iterable[int],
    *,
    text: str,
    seen: Collection[int],
    config: Mapping[str, str],
    left: int = 0,
) -> ChangedFile:
    """Of a file that is in some object. `seen`: its lines in what the compiler got; `left`:
    objects with it that were not looked at.

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
        left=left,
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


def bring_in(found: Iterable[Examination], others: Iterable[Examination] = ()) -> Cover:
    """The settings for a configuration with what no target compiles, of those that were `found`
    for one architecture, nor of the `others`."""
    examined = tuple(found)
    lacking = uncovered((*examined, *others))
    wanted: dict[str, dict[str, str]] = {}  # symbol -> value -> the place that wants it first
    beyond = {path: set(lines) for path, lines in lacking.items()}
    for file in (file for each in examined for file in each.files):
        groups = [(each.lines, each.options) for each in file.hidden]
        for lines, options in [*groups, (file.not_built, file.options)]:
            missing = sorted(set(lacking.get(file.path, ())).intersection(lines))
            for option in options if missing else ():
                name, _, value = option.partition("=")
                wanted.setdefault(name, {}).setdefault(value, f"{file.path}:{missing[0]}")
                beyond[file.path].difference_update(missing)
    return Cover(
        symbols={name: next(iter(values)) for name, values in wanted.items()},
        conflicts=tuple(_conflict(name, each) for name, each in wanted.items() if len(each) > 1),
        beyond={path: tuple(sorted(lines)) for path, lines in beyond.items() if lines},
    )


def _conflict(name: str, places: Mapping[str, str]) -> str:
    """ "CONFIG_NUMA: y for mm/slub.c:3, n for mm/slub.c:9; taken: y"."""
    wishes = ", ".join(f"{value} for {place}" for value, place in places.items())
    return f"{name}: {wishes}; taken: {next(iter(places))}"


def coverfragment(found: Iterable[Examination]) -> Fragment | None:
    """The fragment `cover`, to be merged last; None where there is nothing that it could add."""
    return fragment(bring_in(found).symbols)


def fragment(symbols: Mapping[str, str]) -> Fragment | None:
    """Of these settings; None for none."""
    if not symbols:
        return None
    return Fragment(
        name=COVER,
        path=Path(f"{COVER}.config"),
        symbols=symbols,
        description="what compiles changed lines that no other configuration does",
    )
