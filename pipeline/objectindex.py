"""The objects of a kernel's build folder, from what kbuild keeps of each (.foo.o.cmd). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

_COMMAND = re.compile(r"^(?:saved)?cmd_(\S+\.o) := (.*)$", re.M)
_SOURCE = re.compile(r"^source_\S+ := (\S+)$", re.M)
_DEPENDS = re.compile(r"-Wp,-MM?D,\S+")
MOST = 8  # objects for one file: a header may be in thousands


@dataclass(frozen=True, kw_only=True)
class Object:
    """An object of the kernel. `preprocess`: the command up to the output's name, for a shell.

    `depends`: its source and headers as the build names them, one a line.
    """

    name: str
    preprocess: str
    source: str
    depends: str


def read(text: str) -> Object | None:
    """One .cmd file; None for what is not compiled from C or assembler for the kernel."""
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
        depends="\n".join(each.strip(" \\") for each in (source[1], *text.split("\n"))),
    )


def having(path: str, objects: Mapping[str, Object], root: str) -> list[str]:
    """The objects that a file of the tree is in, those nearest to it first."""
    wanted = f"{root.rstrip('/')}/{path}"
    found = [name for name, each in objects.items() if f"\n{wanted}\n" in f"\n{each.depends}\n"]
    own = str(PurePosixPath(path).with_suffix(".o"))
    folder = str(PurePosixPath(path).parent)
    return sorted(
        found, key=lambda name: (name != own, str(PurePosixPath(name).parent) != folder, name)
    )
