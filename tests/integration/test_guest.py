"""Guests under the real libvirt and QEMU, playing a console instead of running a kernel."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import agree, roots
from pipeline.agree import HostView
from pipeline.domain import GuestSpec
from pipeline.errors import Cancelled, InfraError
from pipeline.guest import Handle
from pipeline.hypervisor import Hypervisor, sweep
from pipeline.model import GuestShape, Stop
from pipeline.scope import Scope
from tests import guests
from tests.guests import PAUSE, POWER_OFF, RESET, player

READY = b"[    0.1] Linux version 0\r\nktrial: ready 0.10\r\n"
PANIC = (
    b"[    1.0] Kernel panic - not syncing: tested\r\n[    1.1] Call Trace:\r\n"
    b"[    1.2] last words\r\n"
)


@pytest.fixture(scope="module")
def hypervisor() -> Iterator[Hypervisor]:
    """One for all: libvirt keeps to one embedded root a process, until its end."""
    runtime = Path(tempfile.mkdtemp(prefix="ktrial-test-"))
    atexit.register(shutil.rmtree, runtime, ignore_errors=True)  # after libvirt has let go of it
    opened = Hypervisor(runtime=runtime, cache=runtime / "cache", families=guests.FAMILIES)
    with opened:
        yield opened


def pid_of(spec: GuestSpec) -> int:
    """The QEMU of a guest, told by the initrd that only it has."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].startswith(b"/usr/bin/qemu") and os.fsencode(spec.initrd) in words:
            return int(entry.parent.name)
    raise AssertionError("there is no QEMU")


def test_ready_and_gone(hypervisor: Hypervisor, tmp_path: Path, scope: Scope) -> None:
    spec = player(tmp_path, READY)
    with hypervisor.guest(spec, scope=scope) as guest:
        assert guest.wait_ready(scope) is None
        assert guest.state.value == "ready"
        assert guest.ready_at is not None
        assert guest.ready_at >= guest.started
        assert 1024 <= guest.ssh_port < 65536
        pid = pid_of(spec)
    assert not Path(f"/proc/{pid}").exists()
    assert guest.state.value == "stopped"
    assert guest.end().stop is Stop.COMPLETED
    assert spec.console.read_bytes() == READY


def test_a_guest_without_a_network(hypervisor: Hypervisor, tmp_path: Path, scope: Scope) -> None:
    spec = replace(player(tmp_path, READY), network=False)
    with hypervisor.guest(spec, scope=scope) as guest:
        assert guest.wait_ready(scope) is None
        assert guest.ssh_port == 0
        command = Path(f"/proc/{pid_of(spec)}/cmdline").read_bytes()
    assert b"virtio-net" not in command
    assert b"hostfwd" not in command


def test_a_panic_ends_the_wait(hypervisor: Hypervisor, tmp_path: Path, scope: Scope) -> None:
    with hypervisor.guest(player(tmp_path, PANIC + RESET), scope=scope) as guest:
        end = guest.wait_ready(scope)
        assert guest.died.is_set()
    assert end is not None
    assert end.stop is Stop.KERNEL
    assert end.reason.startswith("kernel panic: ")
    assert end.reason.endswith("tested")
    assert "last words" in end.findings[0].excerpt
    assert guest.end() == end


def test_a_panic_after_ready(hypervisor: Hypervisor, tmp_path: Path, scope: Scope) -> None:
    with hypervisor.guest(player(tmp_path, READY + PAUSE + PANIC), scope=scope) as guest:
        assert guest.wait_ready(scope) is None
        assert guest.died.wait(60)
        assert guest.end().stop is Stop.KERNEL


def test_a_reset_without_a_word(hypervisor: Hypervisor, tmp_path: Path, scope: Scope) -> None:
    with hypervisor.guest(player(tmp_path, b"early\r\n" + RESET), scope=scope) as guest:
        end = guest.wait_ready(scope)
    assert end is not None
    assert end.stop is Stop.KERNEL
    assert end.reason == "the guest reset itself; the console's last line: early"


def test_a_power_off_unasked(hypervisor: Hypervisor, tmp_path: Path, scope: Scope) -> None:
    plays = READY + b"[    2.0] reboot: Power down\r\n" + POWER_OFF
    with hypervisor.guest(player(tmp_path, plays), scope=scope) as guest:
        assert guest.died.wait(60)
        end = guest.end()
    assert end.stop is Stop.KERNEL
    assert "unasked" in end.reason


def test_a_power_off_as_asked(hypervisor: Hypervisor, tmp_path: Path, scope: Scope) -> None:
    plays = READY + b"[    2.0] reboot: Power down\r\n" + POWER_OFF
    with hypervisor.guest(player(tmp_path, plays), scope=scope) as guest:
        assert guest.wait_stopped(scope).stop is Stop.COMPLETED


def test_a_hang(hypervisor: Hypervisor, tmp_path: Path, scope: Scope) -> None:
    with hypervisor.guest(player(tmp_path, b"[    0.1] so far\r\n"), scope=scope) as guest:
        end = guest.wait_ready(scope.child(3))
    assert end is not None
    assert end.stop is Stop.HANG
    assert "[    0.1] so far" in end.reason


