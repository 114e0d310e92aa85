"""Files of a guest as one grep prints them, "path:line" each: pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

Value = TypeVar("Value")


def files(text: str, areas: tuple[str, ...]) -> Mapping[str, str]:
    """The first line of each file in one of the areas (first folders), by path. Lines of
    anything else are passed over."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        path, colon, value = line.partition(":")
        if colon and path.startswith(tuple(f"{area}/" for area in areas)):
            found.setdefault(path, value.strip())
    return found


def read(files: Mapping[str, str], path: str, convert: Callable[[str], Value]) -> Value:
    """A file's line, converted; a file that is not there counts as an empty one.

    Raises:
        ValueError: it makes no sense; which file, and what it says.
    """
    value = files.get(path, "")
    try:
        return convert(value)
    except ValueError:
        raise ValueError(f"the guest says “{value}” in {path}") from None


def kilobytes(text: str) -> int:
    """Of "MemTotal:  501736 kB", or of "Node 0 MemTotal: …"."""
    return int(text.rpartition(":")[2].removesuffix("kB"))


def hexadecimal(text: str) -> int:
    return int(text or "0", 16)


def numbers(files: Mapping[str, str], pattern: str) -> list[int]:
    return sorted(int(found[1]) for path in files if (found := re.fullmatch(pattern, path)))
