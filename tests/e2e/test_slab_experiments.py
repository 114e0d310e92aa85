"""The experiments with SLUB: the orders of caches, CPUs that come later, and where slabs are put.

Orders are exact. Times and memory are whatever the host makes of them.
"""

from __future__ import annotations

import pytest

from tests.e2e.conftest import Ktrial, Ran, rows, values

pytestmark = pytest.mark.e2e

ORDERS = ("--workload", "none", "--boots", "1")
EARLY = ("kmalloc-256", "kmalloc-512", "kmalloc-1k", "kmalloc-2k")  # made by kmem_cache_init()


def orders(ran: Ran, kernel: str, configuration: str = "") -> dict[str, float]:
    """Cache -> its order in a kernel, the same in all its boots."""
    found: dict[str, set[float]] = {}
    for row in rows(ran):
        cache, _, what = row.metric.rpartition(".")
        mine = (row.kernel, row.configuration) == (kernel, configuration)
        if mine and row.source == "slab-orders" and what == "order":
            found.setdefault(cache, set()).add(row.value)
    assert all(len(each) == 1 for each in found.values()), found
    return {cache: next(iter(each)) for cache, each in found.items()}


def early(ran: Ran, kernel: str, configuration: str = "") -> list[float]:
    found = orders(ran, kernel, configuration)
    return [found[cache] for cache in EARLY]


def counts(ran: Ran, kernel: str, metric: str) -> list[float]:
    """By how much a count of SLUB grew, boot by boot."""
    found = [row for row in rows(ran) if (row.kernel, row.metric) == (kernel, metric)]
    return [row.value for row in sorted(found, key=lambda row: row.boot) if row.phase == "after"]


def test_present_online_and_possible_cpus_give_three_orders(ktrial: Ktrial) -> None:
    """Two of eight CPUs: 8 possible, 2 present, 1 online while kmalloc's caches are made."""
    ran = ktrial("run", "num_present_cpus", *ORDERS)
    assert ran.exit_code == 0, ran.explain()
    assert early(ran, "base") == [1, 2, 3, 3]  # 20 objects
    assert early(ran, "prerequisite") == [0, 0, 1, 2]  # 8
    assert early(ran, "fix") == [0, 1, 2, 3]  # 12
    assert early(ran, "min-objects-36") == [2, 3, 3, 3]  # 36; no more than order 3
    assert orders(ran, "revert") == orders(ran, "base")


def test_612_counts_present_cpus_already(ktrial: Ktrial) -> None:
    ran = ktrial("run", "num_present_cpus", "--tree", "debian:6.12", *ORDERS)
    assert ran.exit_code == 0, ran.explain()
    assert orders(ran, "fix") == orders(ran, "base")
    assert early(ran, "prerequisite") < early(ran, "fix") < early(ran, "revert")


def test_arm64_has_one_present_cpu_while_early_caches_are_made(ktrial: Ktrial) -> None:
    """... so that the fix changes nothing for them."""
    ran = ktrial("run", "num_present_cpus", "--arch", "aarch64", *ORDERS)
    assert ran.exit_code == 0, ran.explain()
    assert early(ran, "fix") == early(ran, "prerequisite")
    assert early(ran, "fix") < early(ran, "min-objects-36")
    assert early(ran, "fix") < early(ran, "base")
    assert orders(ran, "revert") == orders(ran, "base")


def test_one_kernel_in_two_guests_one_of_which_gets_more_cpus(ktrial: Ktrial) -> None:
    ran = ktrial("run", "hotplug_slab", "--scale", "small")
    assert ran.exit_code == 0, ran.explain()
    assert values(ran, "hot-48", "Slab", "after-events")
    assert not values(ran, "boot-64", "Slab", "after-events")
    # 16 CPUs at boot want less than 64.
    (few,), (many,) = (values(ran, name, "Slab", "after-boot") for name in ("hot-48", "boot-64"))
    assert few < many
    for phase in ("during", "after-drop"):
        assert values(ran, "hot-48", "Slab", phase)
        assert values(ran, "boot-64", "Slab", phase)


@pytest.mark.parametrize("tree", ["debian:5.10", "debian:6.12"])
def test_slabs_that_the_statistics_passed_over_are_counted(ktrial: Ktrial, tree: str) -> None:
    """With the mail's patch whatever CPUs hand to their node is counted as put at the tail."""
    ran = ktrial("run", "slub_partial_tail", "--tree", tree, "--scale", "small")
    assert ran.exit_code == 0, ran.explain()
    for kernel in ("original", "half", "quarter", "tail"):
        tail = counts(ran, kernel, "total.deactivate_to_tail")
        handed = counts(ran, kernel, "total.free_add_partial")
        assert len(tail) == len(handed) == 3  # boots: what is counted has its own number
        assert min(handed) > 0
        assert all(every >= by_cpu for every, by_cpu in zip(tail, handed, strict=True))
        assert values(ran, kernel, "rate-16", "workload")
        assert values(ran, kernel, "time", "workload")


@pytest.mark.full
@pytest.mark.parametrize("configuration", ["4k", "64k"])
def test_pages_of_arm64(ktrial: Ktrial, configuration: str) -> None:
    fragments = {"4k": "", "64k": "arm64-64k"}[configuration]
    ran = ktrial(
        *("run", "num_present_cpus", "--arch", "aarch64", *ORDERS),
        *("--configuration", f"{configuration}={fragments}"),
    )
    assert ran.exit_code == 0, ran.explain()
    assert early(ran, "fix", configuration) == early(ran, "prerequisite", configuration)


@pytest.mark.full
@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
@pytest.mark.parametrize("name", ["num_present_cpus", "slub_partial_tail"])
def test_a_whole_experiment_runs(ktrial: Ktrial, name: str, arch: str) -> None:
    ran = ktrial("run", name, "--arch", arch, "--boots", "2")
    assert ran.exit_code == 0, ran.explain()
