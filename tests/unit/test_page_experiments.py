"""The scenarios nr_vmap_nodes, pcp_batch_scale_max and pcp_high_order, as far as files tell."""

from __future__ import annotations

import re

import pytest

from pipeline import scenariofile, settings

PATCHES = settings.shipped_root() / "patches"
OURS = "From: ktrial <ktrial@example.org>"
NAMES = ("nr_vmap_nodes", "pcp_batch_scale_max", "pcp_high_order")


@pytest.mark.parametrize("name", NAMES)
def test_what_a_mail_does_not_contain_is_ours_and_says_which_mail_it_follows(name: str) -> None:
    paths = sorted((PATCHES / name).glob("*.patch"))
    assert paths
    for path in paths:
        text = path.read_text(encoding="utf-8")
        if OURS in text:
            assert "\nLink: https://lore.kernel.org/" in text, path
            assert "Signed-off-by" not in text, path
        else:
            author = re.search(r'^From: "?(.*?)"? (<.*>)$', text, re.M)
            assert author, path
            assert f"Signed-off-by: {author[1]} {author[2]}\n" in text, path


@pytest.mark.parametrize(
    ("name", "size", "labels"),
    [
        ("nr_vmap_nodes", "edges", {"nodes", "nodes-one-cpu", "nodes-beyond-128"}),
        ("pcp_batch_scale_max", "sysctl", {"sysctl"}),
    ],
)
def test_the_functional_cases_alone_are_a_size_of_their_own(
    name: str, size: str, labels: set[str]
) -> None:
    """… in which no cell is left in or out for a workload that is not there."""
    found = scenariofile.scaled(scenariofile.load(PATCHES / name), size)
    assert {each.called for each in found.workloads} == labels
    assert found.include
    assert {each.workload for each in (*found.include, *found.exclude)} <= {*labels, ""}


@pytest.mark.parametrize("name", NAMES)
def test_each_has_the_sizes_of_the_mail_and_of_ci(name: str) -> None:
    found = scenariofile.load(PATCHES / name)
    assert {"mail", "small"} <= {each.name for each in found.scales}
    for each in found.scales:
        assert scenariofile.scaled(found, each.name).workloads
