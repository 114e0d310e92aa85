"""Each kind of fault on real kernels: who is charged, with what words, and how soon.

The whole suite takes half an hour and is run by hand, one fault after the other:
`pytest -m full tests/e2e/test_faults.py -s`. What it prints is the table of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e import faultsuite
from tests.e2e.conftest import FAULTS, Ktrial
from tests.e2e.faultsuite import Fault, Row

pytestmark = pytest.mark.e2e

ALL = [
    pytest.param(
        fault,
        architecture,
        id=f"{fault.name}-{architecture}",
        marks=() if fault.quick and architecture == "x86_64" else pytest.mark.full,
    )
    for architecture in faultsuite.ARCHITECTURES
    for fault in faultsuite.table()
    if architecture in fault.on
]


@pytest.fixture(scope="module")
def rows() -> Iterator[list[Row]]:
    """Of this session's faults: printed at its end."""
    collected: list[Row] = []
    yield collected
    print(f"\n{faultsuite.markdown(collected)}")


@pytest.mark.parametrize(("fault", "architecture"), ALL)
def test_a_fault(fault: Fault, architecture: str, ktrial: Ktrial, rows: list[Row]) -> None:
    ran, row = faultsuite.tried(fault, architecture, ktrial)
    rows.append(row)
    print(row)
    assert ran.exit_code == 1, ran.explain()
    assert ran.cases(fault.case).startswith("failure: ")
    assert fault.says in ran.cases(fault.case)
    assert row.finding.partition(":")[0] == fault.kind
    assert row.named
    base = {name: state for name, state in ran.junit.items() if "base/" in name}
    assert not [name for name, state in base.items() if state.startswith(("failure", "error"))]
    charged = [name for name, state in ran.junit.items() if state.startswith("failure")]
    assert all("patched/" in name for name in charged)


@pytest.mark.full
def test_a_fault_on_one_boot_in_five(ktrial: Ktrial) -> None:
    """Each of its boots is in the result; it is missed by 25 boots once in 260 times."""
    patch = FAULTS / "suite" / "one-boot-in-five.patch"
    arguments = ["run", str(patch), "--tree", faultsuite.TREE, "--workload", "none"]
    ran = ktrial(*arguments, "--boots", "25")
    assert ran.exit_code == 1, ran.explain()
    boots = faultsuite.patched_boots(ran)
    faulty = [boot for boot in boots if boot["findings"]]
    print(f"{len(faulty)} of {len(boots)} boots; {ran.cases('patched/boot')}")
    assert len(boots) == 25
    assert 0 < len(faulty) < 25
    assert f"{len(faulty)} of 25 boots: WARNING in ktrial_fault" in ran.cases("patched/boot")
    assert ran.cases("base/boot") == "passed"
