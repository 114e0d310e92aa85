"""What a guest sees: reading it, and comparing it with its shape."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from pipeline import guestview, shapes
from pipeline.guestview import GuestView, differences, format_list, known, parse, parse_list
from pipeline.model import GuestShape
from tests import guests

X86, ARM = guests.architecture("x86_64"), guests.architecture("aarch64")
ALL = sorted(path.stem for path in (guests.SHARE / "guests").glob("*.toml"))

# A 6.12 guest of the shape smt, shortened to what is looked at, with noise around it.
RECORDED = """\
Warning: Permanently added something: nothing
/proc/sys/kernel/osrelease:6.12.117
/proc/cmdline:console=ttyS0 earlyprintk=ttyS0,115200 panic=-1 maxcpus=4 rdinit=/init
/proc/meminfo:MemTotal:        1013572 kB
cpu/possible:0-3
cpu/present:0-3
cpu/online:0-1,3
cpu/kernel_max:127
cpu/cpu0/topology/physical_package_id:0
cpu/cpu0/topology/die_id:0
cpu/cpu0/topology/cluster_id:65535
cpu/cpu0/topology/core_id:0
cpu/cpu0/topology/thread_siblings_list:0-1
cpu/cpu1/topology/physical_package_id:0
cpu/cpu1/topology/die_id:-1
cpu/cpu1/topology/core_id:0
cpu/cpu1/topology/thread_siblings_list:0-1
node/possible:0-1
node/online:0-1
node/has_cpu:0
node/has_memory:0
node/node0/cpulist:0-1,3
node/node0/distance:10 20
node/node0/meminfo:Node 0 MemTotal:        1013572 kB
node/node1/cpulist:
node/node1/distance:20 10
node/node1/meminfo:Node 1 MemTotal:              0 kB
memory/block_size_bytes:8000000
memory/memory0/state:online
memory/memory33/state:offline
"""


def test_reading() -> None:
    view = parse(RECORDED)
    assert view.release == "6.12.117"
    assert view.version == (6, 12)
    assert view.possible == {0, 1, 2, 3}
    assert view.online == {0, 1, 3}
    assert (view.kernel_max, view.memory_kb) == (127, 1013572)
    assert view.topology[0].siblings == {0, 1}
    assert (view.topology[0].cluster, view.topology[0].die) == (None, 0)
    assert (view.topology[1].cluster, view.topology[1].die) == (None, None)
    assert view.nodes[0].cpus == {0, 1, 3}
    assert view.nodes[0].distances == (10, 20)
    assert (view.nodes[1].cpus, view.nodes[1].memory_kb) == (frozenset(), 0)
    assert view.nodes_with_memory == {0}
    assert (view.blocks_online, view.blocks_total, view.block_bytes) == (1, 2, 128 << 20)
    assert view.blocks[33] == "offline"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text[:40], "does not show /proc/sys/kernel/osrelease"),
        (lambda text: text.replace("cpu/online", "gone"), "does not show cpu/online"),
        (lambda text: text.replace("/proc/meminfo", "gone"), "does not show /proc/meminfo"),
        (lambda text: text.replace("0-1,3", "0-x", 1), "says “0-x” in cpu/online"),
        (lambda text: text.replace("10 20", "10 far"), "“10 far” in node/node0/distance"),
    ],
)
def test_reading_what_makes_no_sense(change: Callable[[str], str], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        parse(change(RECORDED))


def test_a_kernel_with_neither_numa_nor_memory_hotplug() -> None:
    text = "\n".join(
        line for line in RECORDED.splitlines() if not line.startswith(("node/", "memory/"))
    )
    view = parse(text)
    assert (view.nodes, view.blocks_total, view.block_bytes) == ({}, 0, 0)
    assert parse_list("") == frozenset()


# --------------------------------------------------------------------------- comparing


def printed(shape: GuestShape, *, arm: bool = False, release: str = "5.10.262") -> str:
    """What a guest prints that is just what its shape says."""
    per, cells = shapes.topology(shape), shapes.cells(shape) or shapes.whole(shape)
    present = format_list(range(shapes.present_vcpus(shape, ARM if arm else X86)))
    online = range(shape.vcpus)
    table = shapes.distances(shape)
    lines = [
        f"/proc/sys/kernel/osrelease:{release}",
        "/proc/cmdline:console=ttyS0",
        f"/proc/meminfo:MemTotal: {shape.memory * 1024 - 30000} kB",
        f"cpu/possible:{format_list(range(shape.max_vcpus))}",
        f"cpu/present:{present}",
        f"cpu/online:{format_list(online)}",
        "cpu/kernel_max:127",
        f"node/possible:{format_list(range(len(cells)))}",
        f"node/has_cpu:{format_list(n for n, c in enumerate(cells) if parse_list(c.cpus))}",
        f"node/has_memory:{format_list(n for n, c in enumerate(cells) if c.memory)}",
    ]
    for cpu in online:
        core, socket = cpu // per.threads, cpu // (per.vcpus // per.sockets)
        siblings = set(range(core * per.threads, (core + 1) * per.threads)) & set(online)
        at = f"cpu/cpu{cpu}/topology"
        lines += [f"{at}/physical_package_id:{socket}", f"{at}/core_id:{core}"]
        lines += [f"{at}/thread_siblings_list:{format_list(siblings)}"]
    for number, cell in enumerate(cells):
        at, kb = f"node/node{number}", max(0, cell.memory * 1024 - 20000)
        lines += [f"{at}/cpulist:{format_list(parse_list(cell.cpus) & set(online))}"]
        lines += [f"{at}/distance:{' '.join(str(each) for each in table[number])}"]
        lines += [f"{at}/meminfo:Node {number} MemTotal: {kb} kB"]
    return "\n".join(lines)


def seen(name: str, *changes: tuple[str, str], release: str = "5.10.262") -> GuestView:
    """The view of an x86_64 guest of that shape with lines changed: (pattern, replacement)."""
    text = printed(guests.shape(name), release=release)
    for pattern, replacement in changes:
        text, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
        assert count, f"nothing matches {pattern}"
    return parse(text)


@pytest.mark.parametrize("name", ALL)
def test_a_guest_that_is_its_shape(name: str) -> None:
    shape = guests.shape(name)
    for arm, architecture in ((False, X86), (True, ARM)):
        view = parse(printed(shape, arm=arm))
        assert differences(shape, architecture, view) == ()
        assert known(shape, architecture, view) == ()


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("smp2of8", ("^cpu/possible.*", "cpu/possible:0-1"), "possible CPUs are 0-1, not 0-7"),
        ("smp2of8", ("^cpu/present.*", "cpu/present:0-2"), "present CPUs are 0-2, not 0-1"),
        ("smp4", ("^cpu/online.*", "cpu/online:0,2-3"), "online CPUs are 0,2-3, not 0-3"),
        ("smt", ("(cpu[67].*package_id):1", r"\1:2"), "3 sockets have CPUs online, not 2"),
        ("smt", ("(cpu[26].*package_id):.", r"\1:0"), "sockets hold CPUs 0-3,6 | 4-5,7, not"),
        ("smt", ("(siblings_list):.*", r"\1:0"), "1 cores have CPUs online, not 4"),
        ("smp1", ("(^/proc/meminfo.*: ).*", r"\g<1>300000 kB"), "MemTotal is 292 MiB of 512 MiB"),
        ("smp1", ("(^/proc/meminfo.*: ).*", r"\g<1>600000 kB"), "MemTotal is 585 MiB of 512 MiB"),
        ("numa2", ("(node1/cpulist):2-3", r"\1:3"), "node 1 has CPUs 3, not 2-3"),
        (
            "numa2",
            ("(node1/meminfo.*:).*", r"\1 100 kB"),
            "node 1's MemTotal is 0 MiB of 512 MiB",
        ),
        ("numa2", ("(node/has_cpu):0-1", r"\1:0"), "the mask of nodes with CPUs is 0, their"),
        ("numa2", ("(node/has_memory):0-1", r"\1:"), "the mask of nodes with memory is none"),
        ("numa2", ("^node/node1/.*", ""), "there is no node 1"),
        ("numa2-memless", ("(node1/meminfo.*:).*", r"\1 4 kB"), "node 1's MemTotal is 0 MiB of 0"),
        (
            "numa4-distances",
            ("(node2/distance:22 16) 10 16", r"\1 10 20"),
            "node 2's distances are 22 16 10 20, not 22 16 10 16",
        ),
        (
            "smp1",
            ("^(node/has_cpu.*)", r"\1\nnode/node1/meminfo:Node 1 MemTotal: 0 kB"),
            "there are nodes 1, which the shape has not",
        ),
    ],
)
def test_a_guest_that_is_not(name: str, change: tuple[str, str], words: str) -> None:
    found = differences(guests.shape(name), X86, seen(name, change))
    assert any(words in each for each in found), found


@pytest.mark.parametrize(
    ("name", "changes", "cause"),
    [
        (
            "smp4",
            [
                ("^cpu/online.*", "cpu/online:0-1"),
                ("(node0/cpulist).*", r"\1:0-1"),
                ("(cmdline:)", r"\1maxcpus=2 "),
            ],
            "maxcpus=2",
        ),
        (
            "smp64",
            [
                ("(kernel_max):.*", r"\1:31"),
                ("^cpu/(possible|present|online).*", r"cpu/\1:0-31"),
                ("^(node/node0/cpulist).*", r"\1:0-31"),
            ],
            "NR_CPUS=32",
        ),
        (
            "numa2-memless",
            [
                ("^node/node1/.*", ""),
                ("^(node/has_cpu).*", r"\1:0"),
                ("(node0/cpulist).*", r"\1:0-3"),
                ("(node0/distance).*", r"\1:10"),
            ],
            "CPUs without memory",
        ),
        (
            "smp2",
            [
                ("(MemTotal:).*", r"\1 200000 kB"),
                ("(cmdline:)", r"\1mem=200M "),
            ],
            "mem=200M",
        ),
        ("numa2", [("^node/.*", "")], "CONFIG_NUMA"),
    ],
)
def test_known_causes(name: str, changes: list[tuple[str, str]], cause: str) -> None:
    shape, view = guests.shape(name), seen(name, *changes)
    assert any(cause in each for each in known(shape, X86, view)), known(shape, X86, view)
    assert differences(shape, X86, view) == ()


def test_cpus_that_can_be_added_and_are_not_seen() -> None:
    shape = guests.shape("smp2of8")
    change = ("^cpu/possible.*", "cpu/possible:0-1")
    old, new = seen("smp2of8", change, release="6.1.100"), seen("smp2of8", change, release="6.12.1")
    assert differences(shape, X86, old)
    assert differences(shape, X86, new) == ()
    assert "online capable" in known(shape, X86, new)[0]
    fewer = seen("smp2of8", ("^cpu/possible.*", "cpu/possible:0-4"), release="6.12.1")
    assert differences(shape, X86, fewer) == ("possible CPUs are 0-4, not 0-7",)


def test_an_arm64_kernel_that_takes_no_sockets_from_a_device_tree() -> None:
    shape = guests.shape("smt")
    text = re.sub(r"(package_id|siblings_list):.*", r"\1:0", printed(shape, arm=True))
    assert differences(shape, ARM, parse(text)) == ()
    assert len(known(shape, ARM, parse(text))) == 2
    newer = parse(text.replace("5.10.262", "6.12.117"))
    assert len(differences(shape, ARM, newer)) == 2
    through_firmware = replace(shape, firmware=("aarch64",))
    assert len(differences(through_firmware, ARM, parse(text))) == 2


def test_clusters_are_looked_at_where_the_shape_has_some() -> None:
    text = re.sub(
        r"(cpu/cpu(\d+)/topology)/core_id", r"\1/cluster_id:\2\n\1/core_id", printed_smp(1)
    )
    assert differences(shape_of(1), X86, parse(text)) == ()
    assert differences(shape_of(2), ARM, parse(text)) == ("4 clusters have CPUs online, not 2",)


def shape_of(clusters: int) -> GuestShape:
    return replace(guests.shape("smp4"), sockets=1, clusters=clusters, cores=4 // clusters)


def printed_smp(clusters: int) -> str:
    return printed(shape_of(clusters), release="6.12.117")


def test_the_command_reads_all_with_one_program() -> None:
    assert guestview.COMMAND.count("grep") == 1
    assert "{" not in guestview.COMMAND, "busybox sh expands no braces"
