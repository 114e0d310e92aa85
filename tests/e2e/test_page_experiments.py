"""The experiments with vmalloc's nodes and with per-CPU pages: what they find in real kernels.

Times are no business of these tests: they are whatever the host makes of them.
"""

from __future__ import annotations

import pytest

from tests.e2e.conftest import HERE, Ktrial, Ran, rows

pytestmark = pytest.mark.e2e

SHARE = ("--share", str(HERE / "share"))


def numbers(ran: Ran, kernel: str, label: str) -> list[float]:
    """Of how many nodes a workload told, boot by boot."""
    return [
        row.value
        for row in rows(ran)
        if (row.kernel, row.source, row.metric) == (kernel, label, "nr_vmap_nodes")
    ]


def test_vmalloc_has_as_many_nodes_as_cpus_and_128_at_most(ktrial: Ktrial) -> None:
    """… in the whole experiment, small: what its times come to is the host's business."""
    ran = ktrial("run", "nr_vmap_nodes", "--scale", "small")
    wrong = {name: state for name, state in ran.junit.items() if state != "passed"}
    assert all("/trial " in name for name in wrong), wrong
    assert {"trial nodes", "trial lock-slow-path"} <= {
        name.rpartition("/")[2] for name in ran.junit
    }
    shares = [row.value for row in rows(ran) if row.metric == "lock-slowpath.share"]
    assert len(shares) == 9  # three kernels, three boots each
    assert all(0 <= share < 100 for share in shares)
    for label, count in (("nodes", 4), ("nodes-one-cpu", 1), ("nodes-beyond-128", 128)):
        assert numbers(ran, "nodes", label) == [count]
        assert numbers(ran, "one-node", label) == [1]


def test_other_numbers_of_nodes_are_failures(ktrial: Ktrial) -> None:
    ran = ktrial("run", "vmap-nodes", *SHARE)
    assert ran.exit_code == 1, ran.explain()
    wrong = {name: state for name, state in ran.junit.items() if state != "passed"}
    assert all(".endless/" in name and name.endswith("/nodes") for name in wrong), wrong
    told = {state.rpartition(": ")[2].partition(",")[0] for state in wrong.values()}
    assert told == {"2", "144"}, wrong
    assert numbers(ran, "endless", "nodes") == [], "what failed has no numbers"


def test_the_sysctl_starts_as_configured_and_refuses_bad_values(ktrial: Ktrial) -> None:
    """… and a kernel without it has nothing to say."""
    ran = ktrial("run", "pcp_batch_scale_max", "--scale", "sysctl")
    assert ran.exit_code == 0, ran.explain()
    for kernel, state in (("sysctl-5", "passed"), ("sysctl-0", "passed"), ("scale-5", "skipped")):
        tests = {
            name.rpartition("/")[2]: found
            for name, found in ran.junit.items()
            if f".{kernel}/" in name and ("takes" in name or "refuses" in name or "value" in name)
        }
        assert len(tests) == 8, (kernel, ran.junit)
        assert all(found.startswith(state) for found in tests.values()), tests


@pytest.mark.full
@pytest.mark.parametrize("name", ["pcp_batch_scale_max", "pcp_high_order"])
def test_a_whole_experiment_runs(ktrial: Ktrial, name: str) -> None:
    ran = ktrial("run", name, "--scale", "small")
    assert ran.exit_code == 0, ran.explain()
