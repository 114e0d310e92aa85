"""Whether host and guest agree after an event: QEMU's own answers, against what the guest sees.

The truth of the host is QEMU's. libvirt's count is none: a removal of a vCPU under TCG is done
in the guest and in QEMU within a second, but QEMU 7.2 announces only the end of its APIC, so
libvirt reports a time-out after 5 s and keeps counting the vCPU. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline import acpitables, shapes
from pipeline.guestview import GuestView
from pipeline.model import Architecture, GuestShape
from pipeline.shapes import format_list, parse_list

PERIPHERAL = "/machine/peripheral/"
MIB = 1 << 20
# Added memory is counted whole but for `struct page` where that lies in the added memory itself.
MEMORY_TOLERANCE = 0.05


@dataclass(frozen=True, kw_only=True)
class Dimm:
    """A DIMM that was added. `address` and `size` in bytes of the guest's memory."""

    id: str
    address: int
    size: int
    node: int


@dataclass(frozen=True, kw_only=True)
class HostView:
    """What QEMU says of its machine. vCPUs are numbered by socket, die, core and thread.

    `removable`: the device of each vCPU that has one of its own. `free`: what `device_add` wants
    for each vCPU that may be added. `memory` in bytes, that of DIMMs included.
    """

    vcpus: frozenset[int]
    removable: Mapping[int, str]
    free: Mapping[int, Mapping[str, Any]]
    dimms: tuple[Dimm, ...]
    memory: int


def host_view(
    cpus: Sequence[Mapping[str, Any]],
    devices: Sequence[Mapping[str, Any]],
    summary: Mapping[str, Any],
) -> HostView:
    """From query-hotpluggable-cpus (or query-cpus-fast, where vCPUs cannot be added),
    query-memory-devices and query-memory-size-summary."""
    places = sorted(cpus, key=lambda each: _place(each.get("props", {})))
    plugged = {n: str(cpu["qom-path"]) for n, cpu in enumerate(places) if "qom-path" in cpu}
    return HostView(
        vcpus=frozenset(plugged),
        removable={
            number: path.removeprefix(PERIPHERAL)
            for number, path in plugged.items()
            if path.startswith(PERIPHERAL)
        },
        free={
            number: {"driver": cpu["type"], **cpu["props"]}
            for number, cpu in enumerate(places)
            if number not in plugged
        },
        dimms=tuple(_dimm(each["data"]) for each in devices if each.get("type") == "dimm"),
        memory=int(summary["base-memory"]) + int(summary.get("plugged-memory", 0)),
    )


def _place(props: Mapping[str, Any]) -> tuple[int, ...]:
    levels = ("socket-id", "die-id", "cluster-id", "core-id", "thread-id")
    return tuple(int(props.get(level, 0)) for level in levels)


def _dimm(data: Mapping[str, Any]) -> Dimm:
    return Dimm(
        id=str(data.get("id", "")),
        address=int(data["addr"]),
        size=int(data["size"]),
        node=int(data.get("node", 0)),
    )


def blocks_of(dimms: Iterable[Dimm], block_bytes: int) -> tuple[int, ...]:
    """The numbers of the memory blocks in which DIMMs lie."""
    return tuple(
        number
        for dimm in dimms
        for number in range(dimm.address // block_bytes, (dimm.address + dimm.size) // block_bytes)
    )


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What an event is to come to: vCPUs in QEMU (and present in the guest), CPUs online,
    bytes of memory in QEMU, memory blocks online, and MemTotal."""

    vcpus: int
    online: frozenset[int]
    memory: int
    blocks_online: int
    memory_kb: int


def differences(
    wanted: Wanted, host: HostView, view: GuestView, shape: GuestShape
) -> tuple[str, ...]:
    """All in which QEMU, the guest, and what was wanted differ, in words."""
    return (
        *_counts(wanted, host, view),
        *_online(wanted, view),
        *_memory(wanted, host, view),
        *_nodes(shape, view),
    )


def _counts(wanted: Wanted, host: HostView, view: GuestView) -> Iterator[str]:
    if len(host.vcpus) != wanted.vcpus:
        yield f"QEMU has {len(host.vcpus)} vCPUs, not {wanted.vcpus}"
    if len(view.present) != wanted.vcpus:
        yield f"the guest has {len(view.present)} present CPUs, not {wanted.vcpus}"
    if not view.present <= view.possible:
        yield "the guest has present CPUs that are not possible"


def _online(wanted: Wanted, view: GuestView) -> Iterator[str]:
    if missing := wanted.online - view.online:
        yield f"CPUs {format_list(missing)} are not online in the guest"
    if extra := view.online - wanted.online:
        yield f"CPUs {format_list(extra)} are still online in the guest"


def _memory(wanted: Wanted, host: HostView, view: GuestView) -> Iterator[str]:
    if host.memory != wanted.memory:
        yield f"QEMU has {host.memory // MIB} MiB of memory, not {wanted.memory // MIB}"
    if view.blocks_online != wanted.blocks_online:
        yield (
            f"the guest has {view.blocks_online} memory blocks online, not {wanted.blocks_online}"
        )
    elif abs(view.memory_kb - wanted.memory_kb) > MEMORY_TOLERANCE * wanted.memory_kb:
        yield (
            f"the guest's MemTotal is {view.memory_kb // 1024} MiB, "
            f"not about {wanted.memory_kb // 1024}"
        )


def _nodes(shape: GuestShape, view: GuestView) -> Iterator[str]:
    """Every online CPU is in the node of its cell; kernels put those of a cell without memory
    elsewhere, which is theirs to choose."""
    for number, cell in enumerate(shapes.cells(shape)):
        node = view.nodes.get(number)
        if node is None or not cell.memory:
            continue
        if strays := (parse_list(cell.cpus) & view.online) - node.cpus:
            yield f"CPUs {format_list(strays)} are not in node {number} of the guest"


# --------------------------------------------------------------------------- known causes


def no_room(
    view: GuestView,
    wanted: int,
    *,
    architecture: Architecture,
    accelerator: str,
    overridden: bool,
) -> str:
    """Why a guest's kernel has no room for `wanted` CPUs, where that is known; "" elsewhere."""
    if len(view.possible) >= wanted:
        return ""
    if view.kernel_max + 1 < wanted:
        return f"the kernel is built for {view.kernel_max + 1} CPUs"
    if limit := re.search(r"(?:^| )((?:nr_cpus|possible_cpus)=\d+)", view.cmdline):
        return f"the kernel was told to know no more CPUs ({limit[1]})"
    passes_over = architecture.vcpu_hotplug and acpitables.needed(view.release)
    if accelerator == "tcg" and passes_over and not overridden:
        return (
            f"kernel {view.release} knows CPUs {format_list(view.possible)} alone: it passes over "
            "vCPUs that are not there at boot unless it knows its hypervisor, and TCG is none "
            "that it knows; firmware tables that show them (table_override) were not in place"
        )
    return ""
