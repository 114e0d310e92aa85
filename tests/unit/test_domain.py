"""Domain XML: golden files, and that libvirt takes what is rendered."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pipeline import domain
from pipeline.model import Accelerator
from pipeline.virt import load_libvirt
from tests import guests
from tests.unit.golden import check_golden


def spec(architecture: str, shape: str, accelerator: str = "tcg") -> domain.GuestSpec:
    return domain.GuestSpec(
        name="boot",
        uuid=str(uuid.UUID(int=7)),
        architecture=guests.architecture(architecture),
        shape=guests.shape(shape),
        accelerator=Accelerator(name=accelerator, reason=""),
        kernel=Path("/run/kernel"),
        initrd=Path("/run/initrd"),
        console=Path("/run/console.log"),
        cmdline=("slub_debug=-",),
    )


CASES = [
    ("x86_64", "smp1", "tcg"),
    ("x86_64", "smp2of8", "kvm"),
    ("aarch64", "smp8", "tcg"),
    ("aarch64", "smp2", "kvm"),
    ("x86_64", "smt", "tcg"),
    ("x86_64", "numa2-memless", "tcg"),
    ("x86_64", "numa4-distances", "tcg"),
    ("aarch64", "memory-hotplug", "tcg"),
    ("aarch64", "smp2of8", "tcg"),
]


@pytest.mark.parametrize(("architecture", "shape", "accelerator"), CASES)
def test_golden(architecture: str, shape: str, accelerator: str) -> None:
    text = domain.render(spec(architecture, shape, accelerator))
    check_golden(f"domain-{architecture}-{shape}-{accelerator}.xml", text)


@pytest.mark.parametrize(("architecture", "shape", "accelerator"), CASES)
def test_libvirt_takes_it(architecture: str, shape: str, accelerator: str) -> None:
    """libvirt's test driver checks the XML against its own schema and keeps our fields."""
    libvirt: Any = load_libvirt()
    given = spec(architecture, shape, accelerator)
    text = domain.render(given).replace(
        f'type="{"kvm" if accelerator == "kvm" else "qemu"}"', 'type="test"', 1
    )
    # The driver knows one made-up machine; what is under test is all the rest.
    for old, new in ((f'arch="{architecture}" machine="{given.architecture.machine}"', ""),):
        text = text.replace(old, new)
    connection = libvirt.open("test:///default")
    try:
        defined = connection.defineXMLFlags(text, libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
        tree = ElementTree.fromstring(defined.XMLDesc())
        if shape != "numa2-memless":  # see domain._told
            assert tree.findtext("vcpu") == str(given.shape.max_vcpus)
        assert tree.findtext("on_reboot") == "destroy"
        assert "rdinit=/init" in (tree.findtext("os/cmdline") or "")
    finally:
        connection.close()


def test_the_network_only_lets_ssh_in() -> None:
    words = " ".join(domain.extra_arguments(replace(spec("x86_64", "smp1"), ssh_port=2222)))
    assert "restrict=on" in words
    assert "hostfwd=tcp:127.0.0.1:2222-:22" in words
    assert words.count("hostfwd") == 1


def test_a_guest_without_a_network_has_no_card_and_no_port() -> None:
    given = replace(spec("x86_64", "smp1"), network=False)
    machine = ElementTree.fromstring(domain.render(given))
    assert not [each.tag for each in machine if each.tag.endswith("commandline")]
    assert machine.find("devices/interface") is None
    words = domain.by_hand(given)
    assert not [word for word in words if "net" in word or "hostfwd" in word]
    assert "-nodefaults" in words, "QEMU would give it a card of its own"


def pinned(shape: str, *cores: int, deterministic: bool = False) -> dict[str, str]:
    """vCPU -> core."""
    given = replace(spec("x86_64", shape), cores=cores, deterministic=deterministic)
    machine = ElementTree.fromstring(domain.render(given))
    return {each.attrib["vcpu"]: each.attrib["cpuset"] for each in machine.iter("vcpupin")}


def test_a_timed_guest_s_vcpus_stay_on_cores_of_their_own() -> None:
    assert pinned("smp2", 4, 7) == {"0": "4", "1": "7"}
    # Those that come later share them.
    assert [pinned("smp2of8", 4, 7)[str(vcpu)] for vcpu in range(8)] == ["4", "7"] * 4
    assert pinned("smp4", 4, 7) == {}, "the host balances more vCPUs than cores better"
    assert pinned("smp2") == {}
    assert pinned("smp2", 4, 7, deterministic=True) == {}


def test_names_are_escaped() -> None:
    given = replace(spec("x86_64", "smp1"), kernel=Path('/a&b/<"k">'))
    tree = ElementTree.fromstring(domain.render(given))
    assert tree.findtext("os/kernel") == '/a&b/<"k">'


def after(words: Sequence[str], option: str) -> list[str]:
    """What an option of a QEMU command is given, each time it is."""
    return [words[place + 1] for place, word in enumerate(words) if word == option]


def test_the_command_by_hand_is_the_same_machine() -> None:
    given = spec("aarch64", "smp8")
    words = domain.by_hand(given)
    assert after(words, "-machine") == ["virt,gic-version=3"]
    assert after(words, "-cpu") == ["max,pauth-impdef=on"]
    assert after(words, "-smp") == ["8,maxcpus=8,sockets=1,cores=8,threads=1"]
    assert after(words, "-m") == ["1024M"]
    assert after(words, "-append") == [" ".join(domain.kernel_arguments(given))]
    assert after(words, "-netdev") == [domain.extra_arguments(given)[-3]]


def test_by_hand_with_nodes_and_room_for_memory() -> None:
    words = domain.by_hand(spec("x86_64", "numa2-memless"))
    assert after(words, "-numa") == [
        "node,nodeid=0,cpus=0-1,memdev=ram0",
        "node,nodeid=1,cpus=2-3",
    ]
    assert after(words, "-object")[0] == "memory-backend-ram,id=ram0,size=1024M"
    words = domain.by_hand(spec("x86_64", "numa4-distances"))
    assert "dist,src=0,dst=2,val=22" in after(words, "-numa")
    assert len(after(words, "-numa")) == 4 + 16
    words = domain.by_hand(spec("aarch64", "memory-hotplug"))
    assert after(words, "-m") == ["1024M,slots=4,maxmem=3072M"]
    assert after(words, "-bios") == ["/usr/share/qemu-efi-aarch64/QEMU_EFI.fd"]


def test_a_shape_with_room_for_memory_has_a_cell() -> None:
    shape = replace(guests.shape("smp2"), max_memory=1024, memory_slots=2)
    tree = ElementTree.fromstring(domain.render(replace(spec("x86_64", "smp2"), shape=shape)))
    (cell,) = tree.iter("cell")
    assert (cell.get("cpus"), cell.get("memory")) == ("0-1", "512")
    slots = tree.find("maxMemory")
    assert slots is not None
    assert (slots.text, slots.get("slots")) == ("1024", "2")


def test_what_libvirt_cannot_say_is_said_to_qemu() -> None:
    clusters = replace(guests.shape("smp8"), sockets=1, clusters=2, cores=4)
    given = replace(spec("aarch64", "smp8"), shape=clusters)
    (smp,) = after(domain.extra_arguments(given), "-smp")
    assert smp == "8,maxcpus=8,sockets=1,clusters=2,cores=4,threads=1"
    assert 'sockets="1" dies="1" cores="8" threads="1"' in domain.render(given)
    memoryless = domain.extra_arguments(spec("x86_64", "numa2-memless"))
    assert after(memoryless, "-numa") == ["node,nodeid=1,cpus=2-3"]
    assert not after(domain.extra_arguments(spec("x86_64", "numa2")), "-smp")


def test_distances_of_a_node_without_memory() -> None:
    shape = guests.shape("numa2-memless")
    cells = tuple(
        replace(cell, distances=row)
        for cell, row in zip(shape.numa, ((10, 30), (30, 10)), strict=True)
    )
    given = replace(spec("x86_64", "smp1"), shape=replace(shape, numa=cells))
    assert "dist,src=1,dst=0,val=30" in after(domain.extra_arguments(given), "-numa")
    assert "<distances>" not in domain.render(given)


def test_vcpus_that_come_later_are_held_back_where_qemu_cannot_add_them() -> None:
    arm, pc = spec("aarch64", "smp2of8"), spec("x86_64", "smp2of8")
    assert "maxcpus=2" in domain.kernel_arguments(arm)
    assert not [word for word in domain.kernel_arguments(pc) if word.startswith("maxcpus")]
    assert '<vcpu placement="static" current="8">8</vcpu>' in domain.render(arm)
    assert '<vcpu placement="static" current="2">8</vcpu>' in domain.render(pc)


def test_the_cpu_model() -> None:
    def model(architecture: str, shape: str, accelerator: str = "tcg") -> str:
        found = domain.cpu_model(spec(architecture, shape, accelerator))
        return ",".join(filter(None, (found.name, found.options)))

    assert model("x86_64", "smp2") == "max"
    assert model("x86_64", "smt") == "max,vendor=GenuineIntel,-monitor"
    assert model("x86_64", "smt", "kvm") == "host"
    own = replace(guests.shape("smt"), cpu={"x86_64": "qemu64,-svm"})
    given = replace(spec("x86_64", "smt"), shape=own)
    assert domain.cpu_model(given) == domain.CpuModel(name="qemu64", options="-svm")
    assert domain.extra_arguments(given)[:2] == ("-cpu", "qemu64,-svm")
    assert '<model fallback="forbid">qemu64</model>' in domain.render(given)


def test_a_disk_is_a_throw_away_overlay() -> None:
    given = replace(spec("x86_64", "smp1"), disk=Path("/run/overlay.qcow2"))
    disk = ElementTree.fromstring(domain.render(given)).find("devices/disk")
    assert disk is not None
    assert [each.get("file") for each in disk.iter("source")] == ["/run/overlay.qcow2"]
    assert [each.get("type") for each in disk.iter("driver")] == ["qcow2"]
    (drive,) = after(domain.by_hand(given), "-drive")
    assert drive.startswith("file=/run/overlay.qcow2,format=qcow2,")
    assert domain.kernel_arguments(given) == domain.kernel_arguments(spec("x86_64", "smp1"))


def test_options_of_the_machine_are_given_to_qemu_as_they_are() -> None:
    shape = replace(guests.shape("smp2"), machine={"aarch64": "its=off"})
    given = replace(spec("aarch64", "smp2"), shape=shape)
    assert after(domain.extra_arguments(given), "-machine") == ["its=off"]
    assert after(domain.by_hand(given), "-machine") == ["virt,gic-version=3,its=off"]
    elsewhere = replace(spec("x86_64", "smp2"), shape=shape)
    assert not after(domain.extra_arguments(elsewhere), "-machine")


# --------------------------------------------------------------------------- deterministic


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_nothing_in_a_deterministic_guest_differs_from_boot_to_boot(architecture: str) -> None:
    given = replace(spec(architecture, "smp1"), deterministic=True, network=False)
    check_golden(f"domain-{architecture}-smp1-deterministic.xml", domain.render(given))
    other = replace(given, name="other", uuid=str(uuid.UUID(int=8)))
    assert domain.extra_arguments(given) == domain.extra_arguments(other)
    words = domain.by_hand(given)
    assert words == domain.by_hand(other)
    assert "rng" not in " ".join(words)
    for option in ("-icount", "-rtc", "-seed", "-uuid"):
        assert words.count(option) == 1
    (arguments,) = after(words, "-append")
    assert "nokaslr norandmaps random.trust_cpu=off" in arguments


def test_a_deterministic_cpu_makes_no_random_numbers() -> None:
    def cpu(architecture: str, shape: str) -> domain.CpuModel:
        return domain.cpu_model(replace(spec(architecture, shape), deterministic=True))

    assert cpu("x86_64", "smp1").options == "-rdrand,-rdseed"
    assert cpu("x86_64", "smt").options.endswith("-monitor,-rdrand,-rdseed")
    assert cpu("aarch64", "smp1").name == "neoverse-n1"
    other = replace(spec("x86_64", "smp1"), deterministic=True)
    plain = replace(other.architecture, cpu={"tcg": "max"})  # a user's own, without the key
    assert domain.cpu_model(replace(other, architecture=plain)).name == "max"
