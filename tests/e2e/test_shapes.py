"""Every shipped shape in real guests: each kernel sees the machine that the shape says."""

from __future__ import annotations

import pytest

from tests import guests
from tests.e2e.conftest import TREE, Ktrial, Ran

pytestmark = pytest.mark.e2e

FAULTS = ("failure", "error")
ALL = sorted(path.stem for path in (guests.SHARE / "guests").glob("*.toml"))


def one_run(ktrial: Ktrial, *, tree: str, architecture: str) -> Ran:
    """All shapes in one run with one JUnit."""
    return ktrial(
        *("run", "--rev", "HEAD", "--tree", tree, "--arch", architecture),
        *("--workload", "none"),
        *(word for name in ALL for word in ("--guest", name)),
    )


def each_is_its_shape(ran: Ran, architecture: str) -> None:
    """A case `shape` of each cell; where the host is too small it is skipped with that cause."""
    wrong = {name: state for name, state in ran.junit.items() if state.startswith(FAULTS)}
    assert not wrong, wrong
    assert ran.exit_code == 0, ran.explain()
    states = {case: state for case, state in ran.junit.items() if case.endswith("/shape")}
    for name in ALL:
        found = [state for case, state in states.items() if f"{architecture}.{name}." in case]
        small = [state for state in found if "MiB of memory" in state]
        assert found, (name, sorted(ran.junit))
        assert small or set(found) == {"passed"}, (name, found)


def test_every_shape(ktrial: Ktrial) -> None:
    each_is_its_shape(one_run(ktrial, tree=TREE, architecture="x86_64"), "x86_64")


@pytest.mark.full
@pytest.mark.parametrize(
    ("tree", "architecture"),
    [("debian:6.12", "x86_64"), (TREE, "aarch64"), ("debian:6.12", "aarch64")],
)
def test_every_shape_elsewhere(ktrial: Ktrial, tree: str, architecture: str) -> None:
    each_is_its_shape(one_run(ktrial, tree=tree, architecture=architecture), architecture)
