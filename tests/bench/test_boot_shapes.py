"""Guests with NUMA cells and with room to grow, on both architectures, to the ready line: what
ktrial takes, against the bare QEMU command line with the same kernel and initramfs.

Aim: at most 1.25 times, for each. The ratios are printed; they decide nothing.
"""

from __future__ import annotations

import os
import statistics
import subprocess
from pathlib import Path

import pytest

from tests.bench.test_boot_speed import bare, initrd_line, show
from tests.e2e.conftest import TREE, Ktrial

ROUNDS = 5
SHAPES = {
    "x86_64": ("smp1", "smp2", "smp2of8", "numa2", "memory-hotplug"),
    "aarch64": ("smp1", "smp2", "smp2of8", "numa2"),
}


@pytest.mark.parametrize("architecture", SHAPES)
def test_boot_of_shapes(architecture: str, ktrial: Ktrial) -> None:
    """In rounds: what else the host does falls on both alike."""
    guests = [word for name in SHAPES[architecture] for word in ("--guest", name)]
    mine: dict[str, list[float]] = {name: [] for name in SHAPES[architecture]}
    peers: dict[str, list[float]] = {name: [] for name in SHAPES[architecture]}
    for _ in range(ROUNDS):
        ran = ktrial(
            *("run", "--rev", "HEAD", "--tree", TREE, "--arch", architecture, "--accel", "tcg"),
            *("--workload", "none", "--boots", "1", "--exclusive", "always", *guests),
        )
        assert ran.exit_code == 0, ran.explain()
        assert ran.folder is not None
        for boot in ran.result["run"]["evidence"]["boots"]:
            shape = boot["boot"]["cell"]["guest"]
            mine[shape].append(boot["ready"] - boot["started"])
            (folder,) = (ran.folder / "cells").glob(f"*.{shape}.*/*")
            peers[shape].append(_bare(folder))
    print(f"\n{architecture}: seconds to the ready line (aim: ratios of at most 1.25)")
    for shape, seconds in mine.items():
        assert len(seconds) == ROUNDS
        ratio = statistics.median(seconds) / statistics.median(peers[shape])
        print(f"  {shape}: {ratio:.2f}; ktrial {show(seconds)}; bare QEMU {show(peers[shape])}")


def _bare(boot: Path) -> float:
    subprocess.run(["sh", "-c", initrd_line(boot)], cwd=boot, check=True, env=os.environ)
    return bare(boot)
