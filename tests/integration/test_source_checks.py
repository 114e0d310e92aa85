"""New warnings, W=1, sparse and a script of the tree, with the real tools on the miniature."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import build, diagnostics, objectcache, settings, sourcechecks
from pipeline.catalog import Catalog
from pipeline.checking import Checker
from pipeline.model import Build, Checked, CheckSpec, Patch, Revision, Role, Series, Tree
from pipeline.progress import Step
from pipeline.scope import Scope
from pipeline.sourcechecks import Heard
from pipeline.workbench import Workbench
from tests.build_setup import Plain, request
from tests.minikernel_repo import commit, git, make_repository

SHELF = Catalog(data=settings.PACKAGE / "data", share=(settings.shipped_root(),))
CHECKS: Mapping[str, CheckSpec] = SHELF.checks
SLUB = "mm/slub.c"
WARNS = "static int unused_{0}(void)\n{{\n\treturn 1;\n}}\n"
# Speaks as checkpatch does.
SCRIPT = """\
#!/usr/bin/env perl
die "no patch\\n" if eof(STDIN);
while (<STDIN>) {
    $file = $1 if m{^\\+\\+\\+ b/(\\S+)};
    print "$file:$.: ERROR:SPACING: space required before '('\\n" if /^\\+.*if\\(/;
    print ":$.: WARNING:BAD_SIGN_OFF: odd sign-off\\n" if /^Signed-by:/;
}
print "total: what has been said\\n";
"""


class Lab:
    """Kernels of one repository, each a commit, built as a run builds them."""

    def __init__(self, folder: Path, scope: Scope, step: Step) -> None:
        self.repository = make_repository(folder / "repo")
        self.folder, self.scope, self.step = folder, scope, step
        self.plain = Plain(self.repository, folder / "sources")
        self.stack = ExitStack()
        self.below: Build | None = None

    def prepend(self, text: str, *, path: str = SLUB) -> str:
        """Commit a file with that text before what it has; the commit."""
        file = self.repository / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text + (file.read_text() if file.exists() else ""))
        return commit(self.repository, f"mm: change {path}")

    def build(self, revision: str, *, trusted: bool = False, name: str = "") -> Build:
        wanted = request(self.repository, revision, base="v5.10", trusted=trusted)
        built = build.build_kernel(
            build.job(
                replace(wanted, below=self.below),
                self.plain.of(revision),
                cache=self.folder / "cache",
                scope=self.scope,
                step=self.step,
                log_folder=self.folder / f"log-{name or revision}",
            ),
            stack=self.stack,
        )
        assert isinstance(built, Build), built
        self.below = built
        return built

    def forget(self) -> None:
        """Let go of all builds, and lose them; what ccache has stays."""
        self.stack.close()
        self.below = None
        for name in ("builds", "work"):
            shutil.rmtree(self.folder / "cache" / name)

    @contextmanager
    def bench(self, built: Build, revision: str) -> Iterator[Workbench]:
        with build.opened(
            build.job(
                request(self.repository, revision, base="v5.10", trusted=False),
                self.plain.of(revision),
                cache=self.folder / "cache",
                scope=self.scope,
                step=self.step,
                log_folder=self.folder / "log-bench",
            ),
            built=built,
            copy=True,
        ) as bench:
            yield bench

    def heard(self, check: str, built: Build, revision: str, objects: Sequence[str]) -> Heard:
        with self.bench(built, revision) as bench:
            return sourcechecks.run(CHECKS[check], bench, objects, self.folder / "check.log")

    def checked(self, check: str, patched: str, objects: Sequence[str] = ("mm/slub.o",)) -> Checked:
        """A commit against the tree that it began with."""
        base = self.build("v5.10", trusted=True)
        below = self.heard(check, base, "v5.10", objects)
        this = self.heard(check, self.build(patched), patched, objects)
        return sourcechecks.compare(CHECKS[check], below, this)


@pytest.fixture
def lab(tmp_path: Path, scope: Scope, step: Step) -> Iterator[Lab]:
    made = Lab(tmp_path, scope, step)
    with made.stack:
        yield made


# ---------------------------------------------------------------------- of the build


def warnings(built: Build) -> tuple[str, ...]:
    assert built.warnings is not None
    return tuple(str(each) for each in built.warnings)


def new(below: Build, this: Build) -> list[str]:
    assert below.warnings is not None
    assert this.warnings is not None
    return [str(each) for each in diagnostics.new(below.warnings, this.warnings)]


def test_each_warning_with_the_patch_that_brought_it(lab: Lab) -> None:
    first = lab.prepend(WARNS.format("one"))
    second = lab.prepend("/* moves */\n\n" + WARNS.format("two"))
    third = lab.prepend("/* moves again */\n\n")
    kernels = [lab.build("v5.10", trusted=True), *map(lab.build, (first, second, third))]
    found = [new(*pair) for pair in itertools.pairwise(kernels)]
    said = "'unused_{}' defined but not used [-Wunused-function]"
    assert found == [
        [f"mm/slub.c:1: {said.format('one')}"],
        [f"mm/slub.c:3: {said.format('two')}"],
        [],
    ]


def test_increment_knows_what_it_did_not_compile(lab: Lab) -> None:
    first = lab.prepend(WARNS.format("kept"))
    lab.build(first)
    second = lab.prepend("/* elsewhere */\n", path="lib/clamp.c")
    built = lab.build(second)
    assert "  CC      mm/slub.o" not in built.log.read_text()
    assert warnings(built) == (
        "mm/slub.c:1: 'unused_kept' defined but not used [-Wunused-function]",
    )


def test_warning_of_a_header_is_one(lab: Lab) -> None:
    header = "include/linux/mini.h"
    text = (lab.repository / header).read_text()
    (lab.repository / header).write_text(text.replace("#endif", WARNS.format("here") + "#endif"))
    built = lab.build(commit(lab.repository, "mini.h: warn"))
    logged = built.log.read_text().count("'unused_here' defined but not used")
    assert logged > 1
    assert len(warnings(built)) == 1
    assert warnings(built)[0].startswith(header)


def test_ccache_repeats_what_the_compiler_said(lab: Lab) -> None:
    if not objectcache.PROGRAM.exists():
        pytest.skip("ccache is not installed")
    revision = lab.prepend(WARNS.format("cached"))
    first = lab.build(revision, trusted=True)
    lab.forget()
    again = lab.build(revision, trusted=True, name="again")
    assert again.how == "clean build"
    stats = subprocess.run(
        (str(objectcache.PROGRAM), "--dir", str(lab.folder / "cache/ccache"), "--print-stats"),
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    counts = dict(line.split("\t") for line in stats.splitlines())
    assert int(counts["direct_cache_hit"]) + int(counts["preprocessed_cache_hit"]) > 0
    assert warnings(again) == warnings(first) != ()


# ---------------------------------------------------------------------- by make


def test_w1(lab: Lab) -> None:
    patched = lab.prepend("int open_to_all(void)\n{\n\treturn 1;\n}\n\n")
    checked = lab.checked("w1", patched)
    assert checked.problem == ""
    (said,) = checked.new
    assert (said.tool, said.file, said.kind) == ("w1", SLUB, "-Wmissing-prototypes")
    assert said.text == "no previous prototype for 'open_to_all'"


def test_w1_does_not_repeat_the_build(lab: Lab) -> None:
    base = lab.heard("w1", lab.build("v5.10", trusted=True), "v5.10", ("mm/slub.o",))
    both = lab.prepend("int open_to_all(void)\n{\n\treturn 1;\n}\n\n" + WARNS.format("one"))
    built = lab.build(both)
    heard = lab.heard("w1", built, both, ("mm/slub.o",))
    assert len(sourcechecks.compare(CHECKS["w1"], base, heard).new) == 2
    assert built.warnings
    (said,) = sourcechecks.compare(CHECKS["w1"], base, heard, told=built.warnings).new
    assert said.kind == "-Wmissing-prototypes"


SPARSE = """\
#ifdef __CHECKER__
#define OTHER_SPACE __attribute__((address_space(1)))
#else
#define OTHER_SPACE
#endif
int open_to_all;
static int __attribute__((unused)) through(int OTHER_SPACE *from)
{
	int *to = from;

	return *to;
}
"""


@pytest.mark.skipif(not shutil.which("sparse"), reason="sparse is not installed")
def test_sparse(lab: Lab) -> None:
    checked = lab.checked("sparse", lab.prepend(SPARSE))
    assert checked.problem == ""
    texts = {each.text.partition(";")[0]: each.function for each in checked.new}
    assert texts == {
        "symbol 'open_to_all' was not declared. Should it be static?": "",
        "incorrect type in initializer (different address spaces)": "through",
    }


@pytest.mark.parametrize("check", ["w1", "sparse"])
def test_innocent_patch_brings_nothing(lab: Lab, check: str) -> None:
    innocent = "static inline int harmless(int one)\n{\n\treturn one;\n}\n\n"
    checked = lab.checked(check, lab.prepend(innocent))
    assert (checked.new, checked.problem, checked.read) == ((), "", 1)


def test_what_base_says_already_is_not_new(lab: Lab) -> None:
    below = lab.prepend("int open_to_all(void)\n{\n\treturn 1;\n}\n\n")
    above = lab.prepend("/* moves it */\n\n")
    heard = [lab.heard("w1", lab.build(each), each, ("mm/slub.o",)) for each in (below, above)]
    checked = sourcechecks.compare(CHECKS["w1"], *heard)
    assert (checked.new, checked.old, checked.problem) == ((), 1, "")


def test_new_file_has_no_counterpart(lab: Lab) -> None:
    with (lab.repository / "mm/Makefile").open("a") as sink:
        sink.write("obj-y += mm/extra.o\n")
    patched = lab.prepend("int extra(void)\n{\n\treturn 1;\n}\n", path="mm/extra.c")
    checked = lab.checked("w1", patched, ("mm/extra.o",))
    assert checked.problem == ""
    assert [each.file for each in checked.new] == ["mm/extra.c"]


def test_program_that_is_missing_is_named_with_its_package(lab: Lab) -> None:
    built = lab.build("v5.10", trusted=True)
    spec = replace(CHECKS["sparse"], needs="no-such-sparse", package="sparse")
    with lab.bench(built, "v5.10") as bench:
        heard = sourcechecks.run(spec, bench, ("mm/slub.o",), lab.folder / "log")
    assert heard.said == ()
    assert heard.problem == "no-such-sparse is not installed: apt-get install sparse"
    assert sourcechecks.compare(spec, heard, Heard()).problem == heard.problem


def test_object_that_cannot_be_read_is_a_problem(lab: Lab) -> None:
    built = lab.build("v5.10", trusted=True)
    with lab.bench(built, "v5.10") as bench:
        heard = sourcechecks.run(CHECKS["w1"], bench, ("mm/none.o",), lab.folder / "log")
        assert heard == Heard()  # a file that this kernel does not have
        (bench.source / "mm/loose.c").write_text("int loose;\n")
        heard = sourcechecks.run(
            CHECKS["w1"], bench, ("mm/loose.o", "mm/slub.o"), lab.folder / "log"
        )
    assert heard.problem.startswith("w1 read nothing of mm/loose.o: ")
    assert "No rule to make target" in heard.problem


# ---------------------------------------------------------------------- which objects


def test_objects_of_what_is_changed(lab: Lab) -> None:
    built = lab.build("v5.10", trusted=True)
    with lab.bench(built, "v5.10") as bench:
        own = sourcechecks.touched((SLUB, "README", "mm/gone.c"), bench)
        assert own == sourcechecks.Touched(objects=("mm/slub.o",))
        unbuilt = sourcechecks.touched(("drivers/virtio_net.c",), bench)
        assert unbuilt.objects == ()
        assert unbuilt.left_out == ("drivers/virtio_net.c: not built in this configuration",)
        users = sourcechecks.touched(("include/linux/mini.h",), bench).objects
        assert {"init/main.o", "mm/slub.o", "lib/clamp.o"} <= set(users)
        few = sourcechecks.touched(("include/linux/mini.h", SLUB), bench, most=2)
        assert few.objects[0] == "mm/slub.o"
        assert len(few.objects) == 2
        left = len(users) - 2
        assert few.left_out == (
            f"include/linux/mini.h: {left} of {len(users)} objects that include it",
        )


def test_object_that_make_does_not_build_by_itself_is_left_out(lab: Lab) -> None:
    built = lab.build("v5.10", trusted=True)
    with lab.bench(built, "v5.10") as bench:
        for root, name in ((bench.source, "misc.c"), (bench.build, "misc.o")):
            (root / "arch/x86/boot").mkdir(parents=True, exist_ok=True)
            (root / "arch/x86/boot" / name).touch()
        about = bench.build / "arch/x86/boot/.misc.o.cmd"
        about.write_text("/src/include/linux/mini.h \\\n")
        found = sourcechecks.touched(("arch/x86/boot/misc.c",), bench)
        assert found.left_out == ("arch/x86/boot/misc.c: make does not build it by itself",)
        users = sourcechecks.including(("include/linux/mini.h",), bench)
    assert "mm/slub.o" in users["include/linux/mini.h"]
    assert "arch/x86/boot/misc.o" not in users["include/linux/mini.h"]


def test_users_of_a_header_are_taken_from_everywhere(lab: Lab) -> None:
    folders = ("mm", "fs", "net", "lib")
    text = "".join(f"{folder}/{n:02}.c\n" for folder in folders for n in range(30))
    built = lab.build("v5.10", trusted=True)
    with lab.bench(built, "v5.10") as bench:
        for name in text.split():
            target = bench.build / name.replace(".c", ".o")
            for path in (bench.source / name, target):
                path.parent.mkdir(exist_ok=True)
                path.touch()
            target.with_name(f".{target.name}.cmd").write_text(" /src/include/linux/far.h \\\n")
        (bench.source / "include/linux/far.h").touch()
        found = sourcechecks.touched(("include/linux/far.h", "mm/03.c"), bench, most=21)
    assert found.objects[0] == "mm/03.o"
    assert len(found.objects) == len(set(found.objects)) == 21
    counts = {each: sum(o.startswith(f"{each}/") for o in found.objects) for each in folders}
    assert counts["mm"] >= 11
    assert min(counts.values()) >= 2
    assert found.left_out == ("include/linux/far.h: 99 of 120 objects that include it",)


# ---------------------------------------------------------------------- by a script

CHECKPATCH = CHECKS["checkpatch"]


def script(lab: Lab, text: str = SCRIPT) -> str:
    path = lab.repository / CHECKPATCH.script[0]
    path.write_text(text)
    path.chmod(0o755)
    return commit(lab.repository, "scripts: a checker")


def on_patch(lab: Lab, revision: str, patch: bytes) -> Heard:
    with lab.bench(lab.build(revision), revision) as bench:
        return sourcechecks.on_patch(
            CHECKPATCH,
            bench.box,
            patch,
            lab.folder / "checkpatch.log",
            name="0001-mm.patch",
            scope=lab.scope,
        )


def test_script_of_the_tree_on_a_patch(lab: Lab) -> None:
    base = script(lab)
    lab.prepend("static inline int f(int x)\n{\n\tif(x)\n\t\treturn 1;\n\treturn 0;\n}\n")
    patch = git(lab.repository, "format-patch", "--stdout", "-1").encode()
    heard = on_patch(lab, base, patch + b"\nSigned-by: nobody\n")
    assert heard.problem == ""
    assert [(each.file, each.kind) for each in heard.said] == [
        (SLUB, "ERROR:SPACING"),
        ("0001-mm.patch", "WARNING:BAD_SIGN_OFF"),
    ]
    assert on_patch(lab, base, b"nothing to find\n").said == ()


def test_each_patch_of_a_series_by_the_script_of_base(lab: Lab) -> None:
    base = script(lab)
    lab.prepend("/* innocent */\n")
    bad = lab.prepend("/* if(x) */\n")
    script(lab, "#!/bin/sh\n")  # the series may change the script: base's is run
    mails = git(lab.repository, "format-patch", "--stdout", "-1", f"{bad}^").encode() + b"\n"
    series = Series(
        name="s",
        origin="s",
        patches=(
            Patch(number=1, subject="innocent", author="", email="", mail=mails),
            Patch(number=2, subject="bad", author="", email="", commit=bad),
        ),
    )
    opened = Tree(
        name="t", origin="t", repository=lab.repository / ".git", base=base, version="5.10"
    )
    revision = Revision(kernel="base", role=Role.BASE, commit=base, tree_id="")
    checker = Checker(
        shelf=SHELF,
        settings=settings.read({"HOME": str(lab.folder)}, cwd=lab.folder, options={}),
        scope=lab.scope,
        step=lab.step,
        log_folder=lab.folder / "checks",
    )
    checked = checker.on_patches(CHECKPATCH, opened, revision, series)
    assert checked.problem == ""
    assert checked.read == 2
    assert [(each.file, each.kind) for each in checked.new] == [(SLUB, "ERROR:SPACING")]
    assert (lab.folder / "checks/checkpatch-2.log").is_file()
    old = replace(revision, commit=git(lab.repository, "rev-parse", "v5.10"))
    checked = checker.on_patches(CHECKPATCH, opened, old, series)
    assert (checked.problem, checked.read) == ("the tree has no scripts/checkpatch.pl", 0)


def test_script_that_breaks_is_a_problem(lab: Lab) -> None:
    heard = on_patch(lab, script(lab), b"")
    assert heard.said == ()
    assert heard.problem.startswith("checkpatch ended with status")
    assert heard.problem.endswith("no patch")


def test_tree_without_the_script(lab: Lab) -> None:
    assert on_patch(lab, "v5.10", b"x\n").problem == "the tree has no scripts/checkpatch.pl"
