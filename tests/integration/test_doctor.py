"""The checks against this very host."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import checks, doctor, host, packages, process
from pipeline.catalog import Catalog
from pipeline.errors import Cancelled, InfraError
from pipeline.model import Accelerator, Architecture, Toolchain
from pipeline.packages import Package
from pipeline.progress import Step
from pipeline.scope import Scope
from pipeline.settings import PACKAGE, shipped_root

CATALOG = Catalog(data=PACKAGE / "data", share=(shipped_root(),))
NOWHERE = "qemu+ssh://no.such.host/system"


def emulated(architecture: Architecture) -> Accelerator:
    return Accelerator(name="tcg", reason=f"{architecture.name} as measured")


def examine(
    tmp_path: Path,
    scope: Scope,
    step: Step,
    *,
    choose: checks.Choose = emulated,
    connect: str = "qemu:///embed",
) -> dict[str, checks.Check]:
    found = doctor.examine(
        cache=tmp_path,
        connect=connect,
        architectures=tuple(CATALOG.architectures.values()),
        toolchains=tuple(CATALOG.toolchains.values()),
        choose=choose,
        scope=scope,
        step=step,
        machine="x86_64",
    )
    return {check.name: check for check in found}


def test_a_host_that_runs_these_tests_is_fit(tmp_path: Path, scope: Scope, step: Step) -> None:
    found = examine(tmp_path, scope, step)
    failed = {name: check for name, check in found.items() if check.ok is False}
    assert set(failed) <= {"disk", "memory"}, failed
    assert found["x86_64: accelerator"].found == "tcg: x86_64 as measured"
    assert "opens" in found["libvirt"].found
    assert host.version_numbers(found["libvirt"].found) > (7,)


def test_what_fails_is_a_finding_and_the_rest_goes_on(
    tmp_path: Path, scope: Scope, step: Step, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(architecture: Architecture) -> Accelerator:
        raise InfraError(f"no accelerator for {architecture.name}", hint="mend it")

    found = examine(tmp_path, scope, step, choose=fails, connect=NOWHERE)
    assert found["x86_64: accelerator"].ok is False
    assert found["aarch64: accelerator"].ok is None, "a foreign one hinders only some runs"
    assert found["aarch64: accelerator"].remedy == "mend it"
    assert found["libvirt"].ok is False
    assert found["libvirt"].remedy.startswith("leave out --connect")
    assert found["cores"].ok is True
    assert capfd.readouterr().err == "", "libvirt's own messages are kept away"


def test_a_toolchain_that_no_run_takes_by_itself_hinders_only_those_that_name_it(
    tmp_path: Path, scope: Scope, step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(toolchain: Toolchain, *_: object) -> checks.Check:
        raise InfraError("no compiler", hint=f"sudo apt-get install {toolchain.packages['native']}")

    monkeypatch.setattr(checks, "check_compiler", fails)
    found = examine(tmp_path, scope, step)
    assert found["x86_64: compiler gcc"].ok is False
    assert found["x86_64: compiler clang"].ok is None
    assert found["x86_64: compiler clang"].remedy == "sudo apt-get install clang lld llvm"


LIBVIRT = """
import sys
sys.path.insert(0, sys.argv[1])
from pipeline import checks
from pipeline.errors import InfraError
from pipeline.scope import Scope
try:
    print(checks.check_libvirt("qemu:///embed", Scope(60)).found)
except InfraError as error:
    print(error)
"""


def on_a_host_with(arguments: tuple[str, ...], scope: Scope) -> str:
    """What the check of libvirt says where bwrap's `arguments` have changed the files."""
    python = (sys.executable, "-c", LIBVIRT, PACKAGE.parent)
    ran = process.run(("bwrap", "--dev-bind", "/", "/", *arguments, "--", *python), scope=scope)
    assert ran.ok, ran.text
    return ran.text


needs_bwrap = pytest.mark.skipif(not shutil.which("bwrap"), reason="there is no bwrap")


@needs_bwrap
@pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/etc/debian_version").exists(),
    reason="only Debian's libvirt wants a user, and only for root",
)
def test_the_user_of_roots_guests_is_missing(tmp_path: Path, scope: Scope) -> None:
    assert "opens" in on_a_host_with((), scope)
    lines = Path("/etc/passwd").read_text(encoding="utf-8").splitlines(keepends=True)
    others = [line for line in lines if not line.startswith("libvirt-qemu:")]
    (tmp_path / "passwd").write_text("".join(others), encoding="utf-8")
    said = on_a_host_with(("--ro-bind", f"{tmp_path}/passwd", "/etc/passwd"), scope)
    assert "adduser --system" in said
    assert "libvirt-qemu" in said


@needs_bwrap
def test_libvirts_qemu_driver_is_missing(scope: Scope) -> None:
    driver = Path(checks.check_qemu_driver().found)
    said = on_a_host_with(("--tmpfs", str(driver.parent)), scope)
    assert "qemu:///embed" in said
    assert "apt-get install libvirt-daemon" in said


@pytest.mark.skipif(os.geteuid() == 0, reason="root has no session of its own")
def test_a_session_that_cannot_be_reached(tmp_path: Path, scope: Scope, step: Step) -> None:
    gone = "qemu+unix:///session?socket=/no/such/socket"
    found = examine(tmp_path, scope, step, connect=gone)
    assert found["libvirt"].ok is False
    assert "/no/such/socket" in found["libvirt"].found
    assert found["libvirt"].remedy == f"virsh --connect '{gone}' uri"


def test_root_is_advised_against(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "root" in checks.check_user().found
    assert checks.check_user().ok is True, "it hinders nothing"
    assert checks.check_user().remedy
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not checks.check_user().remedy


def test_a_cache_that_cannot_be_written_is_a_finding(
    tmp_path: Path, scope: Scope, step: Step
) -> None:
    (tmp_path / "file").touch()
    found = examine(tmp_path / "file" / "cache", scope, step)
    assert found["sandbox"].ok is False
    assert "file" in found["sandbox"].found


def test_a_program_that_is_not_there(scope: Scope) -> None:
    there = CATALOG.architectures["x86_64"]
    gone = replace(there, qemu="qemu-system-nowhere", qemu_package="qemu-system-misc")
    check = checks.check_qemu(gone, scope)
    assert (check.ok, check.remedy) == (False, "sudo apt-get install qemu-system-misc")
    check = checks.check_accelerator(gone, emulated)
    assert (check.ok, check.found) == (False, "qemu-system-nowhere is not there")


def test_ctrl_c_ends_the_examination(tmp_path: Path, scope: Scope, step: Step) -> None:
    scope.cancel()
    with pytest.raises(Cancelled):
        examine(tmp_path, scope, step)


@pytest.mark.parametrize(
    ("probe", "there"),
    [
        ("git", True),
        ("no-such-program", False),
        ("pc:libvirt", True),
        ("pc:no-such-library", False),
        ("header:stdlib.h", True),
        ("header:no/such.h", False),
        ("path:/usr/bin/gi*", True),
        ("path:/no/such/*", False),
    ],
)
def test_probes(probe: str, there: bool, scope: Scope) -> None:
    package = Package(name="p", group="g", probe=probe, why="w")
    assert packages.is_there(package, scope=scope) is there


def test_facts_of_this_host() -> None:
    facts = host.facts(("git", "no-such-program"))
    assert facts["git"].startswith("git version ")
    assert "no-such-program" not in facts
    assert int(facts["cores"]) >= 1
    assert host.free_disk(Path("/no/such/folder")) > 0
