"""Guest shapes: sound files, and what a host or an architecture cannot give."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import shapes
from pipeline.model import GuestShape, NumaCell
from pipeline.shapes import format_list, parse_list
from tests import guests

SHIPPED = sorted(path.stem for path in (guests.SHARE / "guests").glob("*.toml"))
LIBRARY = (
    "smp1 smp2 smp4 smp8 smp2of8 smp16of64 smp64 smt numa2 numa2-memless numa4-distances "
    "small-memory hugemem memory-hotplug"
)


def shape(**changes: object) -> GuestShape:
    return replace(guests.shape("smp4"), **changes)  # type: ignore[arg-type]


def cells(*given: tuple[str, int]) -> tuple[NumaCell, ...]:
    return tuple(NumaCell(cpus=cpus, memory=memory) for cpus, memory in given)


def test_the_library() -> None:
    assert set(LIBRARY.split()) <= set(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_shipped_is_sound(name: str) -> None:
    assert shapes.check(guests.shape(name)) == ()


@given(st.frozensets(st.integers(0, 200)))
def test_lists_there_and_back(numbers: frozenset[int]) -> None:
    assert parse_list(format_list(numbers)) == numbers


def test_lists() -> None:
    assert parse_list("0-3,8\n") == {0, 1, 2, 3, 8}
    assert parse_list("") == frozenset()
    assert format_list([8, 0, 1, 2]) == "0-2,8"
    for bad in ("a", "3-1", "1-", "-"):
        with pytest.raises(ValueError, match=r"."):
            parse_list(bad)


def test_levels_that_are_not_given() -> None:
    plain = shapes.topology(shape(sockets=0, cores=0))
    assert (plain.sockets, plain.cores, plain.threads) == (4, 1, 1)
    threads = shapes.topology(shape(sockets=0, cores=0, threads=2))
    assert (threads.sockets, threads.threads, threads.vcpus) == (2, 2, 4)


TWO = cells(("0-1", 512), ("2-3", 512))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"vcpus": 5}, "vcpus = 5 is not between 1 and max_vcpus = 4"),
        ({"sockets": 3}, "is 3 × 1 × 1 × 4 × 1 = 12, not max_vcpus = 4"),
        ({"cores": 0, "threads": 3, "sockets": 0}, "= 3, not max_vcpus = 4"),
        ({"threads": -1}, "threads = -1 is negative"),
        ({"max_memory": 1024, "memory_slots": 2}, "max_memory = 1024 leaves nothing to add"),
        ({"max_memory": 2048}, "max_memory and memory_slots only make sense together"),
        ({"max_memory": 2048, "memory_slots": -1}, "memory_slots = -1 is negative"),
        ({"memory_slots": 1}, "max_memory and memory_slots only make sense together"),
        ({"numa": cells(("0-1", 512), ("1-3", 512))}, "CPUs are 0-1,1-3, not each of 0-3 once"),
        ({"numa": cells(("0-1", 512), ("3", 512))}, "CPUs are 0-1,3, not each of 0-3 once"),
        ({"numa": cells(("x", 512), ("3", 512))}, "not a list of CPUs"),
        ({"numa": cells(("0-1", 512), ("2-3", 256))}, "cells have 768 MiB, not memory = 1024"),
        ({"numa": cells(("0-1", 0), ("2-3", 1024))}, "without memory have to be the last"),
        ({"numa": cells(("1-3", 1024), ("0", 0))}, "without memory have to be the last"),
        ({"numa": cells(("0-3", 1024), ("", 0))}, "a cell has neither CPUs nor memory"),
        (
            {"numa": cells(("0-1", 1024), ("2-3", 0)), "vcpus": 2},
            "neither vCPUs nor memory can be added",
        ),
        ({"numa": (replace(TWO[0], distances=(10,)), TWO[1])}, "1 distances for 2 cells"),
        ({"numa": (replace(TWO[0], distances=(11, 20)), TWO[1])}, "to itself is 11, not 10"),
        ({"numa": (replace(TWO[0], distances=(10, 9)), TWO[1])}, "distance 9 between two cells"),
        ({"numa": (replace(TWO[0], distances=(10, 30)), TWO[1])}, "are 30 apart one way"),
    ],
)
def test_shapes_that_do_not_fit_together(changes: dict[str, object], words: str) -> None:
    found = shapes.check(shape(**changes))
    assert any(words in each for each in found), found


def refusal(
    given: GuestShape,
    architecture: str = "x86_64",
    *,
    memory: int = 4096,
    qemu: tuple[int, ...] | None = (7, 2, 22),
    firmware: bool = True,
) -> str:
    return shapes.refusal(
        given,
        guests.architecture(architecture),
        host_memory=memory,
        accelerator="tcg",
        qemu=qemu,
        firmware_there=firmware,
    )


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_a_big_host_gives_all_that_is_shipped(name: str, architecture: str) -> None:
    assert refusal(guests.shape(name), architecture, memory=1 << 16) == ""


def test_more_memory_than_the_host_has() -> None:
    words = refusal(guests.shape("hugemem"))
    assert "16592 MiB" in words
    assert "4096 MiB" in words
    assert refusal(guests.shape("memory-hotplug"), memory=3300) == ""
    assert refusal(guests.shape("memory-hotplug"), memory=3100), "what can be added counts"


def test_levels_that_a_machine_does_not_know() -> None:
    clusters = shape(sockets=1, clusters=2, cores=2)
    assert "knows no clusters" in refusal(clusters)
    assert refusal(clusters, "aarch64") == ""
    assert "need QEMU 7.0" in refusal(clusters, "aarch64", qemu=(6, 2))
    assert refusal(clusters, "aarch64", qemu=None) == ""
    dies = shape(sockets=1, dies=2, cores=2)
    assert "knows no dies" in refusal(dies, "aarch64")
    assert refusal(dies) == ""


def test_memory_that_is_added_needs_acpi() -> None:
    growing = guests.shape("memory-hotplug")
    assert "apt-get install qemu-efi-aarch64" in refusal(growing, "aarch64", firmware=False)
    assert refusal(growing, firmware=False) == "", "a PC has ACPI without it"
    assert "ACPI" in refusal(replace(growing, firmware=()), "aarch64")


def test_shapes_for_one_architecture() -> None:
    assert "for x86_64 alone" in refusal(shape(architectures=("x86_64",)), "aarch64")
    assert refusal(shape(architectures=("x86_64",))) == ""
    assert "255" in refusal(shape(vcpus=1, max_vcpus=256, cores=256), memory=1 << 16)


def test_overhead_is_smaller_where_nothing_is_translated() -> None:
    big, pc = guests.shape("smp64"), guests.architecture()
    assert shapes.overhead(big, pc, "kvm") < shapes.overhead(big, pc, "tcg")
    assert shapes.overhead(big, pc) == shapes.overhead(big, pc, "tcg")
    assert shapes.needed_memory(big, pc) == 2048 + shapes.overhead(big, pc)


def test_notes() -> None:
    arm, pc = guests.architecture("aarch64"), guests.architecture()
    (note,) = shapes.notes(guests.shape("smp2of8"), arm)
    assert "maxcpus=2" in note
    assert shapes.notes(guests.shape("smp2of8"), pc) == ()
    assert shapes.notes(guests.shape("smp8"), arm) == ()
    assert "firmware" in shapes.notes(guests.shape("memory-hotplug"), arm)[0]
    assert "qemu64" in shapes.notes(shape(cpu={"x86_64": "qemu64"}), pc)[0]
