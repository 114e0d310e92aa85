"""Domain XML: golden files, and that libvirt takes what is rendered."""

from __future__ import annotations

import uuid
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


def test_names_are_escaped() -> None:
    given = replace(spec("x86_64", "smp1"), kernel=Path('/a&b/<"k">'))
    tree = ElementTree.fromstring(domain.render(given))
    assert tree.findtext("os/kernel") == '/a&b/<"k">'


def test_the_command_by_hand_is_the_same_machine() -> None:
    given = spec("aarch64", "smp8")
    words = domain.by_hand(given)
    for part in (
        "virt,gic-version=3",
        "cortex-a57",
        "8,maxcpus=8",
        "1024M",
        " ".join(domain.kernel_arguments(given)),
        domain.extra_arguments(given)[1],
    ):
        assert part in words