def test_silence(hypervisor: Hypervisor, tmp_path: Path, scope: Scope) -> None:
    with hypervisor.guest(player(tmp_path, b"[    0.1] so far\r\n"), scope=scope) as guest:
        end = guest.wait_ready(scope, silence=2)
        assert 0 < guest.machine.cpu_seconds() < 60
        assert 0 <= guest.machine.waited_seconds() < 600
    assert end is not None
    assert end.stop is Stop.HANG


def test_qemu_killed(hypervisor: Hypervisor, tmp_path: Path, scope: Scope) -> None:
    spec = player(tmp_path, READY)
    with hypervisor.guest(spec, scope=scope) as guest:
        assert guest.wait_ready(scope) is None
        os.kill(pid_of(spec), signal.SIGKILL)
        assert guest.died.wait(60)
        end = guest.end()
    assert end.stop is Stop.INFRA
    assert "SIGKILL" in end.reason


def test_a_guest_that_is_given_up(hypervisor: Hypervisor, tmp_path: Path, scope: Scope) -> None:
    with hypervisor.guest(player(tmp_path, READY), scope=scope) as guest:
        assert guest.wait_ready(scope) is None
        end = guest.give_up("the guest does not answer any more")
        assert guest.died.is_set()
    assert end.stop is Stop.HANG
    assert end.reason.startswith("the guest does not answer any more; the console's last line: ")
    assert guest.end() == end


def test_a_dead_guest_is_not_given_up(hypervisor: Hypervisor, tmp_path: Path, scope: Scope) -> None:
    """Why it does not answer is on its console already."""
    with hypervisor.guest(player(tmp_path, READY + PAUSE + PANIC), scope=scope) as guest:
        assert guest.died.wait(60)
        assert guest.give_up("no answer").stop is Stop.KERNEL


ROOMY = GuestShape(
    name="roomy",
    description="",
    vcpus=1,
    max_vcpus=3,
    memory=256,
    max_memory=1024,
    memory_slots=2,
)
DIMM = "<memory model='dimm'><target><size unit='MiB'>128</size><node>0</node></target></memory>"


def test_a_machine_that_grows(hypervisor: Hypervisor, tmp_path: Path, scope: Scope) -> None:
    """QEMU's own answers, on a machine whose guest does not take part."""
    spec = replace(player(tmp_path, READY), shape=ROOMY)
    with hypervisor.guest(spec, scope=scope) as guest:
        assert guest.wait_ready(scope) is None
        machine = guest.machine
        before = seen(machine)
        assert before.vcpus == {0}
        assert before.dimms == ()
        assert sorted(before.free) == [1, 2]
        machine.set_vcpus(2)
        machine.qmp("device_add", id="vcpu2", **before.free[2])
        machine.attach(DIMM)
        after = seen(machine)
        assert after.removable == {1: "vcpu1", 2: "vcpu2"}
        assert machine.vcpus() == 2, "libvirt counts what it did itself"
        assert [(dimm.id, dimm.size, dimm.node) for dimm in after.dimms] == [
            ("dimm0", 128 << 20, 0)
        ]
        assert after.memory == before.memory + (128 << 20)
        with pytest.raises(InfraError, match="device_del"):
            machine.qmp("device_del", id="vcpu7")
        with pytest.raises(InfraError, match="5 vCPUs"):
            machine.set_vcpus(5)
        os.kill(pid_of(spec), signal.SIGKILL)
        assert guest.died.wait(60)
        with pytest.raises(InfraError, match="QEMU does not answer query-memory-devices"):
            machine.qmp("query-memory-devices")


def seen(machine: Handle) -> HostView:
    return agree.host_view(
        machine.qmp("query-hotpluggable-cpus"),
        machine.qmp("query-memory-devices"),
        machine.qmp("query-memory-size-summary"),
    )


def test_cancel_lets_go(hypervisor: Hypervisor, tmp_path: Path) -> None:
    scope = Scope(600)
    spec = player(tmp_path, b"")
    with pytest.raises(Cancelled), hypervisor.guest(spec, scope=scope) as guest:
        pid = pid_of(spec)
        threading.Timer(0.2, scope.cancel).start()
        guest.wait_ready(scope)
    assert not Path(f"/proc/{pid}").exists()
    with pytest.raises(Cancelled), hypervisor.guest(spec, scope=scope):
        pass


def test_an_exception_takes_the_guest_down(
    hypervisor: Hypervisor, tmp_path: Path, scope: Scope
) -> None:
    spec = player(tmp_path, READY)
    with pytest.raises(ZeroDivisionError), hypervisor.guest(spec, scope=scope):
        pid = pid_of(spec)
        raise ZeroDivisionError
    assert not Path(f"/proc/{pid}").exists()


def test_qemu_refuses(hypervisor: Hypervisor, tmp_path: Path, scope: Scope) -> None:
    spec = replace(player(tmp_path, READY), initrd=tmp_path / "missing")
    with pytest.raises(InfraError, match="missing"), hypervisor.guest(spec, scope=scope):
        pass


