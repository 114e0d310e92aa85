"""The console classifier on one core: MB/s, beside a loop that only splits lines; its memory.

Aim: 30 MB/s on logs full of reports and on clean ones, and memory that does not grow on 1 GB.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from pipeline.console import Classifier
from tests import guests

ROOT = Path(__file__).parents[2]
BESIDE = next(iter(ROOT.parent.glob("*/cases/console-syzkaller")), Path("no-cases"))
CASES = Path(os.environ.get("KTRIAL_CONSOLE_CASES", BESIDE))
OWN = ROOT / "tests/unit/consoles"
BLOCK = 1 << 16
AIM = 30.0  # MB/s


def logs(folder: Path) -> list[bytes]:
    return [path.read_bytes() + b"\n" for path in sorted(folder.glob("*.log"))]


def clean_log() -> bytes:
    line = (
        b"[%12.6f] usb 1-%d: new high-speed USB device number %d using xhci_hcd\n"
        b"[%12.6f][ T%3d] EXT4-fs (vda%d): mounted filesystem with ordered data mode\n"
    )
    return b"".join(line % (n / 1000, n % 9, n, n / 1000, n % 999, n % 9) for n in range(100_000))


def restarted(corpus: list[bytes]) -> bytes:
    """A new boot before each log, so that nothing is a consequence of the log before it."""
    boot = b"[    2.0] reboot: Restarting system\n[    0.000000] Linux version 6.12.0 (a@b)\n"
    return b"".join(boot + each for each in corpus)


def blocks(data: bytes, total: int) -> Iterator[bytes]:
    for _ in range(max(1, total // len(data))):
        for at in range(0, len(data), BLOCK):
            yield data[at : at + BLOCK]


def speed(data: bytes, total: int = 30_000_000) -> float:
    """MB of console per second of this process."""
    pieces = list(blocks(data, total))
    begun = time.process_time()
    classify(pieces)
    return sum(map(len, pieces)) / (time.process_time() - begun) / 1e6


def classify(pieces: Iterable[bytes]) -> Classifier:
    classifier = Classifier(guests.FAMILIES)
    for piece in pieces:
        classifier.feed(piece)
    classifier.finish()
    return classifier


def plain_loop(data: bytes, total: int = 30_000_000) -> float:
    pieces = list(blocks(data, total))
    begun = time.process_time()
    for piece in pieces:
        for line in piece.split(b"\n"):
            if b"BUG" in line:
                pass
    return sum(map(len, pieces)) / (time.process_time() - begun) / 1e6


@pytest.mark.parametrize("name", ["cases", "own", "clean"])
def test_megabytes_a_second(name: str) -> None:
    folder = {"cases": CASES, "own": OWN}.get(name)
    if folder and not folder.exists():
        pytest.skip(f"{folder} is not there")
    data = b"".join(logs(folder)) if folder else clean_log()
    best, loop = max(speed(data) for _ in range(3)), plain_loop(data)
    print(f"\n{name}: {best:.1f} MB/s, {best / loop:.2f} of a loop over lines ({loop:.1f} MB/s)")
    if folder:
        each = speed(restarted(logs(folder)))
        print(f"{name}, every log a boot of its own: {each:.1f} MB/s")
    assert best >= AIM


def test_a_storm_of_warnings() -> None:
    data = (OWN / "warning-storm.log").read_bytes()
    rate = speed(data) * 1e6 / len(data) * data.count(b"\n")
    print(f"\nwarnings without end: {rate:.0f} lines a second")
    assert rate >= 100_000


def test_memory_on_a_gigabyte() -> None:
    quiet = clean_log()
    noisy = b"".join(logs(OWN))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    classify(piece for _ in range(1_000_000_000 // (len(quiet) + len(noisy)))
             for piece in (*blocks(quiet, 1), *blocks(noisy, 1)))  # fmt: skip
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"\n1 GB of console: {grown:.1f} MiB more memory")
    assert grown < 32
