"""What a series changed in a real kernel, and which of its lines were compiled.

Each patch is an increment of seconds on a base that is built, and kept for the next time.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pipeline import tree
from pipeline.model import TreeSpec
from pipeline.repository import Git
from pipeline.scope import Scope
from tests.conftest import QuietStep
from tests.e2e.conftest import CACHE, Ktrial, Ran
from tests.realkernels import ORDER

TREE = "debian:6.12"
SLUB = "mm/slub.c"
COMMENT = "/* a comment\n * of three\n */\n"
HERE = "static int __maybe_unused ktrial_here;\n"
Edits = Mapping[str, tuple[str, str]]  # path -> what stands there, and what shall

MAIL = """From {id} Mon Sep 17 00:00:00 2001
From: ktrial <ktrial@example.org>
Date: Tue, 2 Jan 2024 03:04:05 +0000
Subject: [PATCH] mm: {name}

What the test needs.

Signed-off-by: ktrial <ktrial@example.org>
---
{diff}--{space}
2.39.0

"""


class Bench:
    """Makes a patch of edits to the tree, and builds it."""

    def __init__(self, ktrial: Ktrial, folder: Path, scope: Scope) -> None:
        self.ktrial, self.folder = ktrial, folder
        opened = tree.open_tree(TreeSpec(name=TREE), cache=CACHE, scope=scope, step=QuietStep())
        self.git, self.base = Git(git_dir=opened.repository, scope=scope), opened.base

    def build(self, name: str, edits: Edits, *options: str) -> Ran:
        diff = "".join(self._diff(path, *edit) for path, edit in edits.items())
        mail = self.folder / f"{name}.patch"
        mail.write_text(MAIL.format(id="1" * 40, name=name, diff=diff, space=" "))
        ran = self.ktrial("build", str(mail), "--tree", TREE, *options)
        assert ran.exit_code == 0, ran.explain()
        return ran

    def _diff(self, path: str, old: str, new: str) -> str:
        text = self.git.output("show", f"{self.base}:{path}").decode()
        assert old in text, (path, old)
        pair = text.splitlines(True), text.replace(old, new, 1).splitlines(True)
        lines = difflib.unified_diff(*pair, f"a/{path}", f"b/{path}")
        return f"diff --git a/{path} b/{path}\n" + "".join(lines)


@pytest.fixture
def bench(ktrial: Ktrial, tmp_path: Path, scope: Scope) -> Iterator[Bench]:
    yield Bench(ktrial, tmp_path, scope)


def found(ran: Ran, kind: str = "examinations") -> dict[str, Any]:
    """The record of the one target and kernel."""
    ((_, record),) = ran.result["run"]["evidence"][kind]
    return dict(record)


def change(ran: Ran) -> dict[str, Any]:
    return dict(found(ran)["change"])


def files(ran: Ran) -> dict[str, dict[str, Any]]:
    return {each["path"]: each for each in found(ran)["files"]}


def test_documentation_and_another_architecture_leave_the_image_as_it_is(bench: Bench) -> None:
    other = "arch/arm64/mm/init.c"
    edits = {
        "Documentation/mm/slab.rst": ("=\n", "=\n\nMore.\n"),
        other: ("\n#include", f"\n{COMMENT}{HERE}#include"),
    }
    ran = bench.build("elsewhere", edits)
    assert found(ran, "comparisons")["identical"] is True
    assert change(ran)["kind"] == "nothing"
    assert list(files(ran)) == [other]
    file = files(ran)[other]
    assert (file["why"], file["compiled"]) == ("of another architecture: arm64", [])
    assert len(file["not_built"]) == 1  # the comment is no code
    assert "is bit for bit the same as base" in ran.out


CALCULATE = "static inline int calculate_order("


KINDS: Mapping[str, tuple[tuple[str, str], str, list[str]]] = {
    "moved": ((CALCULATE, COMMENT + CALCULATE), "only line numbers", []),
    "message": (
        ('"SLUB: HWalign', '"SLUB, as ever: HWalign'),
        "only strings",
        ["kmem_cache_init"],
    ),
    "code": ((ORDER, ORDER.replace("+ 1", "+ 2")), "code or data", ["calculate_order"]),
    "data": (
        ("slub_min_objects;", "slub_min_objects = 3;"),
        "code or data",
        ["slub_min_objects"],
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds_of_change(bench: Bench, name: str) -> None:
    edit, kind, names = KINDS[name]
    ran = bench.build(name, {SLUB: edit})
    it = change(ran)
    assert (it["kind"], it["files"], it["left"]) == (kind, [SLUB], 0)
    assert [*it["functions"], *it["data"]] == names
    assert found(ran, "comparisons")["identical"] is False
    file = files(ran)[SLUB]
    assert (len(file["compiled"]), file["hidden"]) == (0 if name == "moved" else 1, [])


def test_header(bench: Bench) -> None:
    """Most of mm/ includes it: some objects were looked at, the others are counted."""
    path, old = "mm/internal.h", "return (void *)(mapping & ~PAGE_MAPPING_FLAGS);"
    ran = bench.build("header", {path: (old, old.replace("~", "~8UL & ~"))})
    it = change(ran)
    assert it["kind"] == "code or data"
    assert it["left"] > 0
    assert it["functions"] == ["folio_raw_mapping"]
    assert len(files(ran)[path]["compiled"]) == 1


def test_header_of_which_only_comments_change_is_known_whole(bench: Bench) -> None:
    path, guard = "mm/slab.h", "#define MM_SLAB_H\n"
    ran = bench.build("comment", {path: (guard, guard + COMMENT)})
    it = change(ran)
    assert (it["kind"], it["files"]) == ("only line numbers", [path])
    assert files(ran)[path]["compiled"] == []


def test_line_that_is_compiled_out(bench: Bench) -> None:
    condition = "#ifdef CONFIG_SLAB_FREELIST_HARDENED\n"
    ran = bench.build("hidden", {SLUB: (condition, condition + HERE)})
    (hidden,) = files(ran)[SLUB]["hidden"]
    assert (hidden["by"], hidden["options"]) == (
        condition.strip(),
        ["CONFIG_SLAB_FREELIST_HARDENED=y"],
    )
    assert files(ran)[SLUB]["compiled"] == []
    assert change(ran)["kind"] == "only line numbers"


def test_line_that_is_compiled_out_is_compiled_by_one_more_configuration(bench: Bench) -> None:
    condition = "#ifdef CONFIG_SLAB_FREELIST_HARDENED\n"
    ran = bench.build("cover", {SLUB: (condition, condition + HERE + "/* cover */\n")}, "--cover")
    ((where, covered),) = ran.result["run"]["evidence"]["covered"]
    assert where[0] == "x86_64"
    assert (covered["problem"], covered["lost"]) == ("", [])
    assert covered["cover"]["symbols"] == {"CONFIG_SLAB_FREELIST_HARDENED": "y"}
    (file,) = covered["examination"]["files"]
    assert len(file["compiled"]) == 1
    assert "no target compiles" not in ran.out


@pytest.mark.full
def test_line_under_numa_without_numa(bench: Bench) -> None:
    """A configuration of its own: a clean build of its base, where the cache has none."""
    edit = ("#ifdef CONFIG_NUMA\n", "#ifdef CONFIG_NUMA\n" + HERE)
    without = bench.build("numa", {SLUB: edit}, "--kconfig", "no-numa")
    (hidden,) = files(without)[SLUB]["hidden"]
    assert (hidden["by"], hidden["options"]) == ("#ifdef CONFIG_NUMA", ["CONFIG_NUMA=y"])
    assert change(without)["kind"] == "only line numbers"
