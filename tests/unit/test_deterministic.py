"""Guests whose time counts instructions: what they are made of."""

from __future__ import annotations

import pytest

from pipeline import deterministic, shapes, workload
from pipeline.model import Phase, ProbeSpec
from tests import guests
from tests.unit.test_workload import hackbench


@pytest.mark.parametrize(
    ("vcpus", "qemu", "refused"),
    [
        (1, (7, 2), False),
        (2, (7, 2), True),
        (64, (8, 0), True),
        (2, (8, 1), False),
        (2, (10, 0), False),
        (2, None, False),  # nobody has asked yet
    ],
)
def test_several_vcpus_need_a_newer_qemu(
    vcpus: int, qemu: tuple[int, ...] | None, refused: bool
) -> None:
    why = deterministic.refusal(vcpus, qemu)
    assert bool(why) is refused
    assert ("smp1" in why and "8.1" in why) is refused


@pytest.mark.parametrize(
    ("architecture", "shape", "counts", "refused"),
    [
        ("x86_64", "smp1", True, False),
        ("x86_64", "smp2", True, True),
        ("x86_64", "smp2", False, False),
        # all of them are there from the start, whatever the kernel uses
        ("aarch64", "smp2of8", True, True),
    ],
)
def test_a_shape_is_refused(architecture: str, shape: str, counts: bool, refused: bool) -> None:
    why = shapes.refusal(
        guests.shape(shape),
        guests.architecture(architecture),
        host_memory=1 << 20,
        accelerator="tcg",
        qemu=(7, 2),
        firmware_there=True,
        counts=counts,
    )
    assert why.startswith("deterministic guests of QEMU 7.2 have one vCPU") is refused
    assert bool(why) is refused


def test_a_seed_is_the_same_perturbation_every_time() -> None:
    found = [deterministic.perturbed(seed) for seed in range(20)]
    assert found == [deterministic.perturbed(seed) for seed in range(20)]
    assert found[0] == ""
    assert len(set(found)) == 20


def probe(phase: Phase) -> ProbeSpec:
    return ProbeSpec(
        name=phase.value,
        description="",
        command="true",
        phases=(phase,),
        needs=(),
        kconfigs=(),
        deadline=5.0,
        readings=(),
    )


def test_a_boot_is_perturbed_before_its_numbers_are_read() -> None:
    probes = (probe(Phase.AFTER_BOOT), probe(Phase.BEFORE))
    sources = [step.source for step in workload.steps(hackbench(), probes, seed=3)]
    assert sources == ["shape", "after-boot", workload.PERTURBATION, "before", "hackbench"]
    plain = [step.source for step in workload.steps(hackbench(), probes, seed=0)]
    assert plain == ["shape", "after-boot", "before", "hackbench"]


def test_the_note_names_what_repeats_a_result() -> None:
    note = deterministic.note("QEMU emulator version 7.2.22", "bench 0123")
    assert "7.2.22" in note
    assert "bench 0123" in note
    assert "caches" in note
