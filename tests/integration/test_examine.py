"""What a series changed, with the real compiler on the miniature: each kind of change, each reason
for which a line is not compiled."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import build, changedlines, coverage, coverview, examine, kconfig
from pipeline.buildkeys import BuildRequest
from pipeline.model import Build, BuildFailure, ChangeKind, ConfigFailure, Examination, Fragment
from pipeline.progress import Step
from pipeline.scope import Scope
from pipeline.workbench import Workbench
from tests.build_setup import Plain, request
from tests.minikernel_repo import commit, git, make_repository

SLUB, HEADER, MAIN = "mm/slub.c", "include/linux/mini.h", "init/main.c"
# A line that knows where it is, as WARN_ON() does.
WHERE = "int where(void);\n\nint where(void)\n{\n\treturn __LINE__;\n}\n"
SAYS = 'const char *says(void);\n\nconst char *says(void)\n{\n\treturn "one";\n}\n'
TABLE = "static const int table[] = { 1, 2 };\n\nconst int *the_table(void);\n\n"
READS = "const int *the_table(void)\n{\n\treturn table;\n}\n"
SWITCHED = """
#ifdef CONFIG_NUMA
int numa = 1;
#else
int numa;
#endif
#if defined(CONFIG_VIRTIO_MENU) && !defined(CONFIG_BROKEN)
int menu = 1;
#elif defined(CONFIG_SMP)
int smp = 1;
#else
int up = 1;
#endif
"""
# A program that the build runs, and what kbuild keeps of it.
PROGRAM = """
$(objtree)/vmlinux: $(objtree)/scripts/.note.cmd
$(objtree)/scripts/.note.cmd: $(srctree)/scripts/note.c
	@mkdir -p $(@D)
	@printf 'cmd_scripts/note := gcc -o scripts/note %s\\n\\ndeps_scripts/note := %s\\n' \\
		$< $(srctree)/include/linux/mini.h > $@
"""
Edit = Mapping[str, str]  # path -> what is put behind its text


class Lab:
    """A base and one commit on top of it, built as a run builds them."""

    def __init__(self, folder: Path, scope: Scope, step: Step, *, sandboxed: bool = True) -> None:
        self.repository = make_repository(folder / "repo")
        self.folder, self.scope, self.step, self.sandboxed = folder, scope, step, sandboxed
        self.plain = Plain(self.repository, folder / "sources")
        self.stack = ExitStack()
        self.fragments: tuple[Fragment, ...] = ()
        program = {"scripts/note.c": "int note;\n", "scripts/build.mk": PROGRAM}
        self.append({SLUB: WHERE + SAYS + TABLE + READS + SWITCHED, **program})
        git(self.repository, "tag", "start")

    def append(self, edit: Edit) -> str:
        for path, text in edit.items():
            file = self.repository / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text((file.read_text() if file.exists() else "") + text)
        return commit(self.repository, "mm: more")

    def replace(self, path: str, old: str, new: str) -> str:
        file = self.repository / path
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new, 1))
        return commit(self.repository, f"mm: change {path}")

    def build(self, revision: str, *, below: Build | None = None) -> Build:
        built = self.attempt(revision, below=below)
        assert isinstance(built, Build), built
        return built

    def attempt(
        self, revision: str, *, below: Build | None = None
    ) -> Build | BuildFailure | ConfigFailure:
        return build.build_kernel(
            build.job(
                replace(self._request(revision), trusted=below is None, below=below),
                self.plain.of(revision),
                cache=self.folder / "cache",
                scope=self.scope,
                step=self.step,
                log_folder=self.folder / f"log-{revision}",
            ),
            stack=self.stack,
        )

    def examine(self, revision: str) -> Examination:
        base = self.build("start")
        this = self.build(revision, below=base)
        found = examine.examine(
            lambda: self._bench(base, "start", copy=True),
            lambda: self._bench(this, revision, copy=False),
            changed=changedlines.read(
                git(self.repository, *changedlines.DIFF, "start", revision) + "\n"
            ),
            identical=base.digest == this.digest,
            source_dir="x86",
            config=kconfig.parse_config(this.config.read_text()),
        )
        assert examine.from_json(examine.to_json(found)) == found
        return found

    def _request(self, revision: str) -> BuildRequest:
        wanted = request(self.repository, revision, base="start", sandboxed=self.sandboxed)
        return replace(wanted, fragments=(*wanted.fragments, *self.fragments))

    def _bench(
        self, built: Build, revision: str, *, copy: bool
    ) -> AbstractContextManager[Workbench]:
        return build.opened(
            build.job(
                self._request(revision),
                self.plain.of(revision),
                cache=self.folder / "cache",
                scope=self.scope,
                step=self.step,
                log_folder=self.folder / "log-bench",
            ),
            built=built,
            copy=copy,
        )

    def lines(self, path: str, *texts: str) -> tuple[int, ...]:
        """The numbers of the lines that are so."""
        all_of = (self.repository / path).read_text().split("\n")
        return tuple(all_of.index(text) + 1 for text in texts)


@pytest.fixture
def lab(tmp_path: Path, scope: Scope, step: Step) -> Iterator[Lab]:
    made = Lab(tmp_path, scope, step)
    with made.stack:
        yield made


# ---------------------------------------------------------------------- kinds of change


@pytest.mark.parametrize(
    ("old", "new", "kind", "names"),
    [
        ("int where(void);\n", "/* down\n */\nint where(void);\n", ChangeKind.LINES, []),
        ('"one"', '"two"', ChangeKind.STRINGS, ["says"]),
        ("__LINE__;", "__LINE__ + 1;", ChangeKind.CODE, ["where"]),
        ("{ 1, 2 }", "{ 1, 3 }", ChangeKind.CODE, ["table"]),
    ],
)
def test_kinds_of_change(lab: Lab, old: str, new: str, kind: ChangeKind, names: list[str]) -> None:
    change = lab.examine(lab.replace(SLUB, old, new)).change
    assert (change.kind, change.files, change.left) == (kind, (SLUB,), 0)
    assert [*change.functions, *change.data] == names


def test_change_below_lines_that_move_is_still_code(lab: Lab) -> None:
    lab.replace(SLUB, "int where(void);\n", "/* down */\nint where(void);\n")
    change = lab.examine(lab.replace(SLUB, "{ 1, 2 }", "{ 1, 2, 3 }")).change
    assert (change.kind, change.functions, change.data) == (ChangeKind.CODE, (), ("table",))


def test_header_reaches_each_object_that_includes_it(lab: Lab) -> None:
    found = lab.examine(lab.replace(HEADER, "MINI_ORDER 3", "MINI_ORDER 4"))
    assert found.change.kind is ChangeKind.CODE
    assert found.change.functions == ("calculate_order",)
    (file,) = found.files
    assert (file.path, file.compiled) == (HEADER, lab.lines(HEADER, "#define MINI_ORDER 4"))


def test_header_that_too_many_include(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said of what was not looked at, unless the change itself tells."""
    monkeypatch.setattr("pipeline.objectindex.MOST", 1)
    lab.replace(HEADER, "#define MINI_ORDER 3\n", "#define MINI_ORDER 3\n#define MINI_NAME 1\n")
    change = lab.examine(lab.replace(SLUB, "int where(", "/* down */\n\nint where(")).change
    assert (change.kind, change.left) == (ChangeKind.UNKNOWN, 2)  # lib/clamp.o, the program
    text = coverview.change(change)
    assert "2 objects with changed files not looked at" in text
    assert "only line numbers" not in text


