"""Programs of a tree, built by a real make in the sandbox and packed for the guest."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import binding, compiler, initramfs, programs
from pipeline.catalog import Catalog
from pipeline.errors import InfraError
from pipeline.model import BuildFailure, TreePrograms, WorkloadRun
from pipeline.recipe import Recipe
from pipeline.sandbox import Sandbox
from pipeline.scope import Scope
from pipeline.settings import PACKAGE, shipped_root
from pipeline.workbench import Workbench
from tests.conftest import QuietStep

SHELF = Catalog(data=PACKAGE / "data", share=(shipped_root(),))
TOP = """\
install: $(TARGETS)
\tmkdir -p $(INSTALL_PATH)
\tfor each in $(TARGETS); do cp $(O)/$$each $(INSTALL_PATH)/; done
\tln -s /etc/shadow $(INSTALL_PATH)/link
$(TARGETS): %: $(O)/%
$(O)/%: %.c
\t$(CC) -o $@ $<
"""
MAKE = TreePrograms(
    path="/tests",
    make=(
        (
            *("make", "-i", "-C", "{tree}", "O={build}", "CC=gcc"),
            *("TARGETS={what}", "INSTALL_PATH={install}", "install"),
        ),
    ),
)


@pytest.fixture
def bench(tmp_path: Path, scope: Scope, step: QuietStep) -> Workbench:
    for name in ("tree", "build", "logs"):
        (tmp_path / name).mkdir()
    (tmp_path / "tree/Makefile").write_text(TOP)
    (tmp_path / "tree/good.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "tree/bad.c").write_text("int main(void) { return x; }\n")
    box = Sandbox(source=tmp_path / "tree", build=tmp_path / "build")
    native = SHELF.native(platform.machine())
    gcc = compiler.find(SHELF.toolchains["gcc"], native, machine=platform.machine(), scope=scope)
    return Workbench(
        kernel="fix",
        recipe=Recipe(
            architecture=native,
            compiler=gcc,
            source=box.seen_source,
            build=box.seen_build,
            jobs=1,
        ),
        box=box,
        scope=scope,
        step=step,
        logs=tmp_path / "logs",
    )


def unpacked(archive: Path, into: Path) -> list[str]:
    into.mkdir()
    subprocess.run(
        ("cpio", "-idm", "--quiet"), cwd=into, input=archive.read_bytes(), check=True, timeout=60
    )
    return sorted(str(path.relative_to(into)) for path in into.rglob("*") if not path.is_dir())


def test_what_builds_is_packed_and_what_does_not_is_listed(
    bench: Workbench, tmp_path: Path
) -> None:
    made = programs.build(bench, MAKE, {"what": "good bad"}, name="tests")
    assert isinstance(made, Path)
    assert unpacked(made, tmp_path / "guest") == [
        "tests/good",
        f"tests/{programs.MISSING}",
        "tests/link",
    ]
    assert os.access(tmp_path / "guest/tests/good", os.X_OK)
    assert (tmp_path / "guest/tests/link").is_symlink()  # and nothing of the host's in its place
    missing = (tmp_path / "guest/tests" / programs.MISSING).read_text()
    assert missing == "build:bad\n"


def test_a_make_that_fails_is_a_failure_of_the_tree(bench: Workbench) -> None:
    strict = TreePrograms(path="/tests", make=(tuple(w for w in MAKE.make[0] if w != "-i"),))
    made = programs.build(bench, strict, {"what": "bad"}, name="tests")
    assert isinstance(made, BuildFailure)
    assert (made.file, made.line) == ("bad.c", 1)
    assert made.log.is_file()


def test_too_much_for_a_guest_is_refused(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MOST_BYTES", 1000)
    made = programs.build(bench, MAKE, {"what": "good"}, name="tests")
    assert isinstance(made, BuildFailure)
    assert "MiB" in made.error


def test_fields_are_filled_in_and_other_braces_stay(bench: Workbench) -> None:
    spec = TreePrograms(path="/t", make=(("sh", "{tree}:{build}:{what}:${{HOME}}:{other}"),))
    ((_, word),) = programs.commands(bench, spec, {"what": "mm"})
    assert word == "/src:/build:mm:${{HOME}}:{other}"


def test_the_kselftest_workload_leaves_out_what_is_not_there(tmp_path: Path) -> None:
    """Its script, run by a real shell on a folder as kselftest's install makes one."""
    (tmp_path / "timers").mkdir()
    for name in ("good", "slow"):
        (tmp_path / "timers" / name).touch()
    (tmp_path / "kselftest-list.txt").write_text("timers:good\ntimers:slow\ntimers:gone\n")
    (tmp_path / programs.MISSING).write_text("timers:set-tz\n")
    runner = tmp_path / "run_kselftest.sh"
    runner.write_text('#!/bin/sh\n# override-timeout\necho "run: $*"\n')
    runner.chmod(0o755)
    text = binding.command(_run(collections="timers,none", skip="timers:slow", timeout=9))
    text = text.replace("/kselftest", str(tmp_path), 1).replace("/tmp/ktrial-", f"{tmp_path}/list-")
    done = subprocess.run(
        ("sh", "-c", text), check=False, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines() == [
        "ktrial: left-out timers:set-tz did not build",
        "ktrial: planned timers:good",
        "ktrial: left-out timers:slow asked for",
        "ktrial: left-out timers:gone did not build",
        "ktrial: left-out none:all the tree has no such tests, or none of them was built",
        "run: -o 9 -t timers:good",
    ]
    assert done.returncode == 0


def _run(**parameters: str | int) -> WorkloadRun:
    return binding.bind(SHELF.workloads["kselftest"], "kselftest", parameters)


def test_entries_lie_below_the_workloads_folder(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/c").write_text("x")
    os.mkfifo(tmp_path / "a/pipe")
    entries = list(programs.packed(tmp_path, "tests"))
    assert [each.path for each in entries] == ["tests/a", "tests/a/b", "tests/a/b/c"]
    assert entries[-1] == initramfs.file("tests/a/b/c", b"x", 0o644)


def test_a_build_folder_that_somebody_removes_is_no_failure_of_the_tree(bench: Workbench) -> None:
    """Outside the sandbox one command can do it; within it both folders are mounts."""
    outside = replace(bench, box=replace(bench.box, enabled=False))
    gone = TreePrograms(path="/tests", make=(("sh", "-c", f"rm -r {bench.build}; exit 2"),))
    with pytest.raises(InfraError, match="was removed while fix was built in it"):
        programs.build(outside, gone, {}, name="tests")


def test_the_tree_cannot_remove_its_build_folder(bench: Workbench) -> None:
    hostile = TreePrograms(path="/tests", make=(("sh", "-c", "rm -rf {build} {tree}; exit 2"),))
    assert isinstance(programs.build(bench, hostile, {}, name="tests"), BuildFailure)


@pytest.mark.parametrize(
    ("modules", "loads", "status", "said"),
    [
        ("", True, 0, ["load list_test", "load sort", "2 modules with tests, 0 of them broken"]),
        ("sort", True, 0, ["load sort", "1 modules with tests, 0 of them broken"]),
        ("none", True, 1, ["0 modules with tests, 0 of them broken"]),
        ("sort", False, 1, ["sort does not load", "1 modules with tests, 1 of them broken"]),
    ],
)
def test_kunit_modules_are_those_with_suites(
    tmp_path: Path, modules: str, loads: bool, status: int, said: list[str]
) -> None:
    """The workload's script, run by a real shell on a folder of modules."""
    place, bin_ = tmp_path / "modules/6.12/kernel/lib", tmp_path / "bin"
    place.mkdir(parents=True)
    bin_.mkdir()
    for name, section in (("sort", b".kunit_test_suites"), ("list_test", b".kunit_test_suites")):
        (place / f"{name}.ko").write_bytes(b"\x7fELF\0" + section + b"\0")
    (place / "virtio.ko").write_bytes(b"\x7fELF\0.modinfo\0")
    (bin_ / "modprobe").write_text(f"#!/bin/sh\n{'echo load $1' if loads else 'exit 1'}\n")
    (bin_ / "modprobe").chmod(0o755)
    spec = SHELF.workloads["kunit-modules"]
    text = binding.command(binding.bind(spec, "kunit-modules", {"modules": modules}))
    done = subprocess.run(
        ("sh", "-c", text.replace("/lib/modules", str(tmp_path / "modules"))),
        env={"PATH": f"{bin_}:{os.environ['PATH']}"},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.splitlines()) == (status, said)
