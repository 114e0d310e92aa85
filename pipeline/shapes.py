"""What a guest shape asks for, whether it is sound, and whether a host can give it: pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pipeline import deterministic
from pipeline.model import Architecture, GuestShape, NumaCell

LOCAL_DISTANCE = 10
REMOTE_DISTANCE = 20
LEVELS = ("sockets", "dies", "clusters", "cores", "threads")


@dataclass(frozen=True, kw_only=True)
class Topology:
    """Where the vCPUs of a guest sit, all that may come included; the product is their number."""

    sockets: int
    dies: int
    clusters: int
    cores: int
    threads: int

    @property
    def vcpus(self) -> int:
        return self.sockets * self.dies * self.clusters * self.cores * self.threads


def parse_list(text: str) -> frozenset[int]:
    """Numbers as the kernel and shape files write them: "0-3,8"; none where it is empty.

    Raises:
        ValueError: it is no such list.
    """
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, dash, last = part.partition("-")
        numbers = range(int(first), int(last if dash else first) + 1)
        if not numbers:
            raise ValueError(f"“{part}” ends before it begins")
        found.update(numbers)
    return frozenset(found)


def format_list(numbers: Iterable[int]) -> str:
    """The other way round: {0, 1, 2, 8} is "0-2,8"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def topology(shape: GuestShape) -> Topology:
    """A shape's topology with every level: what is 0 is one, sockets are as many as it takes."""
    levels = {name: getattr(shape, name) or 1 for name in ("dies", "clusters", "cores", "threads")}
    socket = levels["dies"] * levels["clusters"] * levels["cores"] * levels["threads"]
    return Topology(sockets=shape.sockets or max(1, shape.max_vcpus // socket), **levels)


def cells(shape: GuestShape) -> tuple[NumaCell, ...]:
    """A shape's NUMA cells. QEMU adds DIMMs to guests with cells alone, so a shape that has
    room for some and names no cell has one with all in it."""
    return whole(shape) if shape.max_memory and not shape.numa else shape.numa


def whole(shape: GuestShape) -> tuple[NumaCell, ...]:
    """One cell with all that a shape has."""
    return (NumaCell(cpus=format_list(range(shape.max_vcpus)), memory=shape.memory),)


def distances(shape: GuestShape) -> tuple[tuple[int, ...], ...]:
    """The distance from each cell to each, in order; with the kernel's defaults where none is
    given."""
    given = cells(shape) or whole(shape)
    return tuple(
        cell.distances
        or tuple(LOCAL_DISTANCE if to == at else REMOTE_DISTANCE for to in range(len(given)))
        for at, cell in enumerate(given)
    )


def present_vcpus(shape: GuestShape, architecture: Architecture) -> int:
    """How many vCPUs QEMU makes at boot. Where it cannot add any, all are there from the
    start, and `maxcpus=` keeps the kernel from using more than the shape boots with."""
    return shape.vcpus if architecture.vcpu_hotplug else shape.max_vcpus


def held_back(shape: GuestShape, architecture: Architecture) -> bool:
    """Whether vCPUs that "may come" are there from the start and wait for sysfs."""
    return not architecture.vcpu_hotplug and shape.max_vcpus > shape.vcpus


# --------------------------------------------------------------------------- soundness

LARGEST_DISTANCE = 254  # 255 says that there is no way


def check(shape: GuestShape) -> tuple[str, ...]:
    """What does not fit together in a shape file, in words; nothing where it is sound."""
    return (*_check_cpus(shape), *_check_memory(shape), *_check_numa(shape))


def _check_cpus(shape: GuestShape) -> Iterator[str]:
    if not 1 <= shape.vcpus <= shape.max_vcpus:
        yield f"vcpus = {shape.vcpus} is not between 1 and max_vcpus = {shape.max_vcpus}"
    for name in LEVELS:
        if getattr(shape, name) < 0:
            yield f"{name} = {getattr(shape, name)} is negative"
    per = topology(shape)
    if per.vcpus != shape.max_vcpus:
        product = " × ".join(str(getattr(per, name)) for name in LEVELS)
        yield f"{' × '.join(LEVELS)} is {product} = {per.vcpus}, not max_vcpus = {shape.max_vcpus}"


def _check_memory(shape: GuestShape) -> Iterator[str]:
    if shape.memory < 1:
        yield f"memory = {shape.memory} MiB is none"
    if shape.max_memory and shape.max_memory <= shape.memory:
        yield f"max_memory = {shape.max_memory} leaves nothing to add to memory = {shape.memory}"
    if shape.memory_slots < 0:
        yield f"memory_slots = {shape.memory_slots} is negative"
    if bool(shape.max_memory) != bool(shape.memory_slots):
        yield "max_memory and memory_slots only make sense together"


def _check_numa(shape: GuestShape) -> Iterator[str]:
    if not shape.numa:
        return
    try:
        cpus = [parse_list(cell.cpus) for cell in shape.numa]
    except ValueError as error:
        yield f"numa: not a list of CPUs: {error}"
        return
    every = sorted(cpu for cell in cpus for cpu in cell)
    if every != list(range(shape.max_vcpus)):
        want = format_list(range(shape.max_vcpus))
        yield f"numa: the cells' CPUs are {format_list(every)}, not each of {want} once"
    memory = sum(cell.memory for cell in shape.numa)
    if memory != shape.memory or any(cell.memory < 0 for cell in shape.numa):
        yield f"numa: the cells have {memory} MiB, not memory = {shape.memory}"
    yield from _check_memoryless(shape, cpus)
    yield from _check_distances(shape)


def _check_memoryless(shape: GuestShape, cpus: list[frozenset[int]]) -> Iterator[str]:
    """See `domain`: libvirt cannot be told of such cells."""
    without = [number for number, cell in enumerate(shape.numa) if not cell.memory]
    if not without:
        return
    if any(not cpus[number] for number in without):
        yield "numa: a cell has neither CPUs nor memory"
        return
    order = [cpu for cell in cpus[min(without) :] for cpu in cell]
    first = [cpu for cell in cpus[: min(without)] for cpu in cell]
    if len(without) != len(shape.numa) - min(without) or max(first, default=-1) > min(order):
        yield "numa: cells without memory have to be the last, and to have the last CPUs"
    if shape.max_vcpus > shape.vcpus or shape.max_memory:
        yield "numa: with a cell without memory neither vCPUs nor memory can be added"


def _check_distances(shape: GuestShape) -> Iterator[str]:
    table = distances(shape)
    for number, row in enumerate(table):
        if len(row) != len(table):
            yield f"numa: cell {number} has {len(row)} distances for {len(table)} cells"
            return
    for source, row in enumerate(table):
        for target, value in enumerate(row):
            if source == target and value != LOCAL_DISTANCE:
                yield f"numa: the distance of cell {source} to itself is {value}, not 10"
            elif source != target and not LOCAL_DISTANCE < value <= LARGEST_DISTANCE:
                yield f"numa: the distance {value} between two cells is not from 11 to 254"
            elif source < target and value != table[target][source]:
                yield f"numa: cells {source} and {target} are {value} apart one way, not the other"


# --------------------------------------------------------------------------- hosts

# QEMU beside the guest's memory: itself, the translated code (TCG), what each vCPU has.
BESIDE = {"kvm": (64, 2), "tcg": (192, 4)}
FIRMWARE_MIB = 64  # the flash that it lies in
MOST_XAPIC = 255  # vCPUs that q35 takes without an IOMMU that remaps interrupts


def overhead(shape: GuestShape, architecture: Architecture, accelerator: str | None = None) -> int:
    """MiB of host memory that a guest of this shape may use beyond its own, under TCG where it
    is not said. Generous: a guest of 64 vCPUs had 530 MiB resident, what it used of its own
    memory included (QEMU 7.2, TCG)."""
    itself, each = BESIDE[accelerator or "tcg"]
    firmware = FIRMWARE_MIB if architecture.name in shape.firmware else 0
    return itself + each * shape.max_vcpus + firmware


def needed_memory(
    shape: GuestShape, architecture: Architecture, accelerator: str | None = None
) -> int:
    """MiB of host memory that a guest of this shape may use, with all that can be added."""
    own = max(shape.memory, shape.max_memory)
    return own + overhead(shape, architecture, accelerator)


def refusal(
    shape: GuestShape,
    architecture: Architecture,
    *,
    host_memory: int,
    accelerator: str | None,
    qemu: tuple[int, ...] | None,
    firmware_there: bool,
    counts: bool = False,
) -> str:
    """Why this host or architecture cannot give the shape, and what to do; "" where it can.

    `host_memory` in MiB; `accelerator` and `qemu` (its version) are None where not known yet;
    `firmware_there`: whether the UEFI firmware for the architecture is installed; `counts`:
    whether the guest's time is to count instructions.
    """
    needed = needed_memory(shape, architecture, accelerator)
    reasons = (
        _not_for(shape, architecture),
        _no_levels(shape, architecture, qemu),
        _no_firmware(shape, architecture, there=firmware_there),
        deterministic.refusal(present_vcpus(shape, architecture), qemu) if counts else "",
        f"it may take {needed} MiB of memory and guests may have {host_memory} MiB: "
        "end what else runs, take a smaller guest, or give more with --memory"
        if needed > host_memory
        else "",
    )
    return next(filter(None, reasons), "")


def _not_for(shape: GuestShape, architecture: Architecture) -> str:
    if shape.architectures and architecture.name not in shape.architectures:
        return f"the shape is for {' and '.join(shape.architectures)} alone"
    if architecture.machine == "q35" and shape.max_vcpus > MOST_XAPIC:
        return f"{architecture.machine} has room for {MOST_XAPIC} vCPUs: take fewer"
    return ""


def _no_levels(shape: GuestShape, architecture: Architecture, qemu: tuple[int, ...] | None) -> str:
    """dies are QEMU's word for PCs, clusters for Arm."""
    for level, machine, since in (("dies", "q35", (4, 1)), ("clusters", "virt", (7, 0))):
        if getattr(shape, level) <= 1:
            continue
        if architecture.machine != machine:
            return f"QEMU's {architecture.machine} knows no {level}: take a shape without"
        if qemu is not None and qemu < since:
            newer = ".".join(str(part) for part in since)
            return f"{level} need QEMU {newer} or newer: install one, or take a shape without"
    return ""


def _no_firmware(shape: GuestShape, architecture: Architecture, *, there: bool) -> str:
    boots_through = architecture.name in shape.firmware
    if boots_through and not there:
        return f"UEFI firmware is not installed: apt-get install qemu-efi-{architecture.name}"
    if shape.max_memory and not (architecture.acpi or boots_through):
        return (
            "memory that is added is announced through ACPI, which comes with UEFI firmware on "
            f'{architecture.name}: put firmware = ["{architecture.name}"] into the shape'
        )
    return ""


def notes(shape: GuestShape, architecture: Architecture) -> tuple[str, ...]:
    """What a reader of a result must know of how the shape is had on this architecture."""
    found = []
    if held_back(shape, architecture):
        found.append(
            f"QEMU's {architecture.machine} cannot add vCPUs: all {shape.max_vcpus} are present, "
            f"and the kernel boots with maxcpus={shape.vcpus}; sysfs brings the others"
        )
    if architecture.name in shape.firmware:
        found.append("it boots through UEFI firmware, with ACPI")
    if architecture.name in shape.cpu:
        found.append(f"its CPU is {shape.cpu[architecture.name]}")
    return tuple(found)
