"""What befalls the harness or the host is never the kernel's; what the kernel said comes first."""

from __future__ import annotations

import itertools
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline import host
from pipeline.errors import InfraError
from pipeline.guest import STORM_REPORTS, STORM_SECONDS, Guest
from pipeline.model import Stop
from pipeline.scope import Scope
from tests import guests
from tests.simulated import Machine, Simulated, simulated

ROOT = Path(__file__).parents[2]
PANIC = b"[    1.0] Kernel panic - not syncing: tested\r\n[    1.1] Call Trace:\r\n"
STALL = (
    b"[    9.0] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [sh:71]\r\n"
    b"[    9.0] RIP: 0010:ktrial_poked+0x12/0x20\r\n"
)
WARNING = (
    b"[    1.0] ------------[ cut here ]------------\r\n"
    b"[    1.0] WARNING: CPU: 0 PID: 1 at lib/a.c:7 ktrial_poked+0x12/0x20\r\n"
    b"[    1.0] Call Trace:\r\n[    1.0]  ktrial_poked+0x12/0x20\r\n"
    b"[    1.0] ---[ end trace 0000000000000000 ]---\r\n"
)
READY = b"ktrial: ready 0.10\r\n"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Simulated]:
    there = simulated(tmp_path)
    yield there
    there.machine.destroy()
    there.kernel.guest.finish()


def says(guest: Guest, text: bytes) -> None:
    with guest.console.open("ab") as console:
        console.write(text)


def until(done: Callable[[], bool]) -> None:
    limit = time.monotonic() + 60
    while not done():
        assert time.monotonic() < limit
        time.sleep(0.005)


# ------------------------------------------------------------------------- first cause wins


# A QEMU that is gone says nothing more.
ORDERS = [
    order
    for order in itertools.permutations(["splat", "qemu", "deadline"])
    if order.index("splat") < order.index("qemu")
]


@pytest.mark.parametrize("order", ORDERS)
def test_the_splat_is_the_reason_whatever_else_ends(made: Simulated, order: list[str]) -> None:
    guest, scope = made.kernel.guest, Scope(600)
    late = scope.child(600)
    for what in order:
        if what == "splat":
            says(guest, PANIC)
        elif what == "qemu":
            made.machine.die()
        else:
            late = scope.child(0)
    end = guest.wait_ready(late)
    assert end is not None
    assert end.stop is Stop.KERNEL
    assert end.reason == "kernel panic: tested"


def test_a_stall_that_was_reported_is_why_a_guest_hangs(made: Simulated, scope: Scope) -> None:
    guest = made.kernel.guest
    says(guest, STALL)
    until(lambda: bool(guest.findings))
    end = guest.wait_ready(scope, silence=0.05)
    assert end is not None
    assert end.stop is Stop.HANG
    assert end.reason.startswith("BUG: soft lockup; the guest did not get ready")
    assert end.since is not None
    assert guest.started <= end.since <= time.time()


def test_an_older_warning_is_not_why_a_guest_hangs(made: Simulated, scope: Scope) -> None:
    guest = made.kernel.guest
    says(guest, WARNING)
    until(lambda: bool(guest.findings))
    end = guest.wait_ready(scope, silence=0.05)
    assert end is not None
    assert end.reason.startswith("the guest did not get ready")


@pytest.mark.parametrize(
    ("count", "since", "storm"), [(1, 0, True), (0.5, 0, False), (1, 600, False)]
)
def test_a_kernel_that_only_reports_is_given_up(
    *, count: float, since: float, storm: bool, made: Simulated, scope: Scope
) -> None:
    """One that reports as much in ten minutes does its work beside."""
    guest = made.kernel.guest
    says(guest, READY + WARNING)
    until(lambda: bool(guest.findings) and guest.ready_at is not None)
    guest._reported = time.time() - since
    says(guest, WARNING * int(STORM_REPORTS * count))
    time.sleep(2 * STORM_SECONDS)  # they are counted now and then
    says(guest, WARNING)
    assert guest.died.wait(60 if storm else 0.5) is storm
    made.machine.destroy()
    end = guest.shutdown(scope) if storm else guest.wait_stopped(scope)
    assert end.stop is (Stop.KERNEL if storm else Stop.COMPLETED)
    assert [each.title for each in end.findings] == ["WARNING in ktrial_poked"]
    assert end.findings[0].fatal is storm
    assert end.reason.startswith("WARNING in ktrial_poked; ") is storm


