"""What a guest sees of its CPUs, nodes and memory, and where that is not its shape: pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from pipeline import grepped, shapes
from pipeline.model import Architecture, GuestShape
from pipeline.shapes import Topology, format_list, parse_list

__all__ = [
    "COMMAND",
    "CpuView",
    "GuestView",
    "NodeView",
    "differences",
    "format_list",
    "known",
    "parse",
    "parse_list",
]

# One grep reads it all, "file:line" each: a process of its own for every file would cost an
# emulated guest of 64 CPUs seconds. Of the tables in capitals only MemTotal is wanted.
COMMAND = """\
( cd /sys/devices/system && exec grep -Hs -e '^[^A-Z]' -e '^$' -e MemTotal: \
/proc/sys/kernel/osrelease /proc/cmdline /proc/meminfo \
cpu/possible cpu/present cpu/online cpu/kernel_max \
cpu/cpu[0-9]*/topology/physical_package_id cpu/cpu[0-9]*/topology/die_id \
cpu/cpu[0-9]*/topology/cluster_id cpu/cpu[0-9]*/topology/core_id \
cpu/cpu[0-9]*/topology/thread_siblings_list \
node/possible node/online node/has_cpu node/has_memory \
node/node[0-9]*/cpulist node/node[0-9]*/distance node/node[0-9]*/meminfo \
memory/block_size_bytes memory/memory[0-9]*/state ) || :"""

# 6.1 counts CPUs that the firmware's tables call disabled as possible, 6.12 does so only on a
# hypervisor that it knows, or with the "online capable" flag of ACPI 6.3
# (acpi_is_processor_usable()).
ONLINE_CAPABLE = (6, 2)
# drivers/base/arch_topology.c takes /cpus/cpu-map/socket0 into account; 5.10 begins at cluster0.
SOCKETS_IN_TREE = (6, 0)

# What the kernel keeps of a node's memory before it counts: its own image and tables
# (24 MiB in a guest of 512), `struct page` (64 bytes for each 4 KiB), per-CPU areas, firmware.
RESERVED_KB = 64 * 1024
RESERVED_SHARE = 0.04


@dataclass(frozen=True, kw_only=True)
class CpuView:
    """Where an online CPU sits. `die` and `cluster`: None where the kernel does not say."""

    package: int
    die: int | None
    cluster: int | None
    core: int
    siblings: frozenset[int]


@dataclass(frozen=True, kw_only=True)
class NodeView:
    """An online NUMA node: its online CPUs, its memory (MemTotal), its distances to all online
    nodes in order."""

    cpus: frozenset[int]
    memory_kb: int
    distances: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class GuestView:
    """What a guest's kernel says of its machine.

    `topology`: of each online CPU. `nodes` is empty where the kernel has no NUMA, `blocks`
    (memory block -> "online", "offline", …) where it has no memory hotplug.
    """

    release: str
    possible: frozenset[int]
    present: frozenset[int]
    online: frozenset[int]
    kernel_max: int  # the highest CPU number that the kernel is built for
    topology: Mapping[int, CpuView]
    nodes: Mapping[int, NodeView]
    nodes_possible: frozenset[int]
    nodes_with_cpus: frozenset[int]
    nodes_with_memory: frozenset[int]
    memory_kb: int
    block_bytes: int
    blocks: Mapping[int, str]
    cmdline: str
    reserves: float = 0.0  # share of the memory that this kernel is known to keep for itself

    def argument(self, name: str) -> int | None:
        """The last number that the kernel command line gives as `name`."""
        found = re.findall(rf"(?:^| ){name}=(\d+)(?= |$)", self.cmdline)
        return int(found[-1]) if found else None

    @property
    def version(self) -> tuple[int, ...]:
        """(6, 12) of "6.12.117-rc1"."""
        return tuple(int(part) for part in re.findall(r"\d+", self.release)[:2])

    @property
    def blocks_total(self) -> int:
        return len(self.blocks)

    @property
    def blocks_online(self) -> int:
        return sum(state == "online" for state in self.blocks.values())


# --------------------------------------------------------------------------- reading

AREAS = ("/proc", "cpu", "node", "memory")

# What the kernel says where the machine did not tell it: -1, as an unsigned short at times.
UNTOLD = (-1, 0xFFFF)


def parse(text: str) -> GuestView:
    """Read what COMMAND printed.

    Raises:
        ValueError: something that every kernel tells is missing, or makes no sense; which.
    """
    files = grepped.files(text, AREAS)
    for path in NEEDED:
        if path not in files:
            raise ValueError(f"the guest does not show {path}")
    return GuestView(
        release=files["/proc/sys/kernel/osrelease"],
        possible=grepped.read(files, "cpu/possible", parse_list),
        present=grepped.read(files, "cpu/present", parse_list),
        online=grepped.read(files, "cpu/online", parse_list),
        kernel_max=grepped.read(files, "cpu/kernel_max", int),
        topology=dict(_topology(files)),
        nodes=dict(_nodes(files)),
        nodes_possible=grepped.read(files, "node/possible", parse_list),
        nodes_with_cpus=grepped.read(files, "node/has_cpu", parse_list),
        nodes_with_memory=grepped.read(files, "node/has_memory", parse_list),
        memory_kb=grepped.read(files, "/proc/meminfo", grepped.kilobytes),
        block_bytes=grepped.read(files, "memory/block_size_bytes", grepped.hexadecimal),
        blocks={
            number: files[f"memory/memory{number}/state"]
            for number in grepped.numbers(files, r"memory/memory(\d+)/state")
        },
        cmdline=files.get("/proc/cmdline", ""),
    )


NEEDED = (
    "/proc/sys/kernel/osrelease",
    "/proc/meminfo",
    "cpu/possible",
    "cpu/present",
    "cpu/online",
    "cpu/kernel_max",
)


def _topology(files: Mapping[str, str]) -> Iterator[tuple[int, CpuView]]:
    for cpu in grepped.numbers(files, r"cpu/cpu(\d+)/topology/core_id"):
        folder = f"cpu/cpu{cpu}/topology"
        yield (
            cpu,
            CpuView(
                package=grepped.read(files, f"{folder}/physical_package_id", int),
                die=_told(files, f"{folder}/die_id"),
                cluster=_told(files, f"{folder}/cluster_id"),
                core=grepped.read(files, f"{folder}/core_id", int),
                siblings=grepped.read(files, f"{folder}/thread_siblings_list", parse_list),
            ),
        )


def _told(files: Mapping[str, str], path: str) -> int | None:
    number = grepped.read(files, path, int) if path in files else -1
    return None if number in UNTOLD else number


def _words_to_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split())


def _nodes(files: Mapping[str, str]) -> Iterator[tuple[int, NodeView]]:
    for node in grepped.numbers(files, r"node/node(\d+)/meminfo"):
        folder = f"node/node{node}"
        yield (
            node,
            NodeView(
                cpus=grepped.read(files, f"{folder}/cpulist", parse_list),
                memory_kb=grepped.read(files, f"{folder}/meminfo", grepped.kilobytes),
                distances=grepped.read(files, f"{folder}/distance", _words_to_numbers),
            ),
        )


# --------------------------------------------------------------------------- comparing


@dataclass(frozen=True, kw_only=True)
class _Deviation:
    """In what a guest is not its shape; `cause`: why, where that is known and none's fault."""

    words: str
    cause: str = ""


