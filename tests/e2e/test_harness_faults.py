"""What befalls the harness or the host is never charged to a patch, and leaves nothing behind.

More of these: a QEMU that is killed (`test_failures`), Ctrl-C, SIGTERM and kill -9
(`test_interrupts`), and without a kernel `tests/integration/test_harness_faults.py`.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import HERE, Ktrial, Ran

pytestmark = pytest.mark.e2e

TREE = "debian:6.12"
BOOT = ("--rev", "HEAD", "--tree", TREE, "--workload", "none", "--guest", "smp2")
# The rest of a run in a mount namespace in which one folder is a small disk.
SMALL = 'mount -t tmpfs -o size="$1" small "$2" && shift 2 && exec "$@"'


def may_mount() -> bool:
    return subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0


class OnSmallDisk(Ktrial):
    """The command with `where` (results or runtime) on a disk of `size`."""

    where, size = "results", "4k"

    def command(self, *arguments: str) -> list[str]:
        place = self.results.parent if self.where == "results" else self.runtime
        place.mkdir(parents=True, exist_ok=True)
        small = ["unshare", "--mount", "sh", "-c", SMALL, "sh", self.size, str(place)]
        return small + super().command(*arguments)


@pytest.fixture
def small(ktrial: Ktrial, tmp_path: Path) -> OnSmallDisk:
    if not may_mount():
        pytest.skip("no mount namespaces here")
    made = OnSmallDisk(tmp_path)
    made.results = tmp_path / "small" / "results"
    made.runtime = ktrial.runtime
    return made


def nobody_is_charged(ran: Ran) -> None:
    assert ran.exit_code == 3, ran.explain()
    assert "FAILED" not in ran.out, ran.explain()
    assert "verdict: bad" not in ran.out, ran.explain()
    assert "verdict: good" not in ran.out, ran.explain()


# The run's folder, its reports, the configuration, the kernel, the initramfs.
@pytest.mark.parametrize("size", ["4k", "16k", "200k", "3m", "9m"])
def test_the_results_disk_is_full(small: OnSmallDisk, size: str) -> None:
    small.where, small.size = "results", size
    nobody_is_charged(small("run", *BOOT))


@pytest.mark.parametrize("room", [24, 40, 64])
def test_the_disk_is_full_in_the_middle_of_the_console(
    ktrial: Ktrial, small: OnSmallDisk, room: int
) -> None:
    """A kernel that could not be heard is neither silent nor good. `room`: KiB behind what was
    written before the guest was started."""
    whole = ktrial("run", *BOOT)
    assert whole.folder is not None, whole.explain()
    before = [*whole.folder.glob("builds/**/*"), *whole.folder.glob("guest/*")]
    pages = sum(-(-path.stat().st_size // 4096) for path in before if path.is_file())
    small.where, small.size = "results", f"{4 * pages + room}k"
    nobody_is_charged(small("run", *BOOT))


@pytest.mark.parametrize("size", ["16k", "100k", "1m", "5m"])
def test_the_runtime_disk_is_full(small: OnSmallDisk, size: str) -> None:
    small.where, small.size = "runtime", size
    nobody_is_charged(small("run", *BOOT))


def test_the_cache_disk_is_full(small: OnSmallDisk, tmp_path: Path) -> None:
    """A cache that is empty and small: said before anything is begun."""
    small.where, small.size = "results", "64m"
    cache = tmp_path / "small" / "cache"
    ran = small("run", *BOOT, "--cache", str(cache))
    nobody_is_charged(ran)


def test_the_guests_clock_jumps(ktrial: Ktrial) -> None:
    """Twenty years back in the middle of a workload: no deadline is the guest's."""
    own = ("--share", str(HERE / "share"), "--workload", "clock-jump")
    ran = ktrial("run", "--rev", "HEAD", "--tree", TREE, *own, "--guest", "smp2")
    assert ran.exit_code == 0, ran.explain()
    assert ran.cases("tree/clock-jump") == "passed"


def test_nothing_is_left_of_a_full_disk(small: OnSmallDisk) -> None:
    small.where, small.size = "runtime", "1m"
    nobody_is_charged(small("run", *BOOT))
    assert not small.qemus()
    assert not list(small.runtime.iterdir())
