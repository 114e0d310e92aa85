"""A guest as libvirt domain XML: pure, from a record through a Jinja2 template."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import jinja2

from pipeline import deterministic, shapes
from pipeline.model import Accelerator, Architecture, GuestShape, NumaCell

TEMPLATE = Path(__file__).with_name("data") / "domain.xml.j2"

# The devices sit on the root bus, where the kernel finds them without walking bridges.
RNG_SLOT = 3
NETWORK_SLOT = 4
DISK_SLOT = 5

# Debian's EDK2 builds (qemu-efi-aarch64). Without a variable store of its own nothing is written.
FIRMWARE = {"aarch64": Path("/usr/share/AAVMF/AAVMF_CODE.fd")}
BIOS = {"aarch64": Path("/usr/share/qemu-efi-aarch64/QEMU_EFI.fd")}  # the same, for -bios


@dataclass(frozen=True, kw_only=True)
class GuestSpec:
    """All that makes a guest: what it boots, on which machine, and where its console goes.

    `cmdline` is put behind the kernel arguments that every guest has. `ssh_port` 0 lets
    the host choose a free one (`Guest.ssh_port` tells which). Without `network` the guest
    has no network card, and the host no port that leads to it. `disk`: a qcow2 file that the
    guest may write. `slower` and `reserves` are its kernel's: how many times as long as others it
    may take, and which share of the memory it keeps for itself (KASAN's shadow). With
    `deterministic` its time counts instructions, and nothing in it differs from boot to boot.
    `cores`: the host's, by number, that nothing else uses meanwhile; () where it shares them.
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
    slower: float = 1.0
    reserves: float = 0.0
    deterministic: bool = False
    cores: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CpuModel:
    """A CPU model of QEMU's, and what is switched on or off in it ("pauth-impdef=on,-avx2")."""

    name: str
    options: str


def cpu_model(spec: GuestSpec) -> CpuModel:
    """The shape's CPU where it names one for the architecture, else the accelerator's; that for
    sockets with more than one vCPU may be another."""
    models, per = spec.architecture.cpu, shapes.topology(spec.shape)
    usual = models[spec.accelerator.name]
    for key in _cpu_keys(spec, levels=per.vcpus > per.sockets):
        usual = models.get(key, usual)
    name, _, options = spec.shape.cpu.get(spec.architecture.name, usual).partition(",")
    return CpuModel(name=name, options=options)


def _cpu_keys(spec: GuestSpec, *, levels: bool) -> Iterator[str]:
    """The names of models in place of the accelerator's, the one that counts most last."""
    key = spec.accelerator.name
    if levels:
        yield f"{key}-levels"
    if spec.deterministic:
        yield f"{key}-{deterministic.CPU}"
        if levels:
            yield f"{key}-{deterministic.CPU}-levels"


def firmware(spec: GuestSpec) -> bool:
    """Whether the guest boots through UEFI firmware."""
    return spec.architecture.name in spec.shape.firmware


def kernel_arguments(spec: GuestSpec) -> tuple[str, ...]:
    """The kernel command line. `panic=-1` resets at once, which ends a guest that may not
    reboot; `oops=panic` because a kernel that has oopsed proves nothing any more."""
    held_back = shapes.held_back(spec.shape, spec.architecture)
    return (
        f"console={spec.architecture.console}",
        spec.architecture.earlycon,
        "panic=-1",
        "oops=panic",
        "rdinit=/init",
        *([f"maxcpus={spec.shape.vcpus}"] if held_back else []),
        *(deterministic.KERNEL if spec.deterministic else ()),
        *spec.shape.cmdline,
        *spec.cmdline,
    )


def extra_arguments(spec: GuestSpec) -> tuple[str, ...]:
    """QEMU arguments for what libvirt's XML cannot say; QEMU merges them with libvirt's own."""
    return (
        *_cpu_options(spec),
        *_machine_options(spec),
        *_beyond_libvirt(spec),
        *_network(spec),
        *(deterministic.arguments() if spec.deterministic else ()),
    )


def _machine_options(spec: GuestSpec) -> tuple[str, ...]:
    options = spec.shape.machine.get(spec.architecture.name, "")
    return ("-machine", options) if options else ()


def _cpu_options(spec: GuestSpec) -> tuple[str, ...]:
    """libvirt knows few of the switches of Arm CPUs, and none of those of `max` under TCG."""
    model = cpu_model(spec)
    return ("-cpu", f"{model.name},{model.options}") if model.options else ()


def _beyond_libvirt(spec: GuestSpec) -> Iterator[str]:
    """What `_told` keeps from libvirt, in QEMU's words."""
    shape, told = spec.shape, _told(spec.shape)
    if told == shape:
        return
    yield from ("-smp", _smp(spec))
    if told.numa != shape.numa:
        for number, cell in enumerate(shape.numa):
            if not cell.memory:
                yield from ("-numa", _node(number, cell))
        yield from _distances(shape)


def _told(shape: GuestShape) -> GuestShape:
    """The shape as libvirt gets to know it.

    Clusters: libvirt has a word for them from 10.1 on, QEMU's `virt` has them from 7.0 on.
    Cells without memory, which come last (`shapes.check`): libvirt 9.0 makes a memory backend
    of 0 bytes for one, which QEMU refuses, and it gives vCPUs without a cell to the first; so
    it is told of neither.
    """
    per = shapes.topology(shape)
    with_memory = tuple(cell for cell in shape.numa if cell.memory)
    if with_memory != shape.numa:
        vcpus = sum(len(shapes.parse_list(cell.cpus)) for cell in with_memory)
        return replace(
            shape,
            vcpus=vcpus,
            max_vcpus=vcpus,
            numa=tuple(replace(cell, distances=()) for cell in with_memory),
            sockets=vcpus,
            dies=0,
            clusters=0,
            cores=0,
            threads=0,
        )
    if per.clusters > 1:
        return replace(shape, clusters=0, cores=per.cores * per.clusters)
    return shape


def _network(spec: GuestSpec) -> tuple[str, ...]:
    """A network that only lets ssh in. Port forwarding in <interface type="user"> needs the
    passt backend (libvirt 9.0), slirp's does not."""
    if not spec.network:
        return ()
    forward = f"hostfwd=tcp:127.0.0.1:{spec.ssh_port}-:22"
    return (
        "-netdev",
        f"user,id=net0,restrict=on,ipv6=off,{forward}",
        "-device",
        f"virtio-net-pci,netdev=net0,bus=pcie.0,addr={NETWORK_SLOT:#x},romfile=",
    )


def _smp(spec: GuestSpec) -> str:
    """Every level is named: QEMU's own guess at those left out changed in 6.2."""
    shape, per = spec.shape, shapes.topology(spec.shape)
    words = [
        str(shapes.present_vcpus(shape, spec.architecture)),
        f"maxcpus={shape.max_vcpus}",
        f"sockets={per.sockets}",
        *([f"dies={per.dies}"] if per.dies > 1 else []),
        *([f"clusters={per.clusters}"] if per.clusters > 1 else []),
        f"cores={per.cores}",
        f"threads={per.threads}",
    ]
    return ",".join(words)


def pins(spec: GuestSpec) -> tuple[tuple[int, int], ...]:
    """(vCPU, core) where each vCPU that boots has a core to itself, so that the host's scheduler
    does not move it about while times are measured. vCPUs that come later share these cores.

    With more vCPUs than cores there are none: the host balances them better than a fixed order.
    """
    if spec.deterministic or not spec.cores or spec.shape.vcpus > len(spec.cores):
        return ()
    return tuple(
        (vcpu, spec.cores[vcpu % len(spec.cores)]) for vcpu in range(_told(spec.shape).max_vcpus)
    )


def render(spec: GuestSpec) -> str:
    """The domain XML of a guest, for libvirt 9.0 and newer."""
    told = _told(spec.shape)
    return _template().render(
        spec=spec,
        cmdline=" ".join(kernel_arguments(spec)),
        pins=pins(spec),
        cpu=cpu_model(spec).name,
        shape=told,
        present=shapes.present_vcpus(told, spec.architecture),
        topology=shapes.topology(told),
        cells=shapes.cells(told),
        distances=shapes.distances(told) if _has_distances(told) else (),
        firmware=FIRMWARE.get(spec.architecture.name) if firmware(spec) else None,
        acpi=spec.architecture.acpi or firmware(spec),
        emulator=spec.emulator or f"/usr/bin/{spec.architecture.qemu}",
        epoch=deterministic.EPOCH if spec.deterministic else None,
        rng_slot=RNG_SLOT,
        disk_slot=DISK_SLOT,
        arguments=extra_arguments(spec),
    )


def _has_distances(shape: GuestShape) -> bool:
    return any(cell.distances for cell in shapes.cells(shape))


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8"))


def by_hand(spec: GuestSpec) -> tuple[str, ...]:
    """A plain QEMU command that boots the same guest with its console on the terminal."""
    architecture = spec.architecture
    machine = architecture.machine
    if architecture.gic and spec.accelerator.name == "tcg":
        machine += f",gic-version={architecture.gic}"
    machine = ",".join(filter(None, (machine, spec.shape.machine.get(architecture.name, ""))))
    model = cpu_model(spec)
    return (
        str(spec.emulator or architecture.qemu),
        *("-machine", machine, "-accel", spec.accelerator.name),
        *("-cpu", ",".join(filter(None, (model.name, model.options)))),
        *("-smp", _smp(spec), "-m", _memory(spec.shape)),
        *(("-bios", str(BIOS[architecture.name])) if firmware(spec) else ()),
        *_numa(spec.shape),
        # Not -nographic: with that the firmware writes on the console too, which takes time.
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-boot", "strict=on"),
        *_terminal(architecture),
        *("-kernel", str(spec.kernel), "-initrd", str(spec.initrd)),
        *("-append", " ".join(kernel_arguments(spec))),
        *(_repeatable() if spec.deterministic else _entropy()),
        *_disk(spec),
        *_network(spec),
    )


def _terminal(architecture: Architecture) -> tuple[str, ...]:
    """The console on the terminal, as the device that libvirt makes: a PC's firmware tables list
    what `-serial` makes in another order, and the kernel then takes some instructions more."""
    if architecture.console_type == "pl011":
        return ("-serial", "mon:stdio")
    return (
        *("-chardev", "stdio,id=console0,mux=on,signal=off", "-mon", "chardev=console0"),
        *("-device", f"{architecture.console_type},chardev=console0"),
    )


def _repeatable() -> tuple[str, ...]:
    return (*deterministic.clock(), *deterministic.arguments())


def _entropy() -> tuple[str, ...]:
    return (
        *("-object", "rng-random,id=rng0,filename=/dev/urandom"),
        *("-device", f"virtio-rng-pci,rng=rng0,bus=pcie.0,addr={RNG_SLOT:#x}"),
    )


def _memory(shape: GuestShape) -> str:
    if not shape.max_memory:
        return f"{shape.memory}M"
    return f"{shape.memory}M,slots={shape.memory_slots},maxmem={shape.max_memory}M"


def _numa(shape: GuestShape) -> Iterator[str]:
    for number, cell in enumerate(shapes.cells(shape)):
        if cell.memory:
            yield from ("-object", f"memory-backend-ram,id=ram{number},size={cell.memory}M")
        yield from ("-numa", _node(number, cell))
    yield from _distances(shape)


def _node(number: int, cell: NumaCell) -> str:
    cpus = "".join(f",cpus={part}" for part in cell.cpus.split(",") if part)
    return f"node,nodeid={number}{cpus}" + (f",memdev=ram{number}" if cell.memory else "")


def _distances(shape: GuestShape) -> Iterator[str]:
    table = shapes.distances(shape) if _has_distances(shape) else ()
    for source, row in enumerate(table):
        for target, value in enumerate(row):
            yield from ("-numa", f"dist,src={source},dst={target},val={value}")


def _disk(spec: GuestSpec) -> tuple[str, ...]:
    if spec.disk is None:
        return ()
    return (
        "-drive",
        f"file={spec.disk},format=qcow2,if=none,id=disk0,cache=unsafe",
        "-device",
        f"virtio-blk-pci,drive=disk0,bus=pcie.0,addr={DISK_SLOT:#x}",
    )
