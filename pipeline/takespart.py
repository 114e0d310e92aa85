"""Whether a changed file that is in no object of the kernel may have changed it all the same:
Makefiles, linker scripts, programs that the build runs. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import PurePosixPath

CODE = (".c", ".h", ".S")
_MAKE = re.compile(r"(?:Makefile|Kbuild|Kconfig)(?:[.-].*)?|.*\.mk")
_TEXTS = frozenset(["MAINTAINERS", "CREDITS", "COPYING", "README", "TODO", "CHANGES"])
# objtool and what it is made of: it writes into the kernel's objects (6.12: Makefile, `prepare`).
_PROGRAMS = tuple(
    f"tools/{each}/"
    for each in ("objtool", "build", "scripts", "include", "arch", "lib", "bpf/resolve_btfids")
)
# Where scripts of the build are called from; globs of the tree.
CALLERS = (
    "Makefile",
    "Kbuild",
    "*/Makefile",
    "*/Kconfig",
    "arch/*/Makefile",
    "arch/*/Kconfig",
    "arch/*/*/Makefile",
    "scripts/Makefile*",
    "scripts/Kbuild*",
    "scripts/Kconfig*",
    "scripts/*.sh",
)


def in_build(path: str, *, used: Collection[str], callers: str) -> bool:
    """`used`: what the build's own commands name, other than the kernel's objects; `callers`:
    text of the files that CALLERS are. In doubt it does."""
    file = PurePosixPath(path)
    if path in used or path.startswith(_PROGRAMS):
        return True
    if path.endswith(CODE) or _is_text(file):
        return False
    if path.startswith("tools/"):
        return False
    if path.startswith("scripts/") and not _MAKE.fullmatch(file.name):
        return re.search(rf"(?<![\w.-]){re.escape(file.name)}(?![\w.-])", callers) is not None
    return True


def _is_text(file: PurePosixPath) -> bool:
    return (
        file.parts[0] in {"Documentation", "LICENSES"}
        or file.name.startswith(".")
        or file.suffix in {".rst", ".md"}
        or file.name in _TEXTS
    )
