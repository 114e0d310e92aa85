"""The reader of a guest's console under a storm: how far it falls behind 100,000 lines a second."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests import guests
from tests.simulated import simulated

LINES = 100_000  # a second
SECONDS = 5
STEPS = 100  # a second
STORM = (guests.SHARE.parent / "tests/unit/consoles/warning-storm.log").read_bytes()
PLAIN = b"[   12.345678] a driver: queue 3: transmit error 5, resetting the ring\r\n"


@pytest.mark.parametrize("name", ["storm", "plain"])
def test_a_hundred_thousand_lines_a_second(name: str, tmp_path: Path) -> None:
    """What is written in a second is read in that second."""
    text = STORM if name == "storm" else PLAIN
    per_step = LINES // STEPS
    block = (text * (per_step // text.count(b"\n") + 1)).split(b"\n")[:per_step]
    chunk = b"\n".join(block) + b"\n"
    made = simulated(tmp_path)
    guest = made.kernel.guest

    def write() -> None:
        with guest.console.open("ab", buffering=0) as console:
            begun = time.monotonic()
            for step in range(SECONDS * STEPS):
                console.write(chunk)
                time.sleep(max(0.0, begun + (step + 1) / STEPS - time.monotonic()))

    begun = time.monotonic()
    writer = threading.Thread(target=write)
    writer.start()
    writer.join()
    written = time.monotonic() - begun
    with guest.console.open("ab") as console:
        console.write(b"\nktrial: ready 1\n")
    limit = time.monotonic() + 60
    while guest.ready_at is None and time.monotonic() < limit:
        time.sleep(0.001)
    behind = time.monotonic() - begun - written
    made.machine.destroy()
    guest.finish()
    rate = LINES * SECONDS / written
    print(f"\n{name}: {rate:.0f} lines a second for {written:.1f} s, read {behind:.2f} s behind")
    assert behind < 1
