"""A guest as libvirt domain XML: pure, from a record through a Jinja2 template."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2

from pipeline.model import Accelerator, Architecture, GuestShape

TEMPLATE = Path(__file__).with_name("data") / "domain.xml.j2"

# Both devices sit on the root bus, where the kernel finds them without walking bridges.
RNG_SLOT = 3
NETWORK_SLOT = 4


@dataclass(frozen=True, kw_only=True)
class GuestSpec:
    """All that makes a guest: what it boots, on which machine, and where its console goes.

    `cmdline` is put behind the kernel arguments that every guest has. `ssh_port` 0 lets
    the host choose a free one (`Guest.ssh_port` tells which). Without `network` the guest
    has no network card, and the host no port that leads to it.
    """

    name: str
    uuid: str
    architecture: Architecture
    shape: GuestShape
    accelerator: Accelerator
    kernel: Path
    initrd: Path
    console: Path
    cmdline: tuple[str, ...] = ()
    ssh_port: int = 0
    emulator: Path | None = None
    network: bool = True
    disk: Path | None = None


def kernel_arguments(spec: GuestSpec) -> tuple[str, ...]:
    """The kernel command line. `panic=-1` resets at once, which ends a guest that may not
    reboot; `oops=panic` because a kernel that has oopsed proves nothing any more."""
    return (
        f"console={spec.architecture.console}",
        spec.architecture.earlycon,
        "panic=-1",
        "oops=panic",
        "rdinit=/init",
        *spec.shape.cmdline,
        *spec.cmdline,
    )


def extra_arguments(spec: GuestSpec) -> tuple[str, ...]:
    """QEMU arguments for what libvirt's XML cannot say: a network that only lets ssh in."""
    if not spec.network:
        return ()
    forward = f"hostfwd=tcp:127.0.0.1:{spec.ssh_port}-:22"
    return (
        "-netdev",
        f"user,id=net0,restrict=on,ipv6=off,{forward}",
        "-device",
        f"virtio-net-pci,netdev=net0,bus=pcie.0,addr={NETWORK_SLOT:#x},romfile=",
    )


def render(spec: GuestSpec) -> str:
    """The domain XML of a guest, for libvirt 9.0 and newer."""
    return _template().render(
        spec=spec,
        cmdline=" ".join(kernel_arguments(spec)),
        cpu=spec.architecture.cpu[spec.accelerator.name],
        emulator=spec.emulator or f"/usr/bin/{spec.architecture.qemu}",
        rng_slot=RNG_SLOT,
        arguments=extra_arguments(spec),
    )


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8"))


def by_hand(spec: GuestSpec) -> tuple[str, ...]:
    """A plain QEMU command that boots the same guest with its console on the terminal."""
    shape, architecture = spec.shape, spec.architecture
    machine = architecture.machine
    if architecture.gic and spec.accelerator.name == "tcg":
        machine += f",gic-version={architecture.gic}"
    return (
        str(spec.emulator or architecture.qemu),
        *("-machine", machine, "-accel", spec.accelerator.name),
        *("-cpu", architecture.cpu[spec.accelerator.name]),
        *("-smp", f"{shape.vcpus},maxcpus={shape.max_vcpus}", "-m", f"{shape.memory}M"),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-nographic", "-serial", "mon:stdio"),
        *("-kernel", str(spec.kernel), "-initrd", str(spec.initrd)),
        *("-append", " ".join(kernel_arguments(spec))),
        *("-object", "rng-random,id=rng0,filename=/dev/urandom"),
        *("-device", f"virtio-rng-pci,rng=rng0,bus=pcie.0,addr={RNG_SLOT:#x}"),
        *extra_arguments(spec),
    )
