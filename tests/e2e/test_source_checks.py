"""New warnings and further checks on a real kernel: each with the patch that brought it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pipeline import diagnostics, kernelbuild, settings, tree
from pipeline.catalog import Catalog
from pipeline.checking import Checker, Side
from pipeline.model import (
    Build,
    Checked,
    Diagnostic,
    KernelPlan,
    Patch,
    Revision,
    Role,
    Series,
    Tree,
    TreeSpec,
)
from pipeline.repository import Git
from pipeline.scope import Scope
from tests.conftest import QuietStep
from tests.e2e.conftest import CACHE

FILE = "mm/slab_common.c"
FUNCTION = "int kmem_cache_shrink(struct kmem_cache *cachep)\n{\n"
ABOVE = "/**\n * kmem_cache_shrink - "

MAIL = """From {id} Mon Sep 17 00:00:00 2001
From: ktrial <ktrial@example.org>
Date: Tue, 2 Jan 2024 03:04:05 +0000
Subject: [PATCH {number}/3] mm: {name}

What the test needs here, told in words that are long enough.

Signed-off-by: ktrial <ktrial@example.org>
---
{diff}--{space}
2.39.0

"""


def _innocent(text: str) -> str:
    """One more function, as the kernel wants them, above all that there is."""
    lines = "static int __maybe_unused first_of(int *what)\n{\n\treturn what[0];\n}\n\n"
    return text.replace(ABOVE, lines + ABOVE)


def _unused_variable(text: str) -> str:
    """A warning that every build gives, and code that moves what is below it."""
    text = text.replace(FUNCTION, FUNCTION + "\tint forgotten;\n")
    return "/* moved\n" + " * down\n" * 7 + " */\n" + text


def _for_checkers(text: str) -> str:
    """What only W=1, sparse and checkpatch see; the unused variable moves once more."""
    extra = (
        "static const int nobody_reads_this = 3;\n\n"
        "int not_declared_anywhere;\n\n"
        "static int __maybe_unused through(int __user *from)\n{\n"
        "\tint *to = from;\n\n\tif(to)\n\t\treturn *to;\n\treturn 0;\n}\n\n"
    )
    return text.replace(ABOVE, extra + ABOVE)


CHANGES: Mapping[str, Callable[[str], str]] = {
    "innocent": _innocent,
    "unused": _unused_variable,
    "checkers": _for_checkers,
}


def mail(name: str, before: str, after: str, number: int) -> bytes:
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        f"a/{FILE}",
        f"b/{FILE}",
    )
    diff = f"diff --git a/{FILE} b/{FILE}\n" + "".join(lines)
    return MAIL.format(id="1" * 40, space=" ", number=number, name=name, diff=diff).encode()


@dataclass
class Lab:
    """Kernels of debian:6.12 on top of each other, built as a run builds them."""

    folder: Path
    scope: Scope
    stack: ExitStack
    step: QuietStep = field(default_factory=QuietStep)

    def __post_init__(self) -> None:
        home = {"HOME": os.environ.get("HOME", "/"), "KTRIAL_CACHE": str(CACHE)}
        self.settings = settings.read(home, cwd=self.folder, options={})
        self.shelf = Catalog(data=self.settings.data, share=self.settings.share)
        self.tree: Tree = tree.open_tree(
            TreeSpec(name="debian:6.12"), cache=CACHE, scope=self.scope, step=self.step
        )
        self.series: dict[str, Series] = {}
        self.wishes: dict[str, kernelbuild.Wish] = {}
        self.builds: dict[str, Build] = {}
        self._base()
        for number, name in enumerate(CHANGES, start=1):
            self._on_top(name, number)

    def _base(self) -> None:
        plan = KernelPlan(name="base", role=Role.BASE)
        found = tree.apply(
            self.tree, plan, on=self.tree.base, log=self.folder / "apply", scope=self.scope
        )
        assert isinstance(found, Revision)
        self._build(found, trusted=True)

    def _on_top(self, name: str, number: int) -> None:
        below = list(self.wishes.values())[-1].revision
        git = Git(git_dir=self.tree.repository, scope=self.scope)
        before = git.output("show", f"{below.commit}:{FILE}").decode()
        patch = Patch(
            number=number,
            subject=f"mm: {name}",
            author="ktrial",
            email="ktrial@example.org",
            files=(FILE,),
            mail=mail(name, before, CHANGES[name](before), number),
        )
        self.series[name] = Series(name=name, origin=name, patches=(patch,))
        plan = KernelPlan(name=name, role=Role.PATCHED, series=self.series[name])
        log = self.folder / f"apply-{name}"
        found = tree.apply(self.tree, plan, on=below.commit, log=log, scope=self.scope)
        assert isinstance(found, Revision), found
        self._build(found, trusted=False)

    def _build(self, revision: Revision, *, trusted: bool) -> None:
        base = self.wishes.get("base")
        wish = kernelbuild.Wish(
            opened=self.tree,
            revision=revision,
            base=base.revision if base else None,
            architecture=self.shelf.architecture("x86_64"),
            fragments=(),
            trusted=trusted,
            log_folder=self.folder / revision.kernel,
            below=list(self.builds.values())[-1] if self.builds else None,
        )
        built = kernelbuild.make(
            wish,
            shelf=self.shelf,
            settings=self.settings,
            scope=self.scope,
            step=self.step,
            stack=self.stack,
        )
        assert isinstance(built, Build), built
        self.wishes[revision.kernel], self.builds[revision.kernel] = wish, built

    def new(self, below: str, kernel: str) -> list[str]:
        """New warnings of the build, as a report shows them."""
        new = diagnostics.new(self.warnings(below), self.warnings(kernel))
        return [str(each) for each in new]

    def warnings(self, kernel: str) -> tuple[Diagnostic, ...]:
        """What the build knows, or, where base comes from a cache that knows nothing of warnings,
        what the logs have from base on."""
        if (known := self.builds[kernel].warnings) is not None:
            return known
        whole: diagnostics.Spoken = {}
        for name, built in self.builds.items():
            log = built.log.read_text()
            whole = diagnostics.merge(whole, diagnostics.read(log, roots=("/src", "/build")))
            if name == kernel:
                break
        return diagnostics.flat(whole)

    def checker(self, name: str) -> Checker:
        return Checker(
            shelf=self.shelf,
            settings=self.settings,
            scope=self.scope,
            step=self.step,
            log_folder=self.folder / name,
        )

    def checked(self, check: str, below: str, kernel: str) -> Checked:
        sides = [Side(wish=self.wishes[name], built=self.builds[name]) for name in (below, kernel)]
        return self.checker(f"{check}-{kernel}").by_make(self.shelf.checks[check], *sides)

    def patch(self, kernel: str) -> Checked:
        base = self.wishes["base"].revision
        spec = self.shelf.checks["checkpatch"]
        return self.checker(f"checkpatch-{kernel}").on_patches(
            spec, self.tree, base, self.series[kernel]
        )


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    scope = Scope(1800)
    with ExitStack() as stack:
        yield Lab(tmp_path_factory.mktemp("lab"), scope, stack)
    scope.cancel()


def test_new_warning_is_the_second_patch_s(lab: Lab) -> None:
    assert lab.new("base", "innocent") == []
    (said,) = lab.new("innocent", "unused")
    assert said.startswith(f"{FILE}:")
    assert said.endswith("(kmem_cache_shrink): unused variable 'forgotten' [-Wunused-variable]")
    # the third moves it
    assert not [each for each in lab.new("unused", "checkers") if "forgotten" in each]


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("w1", {"-Wunused-const-variable=": "'nobody_reads_this' defined but not used"}),
        (
            "sparse",
            {
                "": "symbol 'not_declared_anywhere' was not declared. Should it be static?",
                "through": "different address spaces",
            },
        ),
    ],
)
def test_checks_by_make(lab: Lab, check: str, expected: Mapping[str, str]) -> None:
    quiet = lab.checked(check, "base", "innocent")
    assert (quiet.new, quiet.problem, quiet.left_out, quiet.read) == ((), "", (), 1)
    loud = lab.checked(check, "unused", "checkers")
    assert not loud.problem
    words = [str(each) for each in loud.new]
    for word, text in expected.items():
        assert [
            each for each in loud.new if text in each.text and word in (each.kind, each.function)
        ], words
    assert not [each for each in words if "forgotten" in each]


def test_checkpatch(lab: Lab) -> None:
    assert (lab.patch("innocent").new, lab.patch("innocent").problem) == ((), "")
    checked = lab.patch("checkers")
    assert not checked.problem
    assert "ERROR:SPACING" in [each.kind for each in checked.new if each.file == FILE]
