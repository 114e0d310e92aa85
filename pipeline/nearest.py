"""How much of a kernel is built anew after another tree: by the files in which the two differ."""

from __future__ import annotations

from collections.abc import Iterable

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
