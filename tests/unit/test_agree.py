"""QEMU's answers against the guest's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline import agree, guestview
from pipeline.agree import Wanted
from pipeline.guestview import GuestView
from pipeline.model import NumaCell
from pipeline.scope import Scope
from tests.guests import architecture
from tests.simulated import SHAPE, simulated

MIB = 1 << 20
CPUS: list[dict[str, Any]] = [  # as QEMU 7.2 lists them: the last first
    {"type": "max-x86_64-cpu", "vcpus-count": 1, "props": {"socket-id": 3, "core-id": 0}},
    {
        "type": "max-x86_64-cpu",
        "vcpus-count": 1,
        "qom-path": "/machine/peripheral/vcpu2",
        "props": {"socket-id": 2, "core-id": 0},
    },
    {
        "type": "max-x86_64-cpu",
        "qom-path": "/machine/unattached/device[4]",
        "props": {"socket-id": 1},
    },
    {
        "type": "max-x86_64-cpu",
        "qom-path": "/machine/unattached/device[0]",
        "props": {"socket-id": 0},
    },
]
DIMMS = [
    {
        "type": "dimm",
        "data": {"id": "dimm0", "addr": 4 << 30, "size": 256 * MIB, "node": 0, "slot": 0},
    },
    {"type": "virtio-mem", "data": {"id": "vm0"}},
]
SUMMARY = {"base-memory": 512 * MIB, "plugged-memory": 256 * MIB}
HOST = agree.host_view(CPUS, DIMMS, SUMMARY)


@pytest.fixture
def view(tmp_path: Path, scope: Scope) -> GuestView:
    kernel = simulated(tmp_path).kernel
    return guestview.parse(kernel.run(guestview.COMMAND, scope=scope).text)


def test_what_qemu_says() -> None:
    assert HOST.vcpus == {0, 1, 2}
    assert HOST.removable == {2: "vcpu2"}
    assert HOST.free == {3: {"driver": "max-x86_64-cpu", "socket-id": 3, "core-id": 0}}
    assert [dimm.id for dimm in HOST.dimms] == ["dimm0"]
    assert HOST.memory == 768 * MIB
    assert agree.blocks_of(HOST.dimms, 128 * MIB) == (32, 33)


def agreed(view: GuestView) -> tuple[Wanted, GuestView]:
    """A guest that has all of HOST, and what is then wanted."""
    there = frozenset({0, 1, 2})
    nodes = {0: replace(view.nodes[0], cpus=there)}
    blocks = {**view.blocks, 32: "online", 33: "online"}
    whole = replace(
        view, present=there, online=there, nodes=nodes, blocks=blocks, memory_kb=768 * 1024 - 20000
    )
    wanted = Wanted(
        vcpus=3, online=there, memory=768 * MIB, blocks_online=6, memory_kb=whole.memory_kb
    )
    return wanted, whole


def test_agreement(view: GuestView) -> None:
    wanted, whole = agreed(view)
    assert agree.differences(wanted, HOST, whole, SHAPE) == ()


def test_each_difference_is_named(view: GuestView) -> None:
    wanted, whole = agreed(view)

    def only(changed: GuestView, asked: Wanted = wanted) -> str:
        (words,) = agree.differences(asked, HOST, changed, SHAPE)
        return words

    fewer = replace(whole, present=frozenset({0, 1}))
    assert only(fewer) == "the guest has 2 present CPUs, not 3"
    assert only(replace(whole, online=frozenset({0, 1}))) == "CPUs 2 are not online in the guest"
    less = replace(wanted, online=frozenset({0, 1}))
    assert only(whole, less) == "CPUs 2 are still online in the guest"
    assert only(replace(whole, possible=frozenset({0, 1}))).endswith("that are not possible")
    block = replace(whole, blocks={**whole.blocks, 33: "offline"})
    assert only(block) == "the guest has 5 memory blocks online, not 6"
    assert only(replace(whole, memory_kb=512 * 1024)).startswith("the guest's MemTotal is 512 MiB")
    more = replace(wanted, memory=wanted.memory + MIB)
    assert only(whole, more) == "QEMU has 768 MiB of memory, not 769"


def test_a_cpu_in_the_wrong_node(view: GuestView) -> None:
    wanted, whole = agreed(view)
    cells = (NumaCell(cpus="0-1", memory=256), NumaCell(cpus="2-3", memory=256))
    shape = replace(SHAPE, numa=cells)
    nodes = {
        0: replace(view.nodes[0], cpus=frozenset({0, 1, 2})),
        1: replace(view.nodes[0], cpus=frozenset()),
    }
    strayed = replace(whole, nodes=nodes)
    assert agree.differences(wanted, HOST, strayed, shape) == (
        "CPUs 2 are not in node 1 of the guest",
    )
    memoryless = replace(shape, numa=(cells[0], replace(cells[1], memory=0)))
    assert agree.differences(wanted, HOST, strayed, memoryless) == ()


def cause(view: GuestView, *, on: str = "x86_64", overridden: bool = False) -> str:
    return agree.no_room(
        view, 4, architecture=architecture(on), accelerator="tcg", overridden=overridden
    )


def test_known_causes(view: GuestView) -> None:
    assert cause(view) == ""
    cramped = replace(view, possible=frozenset({0, 1}))
    assert cause(cramped) == "", "5.10 has no excuse"
    newer = replace(cramped, release="6.12.117")
    assert "table_override" in cause(newer)
    assert cause(newer, overridden=True) == "", "nor has one that was shown the vCPUs"
    assert cause(replace(cramped, kernel_max=1)) == "the kernel is built for 2 CPUs"
    assert "nr_cpus=2" in cause(replace(cramped, cmdline="quiet nr_cpus=2"))
