"""The shape of the program, as the table of layers in ARCHITECTURE.md says it is.

The table is read here, so that neither it nor the program can change alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path

import pipeline

FOLDER = Path(pipeline.__file__).parent
MAP = (FOLDER.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
NAME = re.compile(r"`([a-z_0-9]+)`(\*?)")
# One list of outcomes and of planned cases serves the verdict and the reports; the settings
# know the name of the default connection.
SHARED = {
    ("junit", "outcomes"),
    ("junit", "slots"),
    ("settings", "virt"),
    ("summary", "outcomes"),
}
# Each layer imports from itself and from those before it; stages not from each other.
ORDER = ("bottom", "pure", "effects", "stage", "composition", "top")
EFFECTS = {
    *("subprocess", "libvirt", "libvirt_qemu", "fabric", "paramiko", "git", "socket", "urllib"),
    *("os", "shutil", "tempfile", "fcntl", "select", "signal", "threading", "ctypes"),
}
TOUCHES_FILES = {
    *("open", "read_text", "read_bytes", "write_text", "write_bytes", "glob", "rglob", "iterdir"),
    *("exists", "is_file", "is_dir", "stat", "mkdir", "unlink", "rename", "touch", "chmod"),
}


@dataclass(frozen=True)
class Place:
    """Where the table has a module. `row`: “tree”; `layer`: one of ORDER; `reads`: a file."""

    row: str
    layer: str
    reads: bool


def rows() -> Iterator[tuple[str, str]]:
    """The layers' names and modules, as the table has them."""
    lines = MAP[MAP.index("| Layer |") :].splitlines()[2:]
    for line in takewhile(lambda each: each.startswith("|"), lines):
        name, modules = line.split("|")[1:3]
        yield name.strip(), modules


def layer_of(row: str) -> str:
    if row.startswith("pure") or row in {"verdict", "report"}:
        return "pure"
    return row if row in ORDER else "stage"


@cache
def places() -> dict[str, Place]:
    found: dict[str, Place] = {}
    for row, text in rows():
        own, _, pure = text.partition("pure: ")
        for part, layer in ((own, layer_of(row)), (pure, "pure")):
            for name, star in NAME.findall(part):
                assert name not in found, f"ARCHITECTURE.md has {name} in two places"
                found[name] = Place(row, layer, bool(star))
    return found


def imports(path: Path) -> set[str]:
    """The modules of the package, and the outside ones, that a file imports anywhere."""
    found: set[str] = set()
    for each in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(each, ast.ImportFrom) and each.module == "pipeline":
            found |= {f"pipeline.{alias.name}" for alias in each.names}
        elif isinstance(each, ast.ImportFrom) and each.module:
            found.add(each.module)
        elif isinstance(each, ast.Import):
            found |= {alias.name for alias in each.names}
    return found


def files(module: str) -> list[Path]:
    """Its file, or those of a package."""
    one = FOLDER / f"{module}.py"
    return [one] if one.exists() else sorted((FOLDER / module).glob("*.py"))


def modules() -> list[str]:
    packages = [path.parent.name for path in FOLDER.glob("*/__init__.py")]
    own = [path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("__")]
    return [*own, *packages]


@cache
def graph() -> dict[str, set[str]]:
    found = {}
    for module in modules():
        named = set().union(*(imports(path) for path in files(module)))
        inside = {name.split(".")[1] for name in named if name.startswith("pipeline.")}
        found[module] = inside - {module}
    return found


def test_the_map_has_every_module_and_no_other() -> None:
    assert not set(graph()) - set(places()), "ARCHITECTURE.md does not name these"
    assert not set(places()) - set(graph()), "ARCHITECTURE.md names these, which are gone"
    assert {place.layer for place in places().values()} == set(ORDER)


def wrong(importer: Place, imported: Place) -> bool:
    if ORDER.index(imported.layer) > ORDER.index(importer.layer):
        return True
    if importer.layer != imported.layer or importer.row == imported.row:
        return False
    reports = {importer.row, imported.row} == {"verdict", "report"}
    return importer.layer == "stage" or reports


def test_stages_never_import_each_other_and_nothing_imports_what_is_above_it() -> None:
    bad = {
        f"{module} ({places()[module].row}) imports {each} ({places()[each].row})"
        for module, named in graph().items()
        for each in named
        if (module, each) not in SHARED and wrong(places()[module], places()[each])
    }
    assert not bad


def test_every_exception_is_needed() -> None:
    for module, named in SHARED:
        assert named in graph()[module]
        assert wrong(places()[module], places()[named])


def test_there_is_no_cycle() -> None:
    edges = {name: set(targets) for name, targets in graph().items()}
    while leaves := {name for name, targets in edges.items() if not targets & edges.keys()}:
        for name in leaves:
            del edges[name]
    assert not edges, f"these import each other: {sorted(edges)}"


def touches(path: Path) -> set[str]:
    """The calls in a file that reach the disk, or print."""
    found: set[str] = set()
    for each in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
            found |= {each.func.attr} & TOUCHES_FILES
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name):
            found |= {each.func.id} & {"open", "print", "input"}
    return found


def test_what_is_pure_has_no_effects() -> None:
    for name, place in places().items():
        if place.layer != "pure":
            continue
        for path in files(name):
            outside = {module.split(".")[0] for module in imports(path)}
            assert not outside & EFFECTS, f"{name} is to be pure"
            allowed = {"read_text", "glob"} if place.reads else set()
            assert not touches(path) - allowed, f"{name} is to be pure"


def names_of(path: Path, module: str, *names: str) -> bool:
    """Whether a file uses one of these names of a module of the standard library."""
    return any(
        isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Name)
        and each.value.id == module
        and each.attr in names
        for each in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )


def test_only_the_command_line_reads_the_environment() -> None:
    all_ = FOLDER.rglob("*.py")
    assert {path.stem for path in all_ if names_of(path, "os", "environ", "getenv")} == {"cli"}


def test_only_the_top_prints() -> None:
    all_ = FOLDER.rglob("*.py")
    found = {path.stem for path in all_ if names_of(path, "sys", "stdout", "stderr")}
    assert found == {"cli", "options", "runner", "verbs"}
