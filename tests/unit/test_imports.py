"""The shape of the program: stages know nothing of each other, and nothing goes round."""

from __future__ import annotations

import ast
from pathlib import Path

import pipeline

FOLDER = Path(pipeline.__file__).parent
STAGES = {
    "series": {
        "series",
        "sources",
        "letter",
        "sendings",
        "versions",
        "trailers",
        "amready",
        "fetch",
    },
    "tree": {
        "tree",
        "layout",
        "apt",
        "fastimport",
        "debian",
        "commits",
        "ranges",
        "bases",
        "blobguess",
        "worktree",
    },
    "build": {"build", "configuration", "workbench", "store", "compiler"},
    "image": {"image", "rootfs", "elf", "keys", "bootstrap", "disk"},
    "guest": {
        "guest",
        "hypervisor",
        "roots",
        "virt",
        "reaper",
        "accelerator",
        "session",
        "machine",
    },
    "workload": {"workload"},
    "verdict": {"verdict", "slots", "bootview", "observation", "outcomes"},
    "report": {"summary", "tables", "junit", "record"},
}
# One list of outcomes and of planned cases serves the verdict and the reports.
SHARED = {("summary", "outcomes"), ("junit", "outcomes"), ("tables", "slots"), ("junit", "slots")}
PURE = {
    "model",
    "errors",
    "plan",
    "kconfig",
    "metrics",
    "outcomes",
    "verdict",
    "summary",
    "junit",
    "record",
    "console",
    "frames",
    "slots",
    "bootview",
    "observation",
    "tables",
    "text",
    "domain",
    "initramfs",
    "events",
    "agree",
    "sysfs",
    "acpitables",
    "ktap",
    "ktapline",
    "ktaptree",
    "diffs",
    "pathsafety",
    "faithful",
    "seriesview",
    "consoleline",
    "consolereport",
    "splat",
    "fingerprint",
    "bootwatch",
    "shapes",
    "guestview",
    "budget",
    "estimate",
    "planview",
    "nodes",
    "grepped",
    "subject",
    "mbox",
    "mail",
    "scissors",
    "flowed",
    "diffstat",
    "difftext",
    "patchcut",
    "patchtext",
    "letter",
    "sendings",
    "versions",
    "trailers",
    "amready",
    "noseries",
}
EFFECTS = {"subprocess", "libvirt", "fabric", "git", "socket", "shutil", "tempfile"}


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
    return [*(path.stem for path in FOLDER.glob("*.py")), *packages]


def graph() -> dict[str, set[str]]:
    found = {}
    for module in modules():
        named = set().union(*(imports(path) for path in files(module)))
        inside = {name.split(".")[1] for name in named if name.startswith("pipeline.")}
        found[module] = inside - {module}
    return found


def test_stages_never_import_each_other() -> None:
    edges = graph()
    for stage, modules in STAGES.items():
        others = set().union(*(m for name, m in STAGES.items() if name != stage))
        for module in modules & edges.keys():
            foreign = {each for each in edges[module] & others if (module, each) not in SHARED}
            assert not foreign, f"{module} imports another stage: {foreign}"
    assert set().union(*STAGES.values()) <= edges.keys(), "a stage's module is gone: mend the list"


def test_there_is_no_cycle() -> None:
    edges = {name: set(targets) for name, targets in graph().items()}
    while leaves := {name for name, targets in edges.items() if not targets & edges.keys()}:
        for name in leaves:
            del edges[name]
    assert not edges, f"these import each other: {sorted(edges)}"


def test_the_pure_core_has_no_effects() -> None:
    for name in PURE:
        named = set().union(*(imports(path) for path in files(name)))
        outside = {module.split(".")[0] for module in named}
        assert not outside & EFFECTS, f"{name} is to be pure"


def reads_environment(path: Path) -> bool:
    return any(
        isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Name)
        and each.value.id == "os"
        and each.attr in {"environ", "getenv"}
        for each in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )


def test_only_the_command_line_reads_the_environment() -> None:
    readers = {path.stem for path in FOLDER.rglob("*.py") if reads_environment(path)}
    assert readers == {"cli"}


def test_every_module_is_on_the_map() -> None:
    text = (FOLDER.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    missing = [name for name in graph() if f"`{name}`" not in text and not name.startswith("__")]
    assert not missing, f"ARCHITECTURE.md does not name {missing}"
