"""Why a source file is no part of a build: what the tree's Makefiles say of its object. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

Read = Callable[[str], str | None]  # a path in the tree -> its text

NOT_KERNEL = frozenset(["Documentation", "scripts", "tools", "samples", "usr", "LICENSES"])
NO_KERNEL = "not kernel code"
_RULE = re.compile(r"^\s*([\w./-]+?)-([\w$()]+|)\s*[:+?]?=\s*(.*)$")
_CONDITION = re.compile(r"^\s*(ifdef|ifndef|ifeq|ifneq|else|endif)\b(.*)$")
_SYMBOL = re.compile(r"CONFIG_\w+")
MOST = 12  # objects of objects


@dataclass(frozen=True, kw_only=True)
class Absence:
    """`why` in words; `options`: settings that the Makefiles ask for and that are not there."""

    why: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Rule:
    left: str
    how: str  # "y", "$(CONFIG_X)", "objs"
    words: tuple[str, ...]
    around: tuple[str, ...]  # settings of ifeq and ifdef


def absence(path: str, *, source_dir: str, config: Mapping[str, str], read: Read) -> Absence:
    """Why `path`, for which there is no object, has none."""
    parts = PurePosixPath(path).parts
    if parts[0] == "arch" and len(parts) > 2 and parts[1] != source_dir:
        return Absence(why=f"of another architecture: {parts[1]}")
    if parts[0] in NOT_KERNEL or not path.endswith((".c", ".S", ".h")):
        return Absence(why=NO_KERNEL)
    if path.endswith(".h"):
        return Absence(why="included by no object that is built")
    folder, target = PurePosixPath(path).parent, PurePosixPath(path).stem + ".o"
    asked: list[str] = []
    while True:
        rules = _rules(folder, read)
        asked += _ways(rules, target, 0)
        if len(folder.parts) == 0:
            break
        target, folder = f"{folder.name}/", folder.parent
    lacking = tuple(dict.fromkeys(each for each in asked if not _met(each, config)))
    names = " and ".join(f"obj-$({each.partition('=')[0]})" for each in lacking)
    return Absence(why=names or "no Makefile of this configuration builds it", options=lacking)


def _met(setting: str, config: Mapping[str, str]) -> bool:
    name, _, value = setting.partition("=")
    has = config.get(name, "n")
    return has == "n" if value == "n" else has != "n"


def _rules(folder: PurePosixPath, read: Read) -> list[_Rule]:
    text = read(str(folder / "Kbuild")) or read(str(folder / "Makefile")) or ""
    found: list[_Rule] = []
    around: list[str] = []
    for whole in re.sub(r"\\\n", " ", text).split("\n"):
        line = whole.partition("#")[0]
        if match := _CONDITION.match(line):
            _condition(match[1], match[2], around)
        elif match := _RULE.match(line):
            words = tuple(match[3].split())
            found.append(
                _Rule(left=match[1], how=match[2], words=words, around=tuple(filter(None, around)))
            )
    return found


def _condition(word: str, rest: str, around: list[str]) -> None:
    if word == "endif":
        del around[-1:]
    elif word == "else":
        name, _, value = (around.pop() if around else "").partition("=")
        around.append(name and f"{name}={'y' if value == 'n' else 'n'}")
    else:
        symbol = _SYMBOL.search(rest)
        empty = rest.replace(" ", "").endswith(",)")
        wants = (word in {"ifdef", "ifeq"}) != empty
        around.append(f"{symbol[0]}={'y' if wants else 'n'}" if symbol else "")


def _ways(rules: list[_Rule], target: str, depth: int) -> list[str]:
    """The settings that lead from obj-… to `target` in one Makefile, by the first way there is."""
    for rule in rules:
        if target not in rule.words:
            continue
        own = [*rule.around, *(f"{name}=y" for name in _SYMBOL.findall(rule.how))]
        ends = {"obj", "lib", "core", "drivers", "libs", "net", "virt"}
        if rule.left in ends or depth >= MOST:
            return own
        over = f"$({rule.left}-y)"
        inner = over if any(over in each.words for each in rules) else f"{rule.left}.o"
        return own + (_ways(rules, inner, depth + 1) if inner != target else [])
    return []