def held_against(
    shape: GuestShape, architecture: Architecture, text: str, *, reserves: float = 0.0
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What `COMMAND` printed against the shape: `differences`, and what is `known`.

    `reserves`: share of the memory that the kernel keeps for itself. What cannot be read is a
    difference.
    """
    try:
        view = replace(parse(text), reserves=reserves)
    except ValueError as error:
        return (str(error),), ()
    return differences(shape, architecture, view), known(shape, architecture, view)


def differences(shape: GuestShape, architecture: Architecture, view: GuestView) -> tuple[str, ...]:
    """All in which a freshly booted guest is not what its shape says, in words.

    What has a known cause is none; see `known`.
    """
    found = _deviations(shape, architecture, view)
    return tuple(each.words for each in found if not each.cause)


def known(shape: GuestShape, architecture: Architecture, view: GuestView) -> tuple[str, ...]:
    """In what a freshly booted guest is not what its shape says for a known cause, with that."""
    found = _deviations(shape, architecture, view)
    return tuple(f"{each.words}: {each.cause}" for each in found if each.cause)


def _deviations(
    shape: GuestShape, architecture: Architecture, view: GuestView
) -> Iterator[_Deviation]:
    yield from _cpus(shape, architecture, view)
    yield from _places(shape, architecture, view)
    yield from _memory("MemTotal", shape.memory, view.memory_kb, view)
    if view.nodes_possible:
        yield from _masks(shape, view)
        yield from _cells(shape, view)
    elif len(shapes.cells(shape)) > 1:
        yield _Deviation(words="there are no NUMA nodes", cause="the kernel has no CONFIG_NUMA")


def _cpus(shape: GuestShape, architecture: Architecture, view: GuestView) -> Iterator[_Deviation]:
    wanted = {
        "possible": (shape.max_vcpus, view.possible),
        "present": (shapes.present_vcpus(shape, architecture), view.present),
        "online": (shape.vcpus, view.online),
    }
    for name, (count, got) in wanted.items():
        want = frozenset(range(count))
        if want != got:
            words = f"{name} CPUs are {_list(got)}, not {_list(want)}"
            yield _Deviation(words=words, cause=_why_fewer(name, want, got, shape, view))


def _why_fewer(
    name: str, want: frozenset[int], got: frozenset[int], shape: GuestShape, view: GuestView
) -> str:
    limits = {"NR_CPUS": view.kernel_max + 1} | {
        argument: number
        for argument in ("nr_cpus", "possible_cpus", *(["maxcpus"] if name == "online" else []))
        if (number := view.argument(argument)) is not None
    }
    limit, number = min(limits.items(), key=lambda item: item[1])
    if got == frozenset(each for each in want if each < number):
        return f"the kernel takes no more ({limit}={number})"
    if name == "possible" and len(got) == shape.vcpus and view.version >= ONLINE_CAPABLE:
        return (
            f"Linux {view.release} passes over CPUs that the firmware's tables call neither "
            "enabled nor online capable"
        )
    return ""


def _places(shape: GuestShape, architecture: Architecture, view: GuestView) -> Iterator[_Deviation]:
    """CPUs by socket, die, cluster and core, as far as the kernel tells."""
    per = shapes.topology(shape)
    core = per.threads
    cluster = core * per.cores
    die = cluster * per.clusters
    seen: dict[str, Callable[[CpuView], object]] = {
        "sockets": lambda cpu: cpu.package,
        "dies": lambda cpu: (cpu.package, cpu.die),
        "clusters": lambda cpu: (cpu.package, cpu.die, cpu.cluster),
        "cores": lambda cpu: cpu.siblings,
    }
    sizes = {"sockets": die * per.dies, "dies": die, "clusters": cluster, "cores": core}
    for name, place in seen.items():
        if not _says(name, per, view):
            continue
        want = _groups({cpu: cpu // sizes[name] for cpu in view.topology})
        got = _groups({cpu: place(found) for cpu, found in view.topology.items()})
        if want != got:
            words = f"{name} hold CPUs {_lists(got)}, not {_lists(want)}"
            if len(want) != len(got):
                words = f"{len(got)} {name} have CPUs online, not {len(want)}"
            yield _Deviation(words=words, cause=_why_placed(shape, architecture, view))


def _says(name: str, per: Topology, view: GuestView) -> bool:
    """Whether the kernel tells of a level. x86 calls CPUs with a common L2 a cluster."""
    if name == "clusters" and per.clusters == 1:
        return False
    field = {"dies": "die", "clusters": "cluster"}.get(name)
    return field is None or all(getattr(cpu, field) is not None for cpu in view.topology.values())


def _why_placed(shape: GuestShape, architecture: Architecture, view: GuestView) -> str:
    tree = not architecture.acpi and architecture.name not in shape.firmware
    if tree and view.version < SOCKETS_IN_TREE:
        return f"Linux {view.release} knows no sockets in a device tree, and nothing below them"
    return ""


def _groups(places: Mapping[int, object]) -> frozenset[frozenset[int]]:
    """CPUs that are in the same place."""
    groups: dict[object, set[int]] = {}
    for cpu, place in places.items():
        groups.setdefault(place, set()).add(cpu)
    return frozenset(frozenset(group) for group in groups.values())


def _memory(name: str, mib: int, got_kb: int, view: GuestView) -> Iterator[_Deviation]:
    want_kb = mib * 1024
    least = want_kb - RESERVED_KB - (RESERVED_SHARE + view.reserves) * want_kb
    if not least <= got_kb <= want_kb:
        limited = got_kb < want_kb and re.search(r"(?:^| )(mem=\S+)", view.cmdline)
        yield _Deviation(
            words=f"{name} is {got_kb // 1024} MiB of {mib} MiB",
            cause=f"the kernel was told to leave some ({limited[1]})" if limited else "",
        )


def _masks(shape: GuestShape, view: GuestView) -> Iterator[_Deviation]:
    """The node masks against the nodes themselves, and nodes that no cell is behind."""
    behind = frozenset(range(max(1, len(shapes.cells(shape)))))
    if extra := frozenset(view.nodes) - behind:
        yield _Deviation(words=f"there are nodes {_list(extra)}, which the shape has not")
    for name, mask, holds in (
        ("CPUs", view.nodes_with_cpus, {n for n, node in view.nodes.items() if node.cpus}),
        ("memory", view.nodes_with_memory, {n for n, node in view.nodes.items() if node.memory_kb}),
    ):
        if mask != holds:
            words = f"the mask of nodes with {name} is {_list(mask)}, their own files say"
            yield _Deviation(words=f"{words} {_list(frozenset(holds))}")


def _cells(shape: GuestShape, view: GuestView) -> Iterator[_Deviation]:
    """Each cell against its node: CPUs, memory, distances."""
    cells = shapes.cells(shape) or shapes.whole(shape)
    merged = [n for n, cell in enumerate(cells) if not cell.memory and n not in view.nodes]
    anywhere = frozenset[int]().union(*(parse_list(cells[node].cpus) for node in merged))
    for number, cell in enumerate(cells):
        node = view.nodes.get(number)
        if node is None:
            yield _Deviation(
                words=f"there is no node {number}",
                cause="" if cell.memory else "the kernel puts CPUs without memory to another node",
            )
            continue
        want, got = (parse_list(cell.cpus) & view.online) - anywhere, node.cpus - anywhere
        if want != got:
            yield _Deviation(words=f"node {number} has CPUs {_list(got)}, not {_list(want)}")
        yield from _memory(f"node {number}'s MemTotal", cell.memory, node.memory_kb, view)
    yield from _distances(shape, view)


def _distances(shape: GuestShape, view: GuestView) -> Iterator[_Deviation]:
    table = shapes.distances(shape)
    there = [node for node in sorted(view.nodes) if node < len(table)]
    for node in there:
        want = tuple(table[node][to] for to in there)
        got = view.nodes[node].distances
        if want != got:
            words = f"node {node}'s distances are {_words(got)}, not {_words(want)}"
            yield _Deviation(words=words)


def _list(numbers: frozenset[int]) -> str:
    return format_list(numbers) or "none"


def _lists(groups: frozenset[frozenset[int]]) -> str:
    return " | ".join(format_list(group) for group in sorted(groups, key=min))


def _words(numbers: tuple[int, ...]) -> str:
    return " ".join(str(number) for number in numbers) or "none"