# ------------------------------------------------------------------------- the host's faults


@pytest.mark.parametrize("words", [b"", WARNING])
def test_a_console_on_a_full_disk_proves_nothing(
    made: Simulated, words: bytes, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither that the kernel was silent nor that it did not complain."""
    guest = made.kernel.guest
    says(guest, words)
    monkeypatch.setattr(host, "free_disk", lambda _: 4096)
    end = guest.wait_ready(scope, silence=0.05)
    assert end is not None
    assert end.stop is Stop.INFRA
    assert "is full" in end.reason


def test_a_good_boot_on_a_full_disk_is_no_pass(
    made: Simulated, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = made.kernel.guest
    says(guest, READY)
    assert guest.wait_ready(scope) is None
    monkeypatch.setattr(host, "free_disk", lambda _: 4096)
    made.machine.destroy()
    assert guest.wait_stopped(scope).stop is Stop.INFRA


def test_a_panic_counts_on_a_full_disk_too(
    made: Simulated, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "free_disk", lambda _: 0)
    says(made.kernel.guest, PANIC)
    end = made.kernel.guest.wait_ready(scope)
    assert end is not None
    assert end.stop is Stop.KERNEL


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    """QEMU takes a free one by itself; one that was asked for and is taken is the host's fault."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        code = _GUEST.format(port=other.getsockname()[1], then="")
        done = _apart(code, tmp_path)
    assert done.returncode == 3, done.stderr
    assert "InfraError" in done.stderr
    assert "host forwarding rule" in done.stderr


def test_a_qemu_that_answers_nobody(tmp_path: Path) -> None:
    """As where its disk is gone: what asks it is not left waiting, and the guest can be ended."""
    then = """
        import os, signal, time
        pid = int(next((hypervisor.root / "run/qemu").glob("ktrial*.pid")).read_text())
        os.kill(pid, signal.SIGSTOP)
        begun = time.monotonic()
        print("cpu", guest.machine.cpu_seconds() > 0, time.monotonic() - begun)
        end = guest.end()
    print("ended:", end.stop.value)
"""
    done = _apart(_GUEST.format(port=0, then=then), tmp_path)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    assert "ended: completed" in done.stdout


_GUEST = """
import sys
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from pipeline.errors import InfraError
from pipeline.hypervisor import Hypervisor
from pipeline.scope import Scope
from tests import guests
folder = Path(sys.argv[2])
scope = Scope(600)
made = Hypervisor(runtime=folder / "r", cache=folder / "c", families=guests.FAMILIES)
spec = replace(guests.player(folder, b"ktrial: ready 1\\n"), ssh_port={port})
with made as hypervisor:
    with hypervisor.guest(spec, scope=scope) as guest:
        assert guest.wait_ready(scope) is None
{then}
"""


def _apart(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run it in a process of its own, whose libvirt may break; no QEMU of it is left."""
    with tempfile.TemporaryDirectory(prefix="kt-") as short:
        done = subprocess.run(
            [sys.executable, "-c", code, str(ROOT), short],
            capture_output=True,
            text=True,
            cwd=folder,
            timeout=120,
            check=False,
        )
        left = [
            path
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if _reads(path).startswith(b"/usr/bin/qemu") and os.fsencode(short) in _reads(path)
        ]
    assert not left
    if done.returncode == 1 and "InfraError" in done.stderr:
        done.returncode = InfraError.exit_code
    return done


def _reads(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.full
def test_a_gigabyte_of_console(tmp_path: Path, scope: Scope) -> None:
    """It is read to its end, in little memory, and says nothing against the kernel."""
    block = b"".join(
        b"[%5d.0] a driver: error %d, a warning too\r\n" % (n, n) for n in range(25_000)
    )
    spec = guests.player(tmp_path, b"")
    machine = Machine()
    guest = Guest(spec=spec, handle=machine, families=guests.FAMILIES)
    with spec.console.open("wb") as console:
        while console.tell() < 1 << 30:
            console.write(block)
        console.write(READY)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.monotonic()
    guest.begin(time.time())
    assert guest.wait_ready(scope) is None
    seconds = time.monotonic() - begun
    machine.destroy()
    end = guest.wait_stopped(scope)
    guest.finish()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    print(f"\n1 GiB of console: {seconds:.1f} s, {grown} MiB more memory")
    assert end.stop is Stop.COMPLETED
    assert end.findings == ()
    assert len(guest.last_words()) <= 1 << 20
    assert grown < 64
