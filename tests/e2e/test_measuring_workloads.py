"""Workloads that measure, in real guests, over ssh and the console: each has all its numbers."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import TREE, Ktrial, rows

pytestmark = pytest.mark.e2e

LOOPS = {
    *("brk", "create", "epoll", "exec", "fault", "fork", "futex", "futex-switch", "mmap", "open"),
    *("pipe", "pipe-switch", "signal", "socket", "socket-switch", "stat", "syscall", "truncate"),
}
LOOPBACK = {f"{what}-{clients}" for what in ("rate", "latency", "worst") for clients in (1, 8)}


@pytest.mark.parametrize(("arch", "transport"), [("x86_64", "console"), ("arm64", "ssh")])
def test_programs_of_our_own_measure(ktrial: Ktrial, arch: str, transport: str) -> None:
    ran = ktrial(
        *("run", "--rev", "HEAD", "--tree", TREE, "--arch", arch, "--transport", transport),
        *("--guest", "smp2", "--workload", "micro:iterations=20"),
        *("--workload", "loopback:clients=1+8,transactions=5"),
        *("--workload", "mmap-writers:writers=2,loops=2"),
    )
    assert ran.exit_code == 0, ran.explain()
    found = {
        name: {row.metric: row for row in rows(ran) if row.source == name}
        for name in ("micro", "loopback", "mmap-writers")
    }
    assert set(found["micro"]) == LOOPS
    assert {row.unit for row in found["micro"].values()} == {"ns"}
    assert set(found["loopback"]) == LOOPBACK
    assert set(found["mmap-writers"]) == {"throughput", "loop", "loop.worst"}
    assert all(row.value > 0 for metrics in found.values() for row in metrics.values())


def test_netperf_of_trixie_over_loopback(ktrial: Ktrial) -> None:
    ran = ktrial(
        *("run", "--rev", "HEAD", "--tree", TREE, "--image", "netperf", "--transport", "console"),
        *("--guest", "smp2", "--workload", "netperf:sizes=64+4096,seconds=1"),
        *("--workload", "netperf-rr:clients=1+2,seconds=1"),
    )
    assert ran.exit_code == 0, ran.explain()
    streams = {row.metric: row.value for row in rows(ran) if row.source == "netperf"}
    assert set(streams) == {"send-64", "recv-64", "send-4096", "recv-4096"}
    # Bits of what was sent, not messages: larger ones carry more.
    assert streams["send-4096"] > streams["send-64"] > 0
    answers = {row.metric for row in rows(ran) if row.source == "netperf-rr"}
    assert answers == {f"{what}-{n}" for what in ("rate", "latency", "p99") for n in (1, 2)}
