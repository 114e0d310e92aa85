"""`--cover` on the miniature kernel: what a run builds, and what its report says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline import coverview, evidence, nodes, plan, settings, tree
from pipeline.catalog import Catalog
from pipeline.crowd import Crowd
from pipeline.history import History
from pipeline.model import Covered, Evidence, Examination, Plan, Revision, Role, TreeSpec
from pipeline.nodes import Demand, Job, Kind
from pipeline.progress import QuietReporter
from pipeline.results import Folder
from pipeline.scheduler import Done
from pipeline.scope import Scope
from pipeline.workshop import Workshop
from tests import runs
from tests.build_setup import GCC, WISHES, fragment
from tests.conftest import QuietStep
from tests.minikernel_repo import commit, git, make_repository, tree_id

SLUB = "mm/slub.c"
BRANCHES = "#ifdef CONFIG_{0}\nint a_{0};\n#else\nint b_{0};\n#endif\n"


class Shop:
    """A run's builds and examinations of one patch, in the order of its nodes."""

    def __init__(self, folder: Path, scope: Scope, stack: ExitStack) -> None:
        self.folder, self.scope, self.stack = folder, scope, stack
        self.repository = make_repository(folder / "repo")
        self.made: Plan = replace(plan.builds(runs.scenario((runs.BASE, runs.PATCHED))), cover=True)
        self.values: dict[str, object] = {}

    def run(self, text: str) -> Evidence:
        path = self.repository / SLUB
        path.write_text(path.read_text() + text)
        patched = commit(self.repository, "mm: more")
        shop = self._shop()
        self.values["apply.base"] = self._revision("base", "v5.10")
        self.values["apply.patched"] = self._revision("patched", patched)
        for node in nodes.nodes(self.made, lambda _: Demand()):
            job = node.job
            assert isinstance(job, Job)
            if job.kind in (Kind.BUILD, Kind.EXAMINE, Kind.COVER):
                assert {*node.needs, *node.after} <= self.values.keys()
                self.values[node.id] = shop.work[job.kind](job)
        done = tuple(Done(id=name, value=value) for name, value in self.values.items())
        return evidence.gather(self.made, done)

    def _revision(self, kernel: str, name: str) -> Revision:
        at = git(self.repository, "rev-parse", name)
        role = Role.BASE if kernel == "base" else Role.PATCHED
        return Revision(kernel=kernel, role=role, commit=at, tree_id=tree_id(self.repository, at))

    def _shop(self) -> Workshop:
        options: dict[str, str | bool | int | None] = {
            "cache": str(self.folder / "cache"),
            "jobs": 2,
        }
        taken = settings.read({"HOME": str(self.folder)}, cwd=self.folder, options=options)
        shelf = Catalog(data=taken.data, share=taken.share)
        # The miniature has no more symbols than these.
        shelf.__dict__["fragments"] = {
            "base": fragment(WISHES), "x86_64": fragment({}, "x86_64"),
        }  # fmt: skip
        shelf.__dict__["toolchains"] = {"gcc": GCC}
        self.values["tree"] = tree.open_tree(
            TreeSpec(name=str(self.repository), base="v5.10"),
            cache=taken.cache,
            scope=self.scope,
            step=QuietStep(),
        )
        return Workshop(
            plan=self.made,
            shelf=shelf,
            settings=taken,
            scope=self.scope,
            reporter=QuietReporter(),
            folder=Folder(self.folder / "run"),
            history=History(taken.cache),
            trusted=False,
            stack=self.stack,
            crowd=Crowd(),
            values=self.values,
        )


@pytest.fixture
def shop(tmp_path: Path, scope: Scope) -> Iterator[Shop]:
    with ExitStack() as stack:
        yield Shop(tmp_path, scope, stack)


def said(found: Evidence) -> list[str]:
    return list(coverview.lines(found.examinations, found.covered))


def test_what_no_configuration_compiles_is_built_in_one_more(shop: Shop) -> None:
    found = shop.run(BRANCHES.format("NUMA"))
    (examined,) = found.examinations.values()
    assert isinstance(examined, Examination)
    ((where, covered),) = found.covered.items()
    assert where == ("x86_64", "patched")
    assert isinstance(covered, Covered)
    assert (dict(covered.cover.symbols), covered.problem, covered.lost) == (
        {"CONFIG_NUMA": "n"},
        "",
        (),
    )
    lines = said(found)
    assert "changed lines of patched compiled for x86_64: 4 of 5" in lines
    assert "configuration cover: CONFIG_NUMA=n" in lines
    assert "changed lines of patched compiled for x86_64.cover: 3 of 5" in lines
    assert not any("no target compiles" in line for line in lines)
    kept = shop.folder / "run/builds/x86_64.cover.patched"
    assert "# CONFIG_NUMA is not set" in (kept / "config").read_text()
    assert (kept / "build.sh").is_file()


def test_what_the_tree_does_not_give_ends_nothing_and_is_told(shop: Shop) -> None:
    broken = "#ifdef CONFIG_BROKEN\nint broken;\n#endif\n"
    lines = said(shop.run(broken + BRANCHES.format("NUMA")))
    assert any("given up: CONFIG_BROKEN=y" in line for line in lines)
    assert "changed lines of patched compiled for x86_64.cover: 4 of 8" in lines
    (missing,) = (line for line in lines if "no target compiles" in line)
    assert missing.count(",") == 0


def test_code_that_breaks_there_only_is_told(shop: Shop) -> None:
    lines = said(shop.run("#ifndef CONFIG_NUMA\nint oops\n#endif\n"))
    (told,) = (line for line in lines if "was not built" in line)
    assert told.startswith("!! x86_64.cover of patched was not built: ")
    assert f"{SLUB}:" in told


def test_nothing_more_is_built_where_all_lines_are_compiled(shop: Shop) -> None:
    lines = said(shop.run("int more;\n"))
    assert not (shop.folder / "run/builds/x86_64.cover.patched").exists()
    assert any("not needed" in line for line in lines)


def test_it_starts_from_the_kernel_with_other_settings(shop: Shop) -> None:
    found = shop.run(BRANCHES.format("NUMA"))
    kept = (shop.folder / "cache/builds").glob("*/metadata.json")
    told = {tuple(it["fragments"]): it["continued"] for it in map(_json, kept)}
    assert told["base", "x86_64", "cover"] is True
    assert not any("no target compiles" in line for line in said(found))


def _json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text()))
