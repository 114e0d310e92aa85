"""The objects of a kernel's build folder, from what kbuild keeps of each (.foo.o.cmd). Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

_COMMAND = re.compile(r"^(?:saved)?cmd_(\S+\.o) := (.*)$", re.M)
_SOURCE = re.compile(r"^source_\S+ := (\S+)$", re.M)
_DEPENDS = re.compile(r"-Wp,-MMD,\S+")
MOST = 8  # objects for one header: it may be in thousands
MOST_OF_HEADERS = 40  # objects that are looked at for the sake of headers
MOST_OBJECTS = 200


@dataclass(frozen=True, kw_only=True)
class Object:
    """An object of the kernel. `preprocess`: the command up to the output's name, for a shell.

    `within`: those of the files in question that it is made of.
    """

    name: str
    preprocess: str
    source: str
    within: tuple[str, ...] = ()


def read(text: str, root: str, paths: Collection[str]) -> Object | None:
    """One .cmd file; None for what is not compiled from C or assembler for the kernel.

    `root`: the source folder as the build names it; `paths`: files of the tree in question.
    """
    command, source = _COMMAND.search(text), _SOURCE.search(text)
    if command is None or source is None or "-D__KERNEL__" not in command[2]:
        return None
    name = command[1]
    head, found, _ = command[2].partition(f" -c -o {name} {source[1]}")
    if not found:
        return None
    words = _DEPENDS.sub("", head.replace("$$", "$").replace("\\#", "#"))
    return Object(
        name=name,
        preprocess=f"{words} -E -dD",
        source=source[1],
        within=_within(text, source[1], root, paths),
    )


def _within(text: str, source: str, root: str, paths: Collection[str]) -> tuple[str, ...]:
    named = {f"{root.rstrip('/')}/{path}": path for path in paths}
    if not any(each in text for each in named):
        return ()
    lines = {source, *(line.strip(" \\") for line in text.split("\n"))}
    return tuple(path for each, path in named.items() if each in lines)


def named(text: str, paths: Iterable[str]) -> set[str]:
    """The files in question that a .cmd file of anything names: a linker script, a program."""
    return {
        path
        for path in paths
        if path in text and re.search(rf"(?<![\w.-]){re.escape(path)}(?![\w.-])", text)
    }


def choose(paths: Iterable[str], objects: Mapping[str, Object]) -> list[str]:
    """The objects to look at: those of every C file, and for each header some near to it."""
    chosen: dict[str, None] = {}
    for path in sorted(paths, key=lambda path: path.endswith(".h")):
        header = path.endswith(".h")
        for name in _nearest(path, objects)[: MOST if header else None]:
            if len(chosen) < (MOST_OF_HEADERS if header else MOST_OBJECTS):
                chosen[name] = None
    return list(chosen)


def _nearest(path: str, objects: Mapping[str, Object]) -> list[str]:
    own = str(PurePosixPath(path).with_suffix(".o"))
    folder = str(PurePosixPath(path).parent)
    return sorted(
        (name for name, each in objects.items() if path in each.within),
        key=lambda name: (name != own, str(PurePosixPath(name).parent) != folder, name),
    )
