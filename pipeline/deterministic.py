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


def refusal(vcpus: int, qemu: tuple[int, ...] | None) -> str:
    """Why a guest of so many vCPUs cannot be deterministic here, and what to do; "" where it can.
    `qemu`: its version, None where nobody knows."""
    if vcpus <= 1 or qemu is None or qemu >= MANY_VCPUS:
        return ""
    return (
        f"deterministic guests of QEMU {'.'.join(map(str, qemu[:2]))} have one vCPU (with {vcpus} "
        "kernels hang in it): take smp1, or QEMU 8.1 or newer (bookworm-backports has one)"
    )


def perturbed(seed: int) -> str:
    """Shell lines to be run before the workload; none for seed 0."""
    if not seed:
        return ""
    dice = random.Random(seed)
    turns = dice.randrange(1, 4000)
    return f"i=0; while [ $i -lt {turns} ]; do i=$((i+1)); done\n"


def note(qemu: str, image: str) -> str:
    """What repeats a result exactly, and what it cannot tell. `image`: the digest of its bytes."""
    return (
        f"deterministic: guest time counts instructions (-icount {ICOUNT}); the same numbers come "
        f"from the same kernels with {qemu} and image {image}; {BLIND}"
    )
