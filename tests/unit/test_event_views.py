"""What a boot says of its shape and its events."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline import verdict
from pipeline.model import (
    Action,
    Case,
    Event,
    EventResult,
    EventState,
    Outcome,
    Phase,
    Plan,
    Stop,
)
from tests import runs

EVENT = Event(label="add", action=Action.VCPU_ADD, when="at start")


@pytest.fixture
def made() -> Plan:
    scenario = runs.scenario((runs.BASE, runs.PATCHED))
    return runs.plan(replace(scenario, events=(EVENT,)))


def cases(
    made: Plan, change: dict[str, object], base: EventResult | None = None
) -> dict[str, Case]:
    """Judged, where the patched kernel's boots have this change."""
    good = EventResult(label="add", state=EventState.GOOD, host="2 -> 4", guest="online 0-3")
    evidence = runs.good_evidence(made)
    evidence = runs.change_boot(evidence, "base", {"events": (base or good,)})
    evidence = runs.change_boot(evidence, "patched", {"events": (good,), **change})
    found = verdict.judge(made, evidence)
    return {f"{case.id.suite.rpartition('.')[2]} {case.id.name}": case for case in found}


def event(state: EventState, **more: str) -> dict[str, object]:
    return {"events": (EventResult(label="add", state=state, **more),)}  # type: ignore[arg-type]


def test_a_good_event_passes_and_tells_what_both_saw(made: Plan) -> None:
    case = cases(made, {})["patched event add"]
    assert case.outcome is Outcome.PASSED
    assert "host: 2 -> 4" in case.detail
    assert "guest: online 0-3" in case.detail


def test_an_event_that_only_the_patched_guest_gets_wrong_is_charged(made: Plan) -> None:
    wrong = event(EventState.FAILED, reason="online is 0-2 after 9.8 s", title="CPU 3 missing")
    case = cases(made, wrong)["patched event add"]
    assert case.outcome is Outcome.FAILED
    assert "online is 0-2" in case.reason


def test_what_base_gets_wrong_too_is_not_charged(made: Plan) -> None:
    wrong = EventResult(label="add", state=EventState.FAILED, reason="a", title="CPU 3 missing")
    case = cases(made, {"events": (replace(wrong, reason="b"),)}, base=wrong)["patched event add"]
    assert case.outcome is Outcome.BASE_BROKEN


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        (EventState.UNSUPPORTED, Outcome.UNSUPPORTED),
        (EventState.HARNESS, Outcome.ERROR),
        (EventState.NOT_RUN, Outcome.ERROR),
    ],
)
def test_what_is_not_the_guests_doing_is_never_charged(
    made: Plan, state: EventState, outcome: Outcome
) -> None:
    case = cases(made, event(state, reason="for a known cause"))["patched event add"]
    assert case.outcome is outcome
    assert "for a known cause" in case.reason


def test_an_event_without_a_result_is_no_pass(made: Plan) -> None:
    case = cases(made, {"events": ()})["patched event add"]
    assert case.outcome is Outcome.ERROR


@pytest.mark.parametrize("what", ["event", "workload"])
def test_an_event_behind_something_that_failed_is_not_run(made: Plan, what: str) -> None:
    """What failed has a case of its own; this one is no fault of the harness."""
    unreached = EventResult(label="add", reason="needs event off: refused")
    failed = EventResult(label="off", state=EventState.FAILED, reason="refused")
    change: dict[str, object] = {"events": (unreached, failed)}
    if what == "workload":
        broken = (runs.output("shape", Phase.AFTER_BOOT), runs.output("hackbench", status=1))
        change = {"events": (unreached,), "outputs": broken}
    assert cases(made, change)["patched event add"].outcome is Outcome.NOT_RUN


def test_an_event_behind_a_crash_is_not_run(made: Plan) -> None:
    crash = {
        "stop": Stop.KERNEL,
        "reason": "panic",
        "findings": (runs.finding(),),
        "ready": None,
        "outputs": (),
        "samples": (),
        "events": (),
        "differences": None,
    }
    found = cases(made, crash)
    assert found["patched boot"].outcome is Outcome.FAILED
    assert found["patched event add"].outcome is Outcome.NOT_RUN
    assert found["patched shape"].outcome is Outcome.NOT_RUN


def test_a_guest_that_is_not_its_shape_is_charged(made: Plan) -> None:
    case = cases(made, {"differences": ("node 1 has no CPU 3",)})["patched shape"]
    assert case.outcome is Outcome.FAILED
    assert case.reason == "node 1 has no CPU 3"
    unread = cases(made, {"differences": None})["patched shape"]
    assert unread.outcome is Outcome.ERROR


def test_the_last_attempt_counts(made: Plan) -> None:
    """A boot that its host broke was tried again: what the second one says holds."""
    evidence = runs.good_evidence(made)
    good = [
        replace(b, events=(EventResult(label="add", state=EventState.GOOD),))
        for b in evidence.boots
    ]
    broken = [
        replace(b, stop=Stop.INFRA, reason="QEMU was ended by SIGKILL", events=()) for b in good
    ]
    second = [replace(b, boot=replace(b.boot, boot=1)) for b in good]
    found = verdict.judge(made, replace(evidence, boots=(*second, *broken)))
    assert {case.outcome for case in found} == {Outcome.PASSED}
    worse = [replace(b, boot=replace(b.boot, boot=1)) for b in broken]
    found = verdict.judge(made, replace(evidence, boots=(*broken, *worse)))
    assert Outcome.ERROR in {case.outcome for case in found}
