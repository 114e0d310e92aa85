"""KUnit in a real kernel: each of its tests is a case.

`-m full`: the first time it builds a kernel for it, which takes some minutes.
"""

from __future__ import annotations

import pytest

from tests.e2e.conftest import Ktrial

pytestmark = [pytest.mark.e2e, pytest.mark.full]

TREE = "debian:6.12"


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_kunit_in_a_real_kernel(ktrial: Ktrial, architecture: str) -> None:
    ran = ktrial(
        *("run", "--rev", "HEAD", "--tree", TREE, "--arch", architecture),
        *("--workload", "kunit:filter=list*"),
    )
    assert ran.exit_code == 0, ran.explain()
    cell = f"tree.{architecture}.smp2.kunit.tree"
    tests = {
        name.removeprefix(f"{cell}."): state
        for name, state in ran.junit.items()
        if name.startswith(f"{cell}.")
    }
    # 6.12 has 39 tests in the first of the three suites of lib/list-test.c.
    assert len([name for name in tests if name.startswith("list-kunit-test/")]) > 30
    assert tests["list-kunit-test/list_test_list_add"] == "passed"
    assert set(tests.values()) == {"passed"}, tests
    assert not [name for name in tests if "hash" in name], "the others were filtered out"
