"""Guests whose time is a count of instructions: the same numbers in every repetition. Pure.

QEMU's `-icount` lets a guest's clock advance by one nanosecond for each instruction, and skip what
it would sleep. All else that differs from run to run is taken away: entropy of the host's, the
date, addresses chosen at random, a network, what names the guest. QEMU's own `-seed` makes what it
gives a guest besides (a seed in the device tree, RNDR) the same too.

Such a guest is one interleaving of many. So each boot is perturbed by a seed of its own, and both
sides of a comparison by the same one.
"""

from __future__ import annotations

import random

ICOUNT = "shift=0,sleep=off"
SEED = "1"
# The firmware tables of a PC have it, and the kernel stirs them into its entropy.
UUID = "00000000-0000-0000-0000-000000000001"
EPOCH = 1767225600  # 2026-01-01 00:00:00 UTC
CPU = "deterministic"  # of the accelerator's models, behind its name

# On top of QEMU's: addresses are the same in each boot, and RDRAND credits nothing.
KERNEL = ("nokaslr", "norandmaps", "random.trust_cpu=off")

# A guest executes some five times as many instructions in a second of its own as TCG can.
SLOWER = 4.0

# From here on vCPUs share a budget of instructions (accel/tcg/tcg-accel-ops-rr.c). Before, one of
# them had it all: QEMU 7.2 hangs when the second CPU of a 5.10 kernel comes up.
MANY_VCPUS = (8, 1)

FILE = "/tmp/.ktrial-perturbation-"

BLIND = (
    "what this cannot see: caches, memory bandwidth, what instructions cost that are slower than "
    "others, and contention between CPUs that really run at once"
)


def arguments() -> tuple[str, ...]:
    """For QEMU, behind all others."""
    return ("-icount", ICOUNT, "-seed", SEED, "-uuid", UUID)


def clock() -> tuple[str, ...]:
    """The same for QEMU as the domain's <clock>."""
    return ("-rtc", "base=2026-01-01T00:00:00,clock=vm")


def newer_qemu(package: str) -> str:
    """How a Debian 12 gets a QEMU that can have several vCPUs count."""
    return (
        f"sudo apt-get install -t bookworm-backports {package} "
        "(with that suite among apt's sources), or Debian 13"
    )


def refusal(vcpus: int, qemu: tuple[int, ...] | None) -> str:
    """Why a guest of so many vCPUs cannot be deterministic here, and what to do; "" where it can.
    `qemu`: its version, None where nobody knows."""
    if vcpus <= 1 or qemu is None or qemu >= MANY_VCPUS:
        return ""
    return (
        f"deterministic guests of QEMU {'.'.join(map(str, qemu[:2]))} have one vCPU (with {vcpus} "
        "kernels hang in it): take guest smp1, or QEMU 8.1 or newer (`ktrial doctor` tells how)"
    )


def perturbed(seed: int) -> str:
    """Shell lines to be run before the workload; none for seed 0.

    A busy loop of up to a few ticks shifts the workload's start against the clock's interrupts;
    processes that come and go, and files that are made, written and removed, use up numbers and
    leave the allocators' lists in another order. Nothing stays that a workload could find.
    """
    if not seed:
        return ""
    dice = random.Random(seed)
    acts = [
        f"i=0; while [ $i -lt {dice.randrange(1, 4000)} ]; do i=$((i+1)); done",
        f"i=0; while [ $i -lt {dice.randrange(1, 8)} ]; do (:); i=$((i+1)); done",
        f"i=0; while [ $i -lt {dice.randrange(1, 32)} ]; do echo > {FILE}$i; i=$((i+1)); done",
    ]
    dice.shuffle(acts)
    return "\n".join([*acts, f"rm -f {FILE}*", ""])


def note(qemu: str, image: str) -> str:
    """What repeats a result exactly, and what it cannot tell. `image`: the digest of its bytes."""
    return (
        f"deterministic: guest time counts instructions (-icount {ICOUNT}); the same numbers come "
        f"from the same kernels with {qemu} and image {image}; {BLIND}"
    )
