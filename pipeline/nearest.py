"""What the files in which two trees differ come to: how much is built anew, and whether the
configuration may be another one."""

from __future__ import annotations

from collections.abc import Iterable

# What Kconfig never reads: it takes Kconfig files, and what its $(shell,...) runs, which lies in
# folders named scripts or tools. (Of the Makefiles it takes the version and the compiler's flags.)
SOURCES = (".c", ".h", ".S", ".s", ".rst", ".dts", ".dtsi", ".yaml", ".rs")
READ_BY_KCONFIG = ("scripts", "tools")

# In files that are compiled anew. A header under include/ is in tens to thousands of objects;
# scripts/ has the programs that all of them are made with.
SHARED_HEADER = 200
SCRIPT = 100
HEADER = 20
SETTINGS = 20  # a Kconfig file may change the configuration, a Makefile what is built how
MOST = 20_000  # above that, nearly everything is compiled: a clean build is as quick


def cost(paths: Iterable[str]) -> int | None:
    """What building after a tree that differs in `paths` comes to; None for too much."""
    whole = sum(_weight(path) for path in paths)
    return whole if whole <= MOST else None


def _weight(path: str) -> int:
    if path.startswith(("Documentation/", "tools/testing/")):
        return 0
    if path.startswith("include/") or "/include/" in path:
        return SHARED_HEADER if path.endswith(".h") else SETTINGS
    if path.startswith("scripts/"):
        return SCRIPT
    name = path.rpartition("/")[2]
    if name.startswith(("Kconfig", "Makefile", "Kbuild")):
        return SETTINGS
    return HEADER if name.endswith(".h") else 1


def same_configuration(paths: Iterable[str]) -> bool:
    """Whether trees that differ in `paths` alone give the same configuration for sure."""
    return all(
        path.endswith(SOURCES) and not set(path.split("/")).intersection(READ_BY_KCONFIG)
        for path in paths
    )
