"""Probes on real kernels: what they count agrees with what was done, and with each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import Ktrial, Ran, rows, values

pytestmark = pytest.mark.e2e

TREE = "debian:6.12"
# Two groups of 20 senders and 20 receivers; each sender sends 20 messages to each of 20.
WORKLOAD = "hackbench:loops=20,groups=2"
TASKS = 2 * 40
MESSAGES = 2 * 20 * 20 * 20


def one(ran: Ran, metric: str) -> float:
    (value,) = values(ran, "tree", metric, "after")
    return value


def test_what_the_kernel_counts_anyway(ktrial: Ktrial) -> None:
    names = ("work-counters", "vmstat", "buddyinfo", "slabinfo", "boot-time")
    probes = [word for name in names for word in ("--probe", name)]
    ran = ktrial("run", "--rev", "HEAD", "--tree", TREE, "--workload", WORKLOAD, *probes)
    assert ran.exit_code == 0, ran.explain()
    assert TASKS < one(ran, "forks") < 2 * TASKS
    assert one(ran, "context-switches") > TASKS
    assert one(ran, "pages-allocated") == pytest.approx(
        sum(one(ran, f"pgalloc_{zone}.count") for zone in ("dma32", "normal", "movable")), rel=0.2
    )
    # Hackbench is over, but its caches keep slabs.
    assert 0 < one(ran, "total.pages") < 4000
    assert one(ran, "node0-DMA32.pages") < 4000
    assert 0 < next(iter(values(ran, "tree", "init", "after-boot"))) < 60


# One workload with all of them, so that they see the same boot.
SCENARIO = """\
title = "what slows the kernel"
tree = "{tree}"
guests = ["smp2"]
architectures = ["x86_64"]
image = "bench"
boots = 1

[[kernels]]
name = "tree"
role = "patched"

[[workloads]]
use = "hackbench"
parameters = {{ loops = 20, groups = 2 }}

[[workloads]]
use = "hackbench"
label = "counts"
parameters = {{ loops = 20, groups = 2 }}
counted = true
probes = ["slub-stats", "sched-counters", "func-latency", "perf-profile"]
"""


@pytest.mark.full
@pytest.mark.parametrize("tree", [TREE, "debian:5.10"])
def test_two_ways_to_count_agree(ktrial: Ktrial, tmp_path: Path, tree: str) -> None:
    """___slab_alloc() is where SLUB counts a slow allocation, __slab_free() a slow free."""
    (tmp_path / "counts").mkdir()
    (tmp_path / "counts/scenario.toml").write_text(SCENARIO.format(tree=tree))
    ran = ktrial("run", str(tmp_path / "counts"))
    assert ran.exit_code == 0, ran.explain()
    allocated = one(ran, "total.alloc_fastpath") + one(ran, "total.alloc_slowpath")
    assert allocated > 2 * MESSAGES  # a head and its data
    for function, event in (("___slab_alloc", "alloc_slowpath"), ("__slab_free", "free_slowpath")):
        assert one(ran, f"{function}.calls") == pytest.approx(one(ran, f"total.{event}"), rel=0.1)
        assert 0 < one(ran, f"{function}.mean") < one(ran, f"{function}.max")
    assert one(ran, "schedule-calls") > TASKS
    assert one(ran, "total.ticks") > 10
    sources = {row.workload: set[str]() for row in rows(ran)}
    for row in rows(ran):
        sources[row.workload].add(row.source)
    assert sources == {
        "hackbench": {"hackbench"},
        "counts": {"slub-stats", "sched-counters", "func-latency", "perf-profile"},
    }