def test_several_at_once(hypervisor: Hypervisor, tmp_path: Path, scope: Scope) -> None:
    specs = [player(tmp_path, READY, name=f"player{n}") for n in range(3)]
    ports: list[int] = []

    def boot(number: int) -> None:
        with hypervisor.guest(specs[number], scope=scope) as guest:
            assert guest.wait_ready(scope) is None
            ports.append(guest.ssh_port)
            assert guest.end().stop is Stop.COMPLETED

    threads = [threading.Thread(target=boot, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ports)) == 3


VICTIM = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from pipeline.hypervisor import Hypervisor
from pipeline.scope import Scope
from tests import guests
folder = Path(sys.argv[2])
scope = Scope(600)
made = Hypervisor(runtime=folder / "r", cache=folder / "c", families=guests.FAMILIES)
with made as hypervisor:
    with hypervisor.guest(guests.player(folder, b"ktrial: ready 1\\n"), scope=scope) as guest:
        assert guest.wait_ready(scope) is None
        print("ready", flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kt-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def start_victim(folder: Path) -> subprocess.Popen[bytes]:
    root = str(Path(__file__).parents[2])
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM, root, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert victim.stdout is not None
    assert victim.stdout.readline() == b"ready\n"
    return victim


def test_what_a_killed_run_left_is_swept(folder: Path) -> None:
    victim = start_victim(folder)
    runtime = folder / "r"
    pid = pid_of(player(folder, b"ktrial: ready 1\n"))
    assert sweep(runtime) == [], "a living run's guest is nobody else's business"
    assert Path(f"/proc/{pid}").exists()
    victim.kill()
    victim.communicate()
    assert Path(f"/proc/{pid}").exists(), "QEMU outlives its run: otherwise nothing is tested"
    (words,) = sweep(runtime)
    assert str(pid) in words
    assert not roots.is_alive(pid)
    assert list(runtime.iterdir()) == []
    assert sweep(runtime) == []


def test_a_run_says_nothing_and_leaves_nothing(folder: Path) -> None:
    victim = start_victim(folder)
    out, err = victim.communicate(b"")
    assert (victim.returncode, out, err) == (0, b"", b"")
    assert list((folder / "r").iterdir()) == []
    probes = list((folder / "c" / "libvirt" / "capabilities").iterdir())
    assert [path.suffix for path in probes] == [".xml"]


def test_a_root_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir()
    link = tmp_path / "r"
    link.symlink_to(target)
    with (
        pytest.raises(InfraError, match="somebody else"),
        Hypervisor(runtime=link, cache=tmp_path, families=guests.FAMILIES),
    ):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root has no session of its own")
@pytest.mark.skipif(not shutil.which("libvirtd", path="/usr/sbin"), reason="there is no libvirtd")
def test_an_ordinary_users_session(folder: Path, scope: Scope) -> None:
    uri = "qemu:///session"
    with (
        Hypervisor(
            runtime=folder / "r", cache=folder / "c", families=guests.FAMILIES, connect=uri
        ) as opened,
        opened.guest(player(folder, READY), scope=scope) as guest,
    ):
        assert guest.wait_ready(scope) is None
        assert guest.ssh_port
    assert list((folder / "r").iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root has no session of its own")
@pytest.mark.skipif(not shutil.which("libvirtd", path="/usr/sbin"), reason="there is no libvirtd")
def test_a_lost_connection_is_nobodys_fault_but_the_hosts(
    folder: Path, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A libvirtd of the test's own dies under a guest: that ends, and nothing of it is left."""
    for name in ("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(folder / "xdg"))
    (folder / "xdg").mkdir(mode=0o700)
    with Hypervisor(
        runtime=folder / "r",
        cache=folder / "c",
        families=guests.FAMILIES,
        connect="qemu:///session",
    ) as opened:
        spec = player(opened.root, READY)
        with opened.guest(spec, scope=scope) as guest:
            assert guest.wait_ready(scope) is None
            qemu = pid_of(spec)
            (pid_file,) = (folder / "xdg").rglob("libvirtd.pid")
            daemon = int(pid_file.read_text())
            os.kill(daemon, signal.SIGKILL)
            end = guest.wait_stopped(scope.child(60))
        assert end.stop is Stop.INFRA
        assert "the connection to libvirt was lost" in end.reason
        assert not roots.is_alive(qemu)
    assert list((folder / "r").iterdir()) == []


def test_death_ends_a_wait(hypervisor: Hypervisor, tmp_path: Path, scope: Scope) -> None:
    """A deadline far away is not waited for once QEMU is dead."""
    spec = player(tmp_path, b"")
    with hypervisor.guest(spec, scope=scope) as guest:
        pid = pid_of(spec)
        threading.Timer(0.1, os.kill, (pid, signal.SIGKILL)).start()
        before = time.monotonic()
        end = guest.wait_ready(scope.child(500))
        assert time.monotonic() - before < 400
    assert end is not None
    assert end.stop is Stop.INFRA
