"""What a series changes in a kernel, from the preprocessed objects of both sides. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from pipeline import preprocessed
from pipeline.model import Change, ChangeKind

_ORDER = (ChangeKind.NOTHING, ChangeKind.LINES, ChangeKind.STRINGS, ChangeKind.CODE)


@dataclass(frozen=True, kw_only=True)
class Side:
    """A kernel, seen through the preprocessor.

    `objects`: all that it has; `having`: object -> changed files in it; `texts`: of those that
    were looked at; `used`: changed files that other things of the build are made with.
    """

    root: str
    objects: Collection[str]
    having: Mapping[str, tuple[str, ...]]
    texts: Mapping[str, str]
    used: Collection[str] = ()


def change(before: Side, after: Side, *, only_moved: bool, other: Iterable[str] = ()) -> Change:
    """Of kernels that differ. Where no token does, what is left are line numbers.

    `only_moved`: the changed sources differ in comments and empty lines alone, so that objects
    that were not looked at cannot differ by more. `other`: changed files that take part in the
    build and are no source of an object: these may do anything.
    """
    looked = [name for name in after.texts if name in before.texts]
    concerned = {**after.having, **before.having}
    lonely = [name for name in concerned if (name in before.objects) != (name in after.objects)]
    left = len(concerned) - len({*looked, *lonely} & set(concerned))
    left += any(path in {*before.used, *after.used} for path in _paths(concerned.values()))
    found = _Found(worst=ChangeKind.CODE if lonely else ChangeKind.LINES)
    for name in lonely:
        found.files.update(dict.fromkeys(concerned[name]))
    for name in looked:
        found.add(
            preprocessed.tokens(before.texts[name], before.root),
            preprocessed.tokens(after.texts[name], after.root),
            concerned.get(name, ()),
        )
    if others := dict.fromkeys(other):
        found.files.update(others)
        found.worst = ChangeKind.CODE
    if found.worst is not ChangeKind.CODE and left and not only_moved:
        found.worst = ChangeKind.UNKNOWN
    return Change(
        kind=found.worst,
        files=tuple(found.files or sorted(_paths(concerned.values()))),
        functions=tuple(found.functions),
        data=tuple(found.data),
        left=left,
    )


class _Found:
    def __init__(self, worst: ChangeKind) -> None:
        self.worst = worst
        self.files: dict[str, None] = {}
        self.functions: dict[str, None] = {}
        self.data: dict[str, None] = {}

    def add(
        self, old: list[preprocessed.Token], new: list[preprocessed.Token], paths: Iterable[str]
    ) -> None:
        kind = preprocessed.kind(old, new)
        if kind is ChangeKind.NOTHING:
            return
        self.worst = max(self.worst, kind, key=_ORDER.index)
        self.files.update(dict.fromkeys(paths))
        if kind is not ChangeKind.LINES:
            functions, data = preprocessed.names(old, new)
            self.functions.update(dict.fromkeys(functions))
            self.data.update(dict.fromkeys(data))


def _paths(groups: Iterable[tuple[str, ...]]) -> set[str]:
    return {path for group in groups for path in group}
