"""Every shipped shape under the real libvirt and QEMU, and the guest's view read for real."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import domain, guestview, host, shapes
from pipeline.domain import GuestSpec
from pipeline.hypervisor import Hypervisor
from pipeline.scope import Scope
from tests import guests

READY = b"[    0.1] Linux version 0\r\nktrial: ready 0.10\r\n"
ALL = sorted(path.stem for path in (guests.SHARE / "guests").glob("*.toml"))


@pytest.fixture(scope="module")
def hypervisor() -> Iterator[Hypervisor]:
    """One for all: libvirt keeps to one embedded root a process, until its end."""
    runtime = Path(tempfile.mkdtemp(prefix="ktrial-test-"))
    atexit.register(shutil.rmtree, runtime, ignore_errors=True)  # after libvirt has let go of it
    opened = Hypervisor(runtime=runtime, cache=runtime / "cache", families=guests.FAMILIES)
    with opened:
        yield opened


def spec_of(folder: Path, name: str, architecture: str) -> GuestSpec:
    """A guest of that shape. One of aarch64 has no kernel that does anything."""
    given = replace(
        guests.player(folder, READY),
        architecture=guests.architecture(architecture),
        shape=guests.shape(name),
    )
    needed = shapes.needed_memory(given.shape, given.architecture)
    if needed > host.memory() // host.MIB:
        pytest.skip(f"{name} may take {needed} MiB")
    if domain.firmware(given) and not domain.FIRMWARE[architecture].exists():
        pytest.skip("UEFI firmware is not installed")
    return given


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
@pytest.mark.parametrize("name", ALL)
def test_libvirt_and_qemu_take_it(
    hypervisor: Hypervisor, tmp_path: Path, scope: Scope, name: str, architecture: str
) -> None:
    """What libvirt made of it, and QEMU's own words on vCPUs and nodes."""
    spec = spec_of(tmp_path, name, architecture)
    with hypervisor.guest(spec, scope=scope) as guest:
        cpus = guest._handle.monitor("info cpus")
        numa = guest._handle.monitor("info numa")
    present = shapes.present_vcpus(spec.shape, spec.architecture)
    assert cpus.count("thread_id=") == present
    if cells := shapes.cells(spec.shape):
        assert f"{len(cells)} nodes" in numa
        for number, cell in enumerate(cells):
            assert f"node {number} size: {cell.memory} MB" in numa


def test_clusters_on_arm(hypervisor: Hypervisor, tmp_path: Path, scope: Scope) -> None:
    """QEMU takes what libvirt was not told: the device tree has two clusters."""
    spec = spec_of(tmp_path, "smp8", "aarch64")
    clusters = replace(spec.shape, sockets=1, clusters=2, cores=4)
    with hypervisor.guest(replace(spec, shape=clusters), scope=scope) as guest:
        guest._handle.monitor(f"dumpdtb {tmp_path}/tree")
        assert guest._handle.monitor("info cpus").count("thread_id=") == 8
    tree = (tmp_path / "tree").read_bytes()
    assert b"cluster1" in tree
    assert b"cluster2" not in tree


def test_the_view_of_this_host() -> None:
    """The command is read by a shell and a grep that know nothing of a guest."""
    shell = shutil.which("busybox")
    command = [shell, "sh", "-c"] if shell else ["sh", "-c"]
    done = subprocess.run(
        [*command, guestview.COMMAND], capture_output=True, text=True, check=True, timeout=30
    )
    view = guestview.parse(done.stdout)
    assert done.stderr == ""
    assert 0 in view.online
    assert view.online <= view.present <= view.possible
    assert view.memory_kb == pytest.approx(host_memory_kb(), rel=0.01)


def host_memory_kb() -> int:
    line = Path("/proc/meminfo").read_text().splitlines()[0]
    assert line.startswith("MemTotal:")
    return int(line.split()[1])
