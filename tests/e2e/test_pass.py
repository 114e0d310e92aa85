"""The first scenario passes on both architectures, and shows what the mail says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline import record
from tests.e2e.conftest import FAULTS, TREE, Ktrial, rows, values

pytestmark = pytest.mark.e2e


def test_num_present_cpus_on_x86_64(ktrial: Ktrial) -> None:
    ran = ktrial("run", "num_present_cpus", "--arch", "x86_64", "--scale", "small", "--boots", "1")
    assert ran.exit_code == 0, ran.explain()
    assert all(map(_passed, ran.junit.values())), ran.junit
    # Two present CPUs of eight: 8 possible, 1 online when the early caches are made, 2 present.
    found = {
        name: values(ran, name, "kmalloc-1k.order") for name in ("base", "prerequisite", "fix")
    }
    assert found == {"base": {3.0}, "prerequisite": {1.0}, "fix": {2.0}}
    assert values(ran, "base", "Slab", "during")
    assert values(ran, "fix", "Slab", "after-drop")
    assert {row.kernel for row in rows(ran) if row.source == "hackbench"} > set(found)
    assert ran.folder is not None
    assert (ran.folder.parent / "latest").resolve() == ran.folder.resolve()
    assert ran.out == (ran.folder / "summary.txt").read_text()
    assert "not judged" in ran.out
    text = (ran.folder / "result.json").read_text()
    assert record.load(text).ended, "what was written can be read again"
    _every_boot_can_be_followed(ran.folder)


def _passed(state: str) -> bool:
    """A trial of one boot has nothing to say."""
    return state == "passed" or state.startswith("skipped: inconclusive: ")


def _every_boot_can_be_followed(folder: Path) -> None:
    boots = list((folder / "cells").glob("*/*"))
    assert len(boots) == 5
    for boot in boots:
        for name in ("console.log", "domain.xml", "repeat.sh", "steps.sh"):
            assert (boot / name).stat().st_size > 0
        assert len(list((boot / "outputs").iterdir())) >= 5
        assert "Linux version 5.10" in (boot / "console.log").read_text(errors="replace")
    for build in ("x86_64.base", "x86_64.fix"):
        for name in ("config", "build.log", "build.sh", "bzImage"):
            assert (folder / "builds" / build / name).stat().st_size > 0


def test_num_present_cpus_on_arm64(ktrial: Ktrial) -> None:
    ran = ktrial("run", "num_present_cpus", "--arch", "arm64", "--scale", "small", "--boots", "1")
    assert ran.exit_code == 0, ran.explain()
    assert all(map(_passed, ran.junit.values())), ran.junit
    # arm64 sets present CPUs after kmem_cache_init(): early caches see one CPU either way.
    early = {
        name: values(ran, name, "kmalloc-1k.order") for name in ("base", "prerequisite", "fix")
    }
    assert early["prerequisite"] == early["fix"]
    assert early["base"] > set()
    assert min(early["base"]) > max(early["fix"])
    assert "aarch64" in ran.out


def test_a_tree_as_it_is(ktrial: Ktrial, tmp_path: Path) -> None:
    ran = ktrial(
        "run", "--rev", "HEAD", "--tree", TREE, "--workload", "hackbench:loops=20,groups=1"
    )
    assert ran.exit_code == 0, ran.explain()
    assert ran.cases("hackbench") == "passed"
    assert json.loads((ran.folder or tmp_path).joinpath("result.json").read_text())["schema"] == 1


def test_over_the_console_of_a_guest_without_a_network(ktrial: Ktrial) -> None:
    ran = ktrial(
        *("run", "--rev", "HEAD", "--tree", TREE, "--transport", "console"),
        *("--workload", "hackbench:loops=20,groups=1", "--guest", "smp1"),
    )
    assert ran.exit_code == 0, ran.explain()
    assert set(ran.junit.values()) == {"passed"}
    assert values(ran, "tree", "time", "workload")
    assert values(ran, "tree", "Slab", "after-drop")
    assert ran.folder is not None
    (domain,) = ran.folder.glob("cells/*/*/domain.xml")
    assert "virtio-net" not in domain.read_text()


def test_a_series_from_stdin(ktrial: Ktrial) -> None:
    """A patch that changes an answer of the kernel, but nothing that hackbench looks at."""
    mail = (FAULTS / "wrong-answer.patch").read_bytes()
    ran = ktrial("run", "-", "--tree", TREE, "--workload", "hackbench:loops=20", stdin=mail)
    assert ran.exit_code == 0, ran.explain()
    assert ran.cases("patched/hackbench") == "passed", ran.junit