def test_comments_tell_whatever_includes_them(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.objectindex.MOST", 1)
    lab.replace(HEADER, "#define MINI_ORDER 3\n", "/* as it is\n */\n#define MINI_ORDER 3\n")
    change = lab.examine(lab.replace(SLUB, "int where(", "/* down */\n\nint where(")).change
    assert change.kind is ChangeKind.LINES


@pytest.mark.parametrize(
    "edit",
    [
        {"Documentation/mm.rst": "words\n"},
        {"arch/arm64/mm/init.c": "int arm;\n"},
        {"drivers/virtio_net.c": "int more;\n"},
        {SLUB: "/* nothing to the compiler */\n"},
    ],
)
def test_identical_images(lab: Lab, edit: Edit) -> None:
    found = lab.examine(lab.append(edit))
    assert found.change.kind is ChangeKind.NOTHING
    assert [line for file in found.files for line in file.compiled] == []


@pytest.mark.parametrize("path", ["mm/Makefile", "scripts/build.mk", "scripts/note.c"])
def test_what_the_build_runs_may_do_anything(lab: Lab, path: str) -> None:
    """Beside a change that only moves lines."""
    lab.replace(SLUB, "int where(void);\n", "/* down */\n\nint where(void);\n")
    text = "int more;\n" if path.endswith(".c") else "# more\n"
    change = lab.examine(lab.append({path: text})).change
    assert (change.kind, path in change.files) == (ChangeKind.CODE, True)


@pytest.mark.parametrize(
    "path",
    [
        "MAINTAINERS",
        "Documentation/x.rst",
        "tools/testing/a.c",
        "scripts/checkpatch.pl",
        "mm/README",
    ],
)
def test_what_does_not_reach_the_build_is_no_code(lab: Lab, path: str) -> None:
    lab.replace(SLUB, "int where(void);\n", "/* down */\n\nint where(void);\n")
    change = lab.examine(lab.append({path: "int more;\n"})).change
    assert (change.kind, change.files) == (ChangeKind.LINES, (SLUB,))


def test_header_of_a_program_too(lab: Lab) -> None:
    """What the program makes of a #define that no object uses was not looked at."""
    lab.replace(SLUB, "int where(", "/* down */\n\nint where(")
    edit = "#define MINI_ORDER 3\n", "#define MINI_ORDER 3\n#define MINI_NAME 1\n"
    change = lab.examine(lab.replace(HEADER, *edit)).change
    assert (change.kind, change.left) == (ChangeKind.UNKNOWN, 1)


def test_new_file_and_one_that_goes(lab: Lab) -> None:
    (lab.repository / "lib/clamp.c").unlink()
    text = "int clamp(int value, int most);\nint clamp(int value, int most)\n{\n\treturn most;\n}\n"
    (lab.repository / "lib/Makefile").write_text("obj-y += lib/bound.o\n")
    found = lab.examine(lab.append({"lib/bound.c": text}))
    assert found.change.kind is ChangeKind.CODE
    assert {"lib/bound.c", "lib/clamp.c", "lib/Makefile"} == set(found.change.files)
    assert [(file.path, file.compiled) for file in found.files] == [
        ("lib/bound.c", (1, 2, 3, 4, 5))
    ]


# ---------------------------------------------------------------------- compiled or not


def test_lines_of_each_branch(lab: Lab) -> None:
    """CONFIG_NUMA and CONFIG_SMP are set, CONFIG_VIRTIO_MENU is not."""
    for number, name in enumerate(("numa = 1", "numa", "menu = 1", "smp = 1", "up = 1")):
        lab.replace(SLUB, f"\nint {name};\n", f"\nint {name}; int more_{number};\n")
    revision = git(lab.repository, "rev-parse", "HEAD")
    found = lab.examine(revision)
    (file,) = found.files
    text = (lab.repository / SLUB).read_text().split("\n")
    assert [text[line - 1].split(";")[0] for line in file.compiled] == [
        "int numa = 1",
        "int smp = 1",
    ]
    hidden = [(text[each.lines[0] - 1].split(";")[0], each.options) for each in file.hidden]
    assert hidden == [
        ("int numa", ("CONFIG_NUMA=n",)),
        ("int menu = 1", ("CONFIG_VIRTIO_MENU=y",)),
        ("int up = 1", ("CONFIG_SMP=n",)),
    ]
    cover = coverage.bring_in([found])
    assert cover.symbols == {
        "CONFIG_NUMA": "n",
        "CONFIG_VIRTIO_MENU": "y",
        "CONFIG_SMP": "n",
    }
    shown = "\n".join(coverview.lines({("x86_64", "fix"): found}))
    assert "changed lines of fix compiled for x86_64: 2 of 5" in shown
    assert re.search(r"slub\.c:\d+: hidden by #ifdef CONFIG_NUMA", shown) is None
    assert "hidden by #else of #ifdef CONFIG_NUMA (CONFIG_NUMA=n would bring it in)" in shown


def test_configuration_that_compiles_what_none_did(lab: Lab) -> None:
    revision = lab.replace(SLUB, "int numa;", "int numa, more;")
    (file,) = (found := lab.examine(revision)).files
    assert file.compiled == ()
    fragment = coverage.coverfragment([found])
    assert fragment is not None
    lab.fragments = (fragment,)
    again = lab.examine(revision)
    assert [(each.compiled, each.hidden) for each in again.files] == [
        (lab.lines(SLUB, "int numa, more;"), ())
    ]
    assert coverage.uncovered([found, again]) == {}
    assert coverage.coverfragment([found, again]) is None


def test_setting_that_cannot_be_had_is_told_with_the_reason(lab: Lab) -> None:
    revision = lab.append({SLUB: "#ifdef CONFIG_BROKEN\nint broken;\n#endif\n"})
    fragment = coverage.coverfragment([lab.examine(revision)])
    assert fragment is not None
    lab.fragments = (fragment,)
    failure = lab.attempt(revision)
    assert isinstance(failure, ConfigFailure)
    (lost,) = failure.lost
    assert (lost.symbol, lost.wanted, lost.fragment) == ("CONFIG_BROKEN", "y", "cover")
    assert "only other symbols can set it" in lost.reason


def test_lines_that_went_are_not_counted(lab: Lab) -> None:
    lab.replace(SLUB, "\treturn __LINE__;\n", "\treturn __LINE__;\n\n")
    found = lab.examine(lab.replace(SLUB, "int numa;\n", ""))
    assert [(file.compiled, file.hidden) for file in found.files] == [((), ())]
    assert list(coverview.lines({("x86_64", "fix"): found})) == []


def test_files_that_are_not_built(lab: Lab) -> None:
    found = lab.examine(
        lab.append({"arch/arm64/a.c": "int a;\n", "drivers/virtio_net.c": "int b;\n"})
    )
    arm, net = found.files
    assert (arm.why, arm.not_built) == ("of another architecture: arm64", (1,))
    assert (len(net.not_built), net.compiled) == (1, ())


def test_without_the_sandbox(tmp_path: Path, scope: Scope, step: Step) -> None:
    """Source and build folder lie where they lie on the host."""
    lab = Lab(tmp_path, scope, step, sandboxed=False)
    with lab.stack:
        found = lab.examine(lab.replace(SLUB, "int numa;", "int numa;\nint more;"))
        (file,) = found.files
        assert (file.path, [each.options for each in file.hidden]) == (SLUB, [("CONFIG_NUMA=n",)])
        found = lab.examine(lab.replace(SLUB, '"one"', '"two"'))
        assert (found.change.kind, found.change.functions) == (ChangeKind.STRINGS, ("says",))
