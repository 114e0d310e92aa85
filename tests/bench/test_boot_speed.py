"""From the start of the domain to the first command, against two peers, in the same run.

1. The bare QEMU command line, same kernel and initramfs, to the image's ready line: what
   libvirt, the console reader and ssh add. Aim: at most 1.25 times.
2. virtme-ng running one command on the same kernel and accelerator. Aim: at most 0.6 times.

The ratios are printed; they decide nothing.
"""

from __future__ import annotations

import os
import shlex
import shutil
import statistics
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import TREE, Ktrial, Ran

HERE = Path(__file__).resolve().parent / "share"

ROUNDS = 5


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A run of the real thing: its folder has all that a boot by hand needs."""
    ktrial = Ktrial(tmp_path_factory.mktemp("bench"))
    ran = ktrial(
        *("run", "--rev", "HEAD", "--tree", TREE, "--guest", "smp2", "--accel", "tcg"),
        *("--share", str(HERE), "--kconfig", "virtme", "--boots", str(ROUNDS)),
        *("--workload", "hackbench:loops=1,groups=1"),
    )
    assert ran.exit_code == 0, ran.explain()
    return ran


def ours(ran: Ran) -> list[float]:
    """Seconds from the domain's start to the end of the first command (/proc/meminfo)."""
    found = []
    for boot in ran.result["run"]["evidence"]["boots"]:
        first = boot["outputs"][0]
        found.append(first["started"] + first["seconds"] - boot["started"])
    return found


def bare(boot: Path) -> float:
    """Seconds from exec to the ready line of the same guest without libvirt."""
    words = shlex.split((boot / "repeat.sh").read_text().splitlines()[-1])[1:]
    started = time.monotonic()
    with subprocess.Popen(
        words, cwd=boot, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if b"ktrial: ready" in line:
                seconds = time.monotonic() - started
                process.kill()
                return seconds
    raise AssertionError("the guest was never ready")


def virtme(image: Path) -> float:
    """Seconds of a whole `vng`, which cannot be had without its end. Its exit status is not
    looked at: without udev it has no port for the script's own."""
    command = f"vng --verbose --run {image} --disable-kvm --disable-microvm --force-9p --cpus 2"
    started = time.monotonic()
    done = subprocess.run(
        ["script", "-qec", f"{command} --memory 512M -- uname -r", "/dev/null"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )
    seconds = time.monotonic() - started
    assert b"5.10" in done.stdout, done.stdout
    return seconds


def test_boot_speed(ran: Ran) -> None:
    assert ran.folder is not None
    boots = sorted((ran.folder / "cells").glob("*/*"))
    for boot in boots:
        subprocess.run(["sh", "-c", initrd_line(boot)], cwd=boot, check=True, env=os.environ)
    mine = ours(ran)
    peers = [bare(boot) for boot in boots]
    print(f"\nktrial, start to first command: {show(mine)}")
    print(f"bare QEMU, exec to ready line:  {show(peers)}")
    ratio = statistics.median(mine) / statistics.median(peers)
    print(f"ktrial / bare QEMU: {ratio:.2f} (aim: at most 1.25)")
    if shutil.which("vng") is None:
        pytest.skip("virtme-ng is not installed")
    image = ran.folder / "builds" / "x86_64.tree" / "bzImage"
    others = [virtme(image) for _ in boots]
    print(f"virtme-ng, one command:         {show(others)}")
    ratio = statistics.median(mine) / statistics.median(others)
    print(f"ktrial / virtme-ng: {ratio:.2f} (aim: at most 0.6)")


def initrd_line(boot: Path) -> str:
    lines = (boot / "repeat.sh").read_text().splitlines()
    return next(line for line in lines if line.startswith("cat "))


def show(seconds: list[float]) -> str:
    median = statistics.median(seconds)
    return f"median {median:.2f} s of {', '.join(f'{each:.2f}' for each in seconds)}"
