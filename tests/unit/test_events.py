"""Moments, what makes sense, storms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline import events
from pipeline.errors import UserError
from pipeline.events import Moment, Timing
from pipeline.model import Action, Event, GuestShape
from tests.guests import architecture

SHAPE = GuestShape(
    name="roomy",
    description="",
    vcpus=2,
    max_vcpus=4,
    memory=1024,
    max_memory=2048,
    memory_slots=2,
)


def event(action: Action, when: str = "at start", **more: object) -> Event:
    made = Event(label=f"{action.value} {when}", action=action, when=when)
    return replace(made, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("when", "timing", "value", "due"),
    [
        ("before workload", Timing.BEFORE, 0.0, 0.0),
        ("at start", Timing.START, 0.0, 0.0),
        ("after 5 s", Timing.AFTER, 5.0, 5.0),
        ("After  0.5s", Timing.AFTER, 0.5, 0.5),
        ("at 50 %", Timing.PERCENT, 50.0, 4.0),
        ("at 25%", Timing.PERCENT, 25.0, 2.0),
        ("every 2 s", Timing.EVERY, 2.0, 2.0),
    ],
)
def test_moments(when: str, timing: Timing, value: float, due: float) -> None:
    assert events.moment(when) == Moment(timing=timing, value=value)
    assert events.due(events.moment(when), 8.0) == due


def test_half_of_a_time_that_nobody_knows_is_a_second() -> None:
    assert events.due(events.moment("at 50 %"), None) == 1.0


@pytest.mark.parametrize("when", ["", "later", "after 5", "after -1 s", "at 5", "every s", "at %"])
def test_no_moment(when: str) -> None:
    with pytest.raises(UserError, match="is no moment") as caught:
        events.moment(when)
    assert "after 5 s" in caught.value.hint


def test_moments_out_of_bounds() -> None:
    with pytest.raises(UserError, match="too often"):
        events.moment("every 0.01 s")
    with pytest.raises(UserError, match="100 %"):
        events.moment("at 120 %")


def check(*listed: Event, shape: GuestShape = SHAPE, on: str = "x86_64") -> None:
    events.check(listed, shape, architecture(on), has_workload=True)


@pytest.mark.parametrize(
    "listed",
    [
        [event(Action.VCPU_ADD, count=2)],
        [event(Action.VCPU_ADD), event(Action.VCPU_REMOVE), event(Action.CPU_STORM, seed=3)],
        [
            event(Action.VCPU_ADD, count=2),
            event(Action.VCPU_REMOVE, count=2),
            event(Action.VCPU_ADD, "after 2 s", count=2),
        ],
        [event(Action.MEMORY_ADD, count=2, memory=512), event(Action.MEMORY_REMOVE, count=2)],
        [event(Action.CPU_OFFLINE, "every 2 s"), event(Action.CPU_ONLINE, "every 2 s")],
        [event(Action.VCPU_REMOVE, "after 5 s"), event(Action.VCPU_ADD, "after 1 s")],
        [event(Action.VCPU_ADD, "at 50 %"), event(Action.VCPU_REMOVE, "after 1 s")],
        [event(Action.MEMORY_OFFLINE), event(Action.MEMORY_ONLINE)],
    ],
)
def test_sense(listed: list[Event]) -> None:
    check(*listed)


@pytest.mark.parametrize(
    ("listed", "words", "hint"),
    [
        ([event(Action.VCPU_ADD, count=3)], "5 vCPUs, roomy has room for 4", "smp2of8"),
        ([event(Action.VCPU_ADD, count=0)], "count = 0", "one or more"),
        ([event(Action.VCPU_REMOVE)], "only vCPUs that were added", "vcpu-add in front"),
        ([event(Action.MEMORY_ADD)], "does not say how much", "memory = 256"),
        ([event(Action.MEMORY_ADD, memory=64, count=3)], "3 DIMM.s., roomy has 2", "memory_slots"),
        ([event(Action.MEMORY_ADD, memory=2048)], "3072 MiB, roomy has room for 2048", "max_mem"),
        ([event(Action.MEMORY_ADD, memory=64, node=1)], "node = 1", "1 NUMA cell"),
        ([event(Action.MEMORY_REMOVE)], "0 added before it", "memory-add in front"),
        ([event(Action.CPU_STORM, "every 2 s")], "a storm comes once", "seconds"),
        ([event(Action.CPU_STORM, seconds=0.0)], "seconds = 0", "how long"),
        ([event(Action.CPU_ONLINE), event(Action.CPU_ONLINE)], "two of that label", "own"),
        (
            [event(Action.VCPU_ADD, "after 5 s"), event(Action.VCPU_REMOVE, "after 1 s")],
            "only vCPUs that were added",
            "vcpu-add in front",
        ),
        ([event(Action.CPU_ONLINE)], "0 are offline by then", "cpu-offline in front"),
        ([event(Action.MEMORY_ONLINE)], "0 are offline by then", "memory-offline in front"),
        ([event(Action.CPU_OFFLINE, count=2)], "one has to stay", "take fewer"),
    ],
)
def test_nonsense(listed: list[Event], words: str, hint: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        check(*listed)
    assert hint in caught.value.hint


def test_cpus_that_are_held_back_can_be_brought_online() -> None:
    check(event(Action.CPU_ONLINE, count=2), on="aarch64")
    with pytest.raises(UserError, match="2 are offline by then"):
        check(event(Action.CPU_ONLINE, count=3), on="aarch64")


def test_a_shape_that_has_room_is_not_recommended_for_having_more() -> None:
    with pytest.raises(UserError) as caught:
        check(event(Action.VCPU_ADD, count=9), shape=replace(SHAPE, name="smp2of8"))
    assert caught.value.hint == "take fewer"


def test_a_storm_needs_a_second_cpu() -> None:
    alone = replace(SHAPE, name="smp1", vcpus=1, max_vcpus=1)
    with pytest.raises(UserError, match="smp1 has one CPU"):
        check(event(Action.CPU_STORM), shape=alone)


def test_only_a_workload_has_a_timeline() -> None:
    events.check(
        [event(Action.VCPU_ADD, "before workload")],
        SHAPE,
        architecture(),
        has_workload=False,
    )
    with pytest.raises(UserError, match="needs a workload"):
        events.check([event(Action.VCPU_ADD)], SHAPE, architecture(), has_workload=False)


def test_without_vcpu_hotplug_any_cpu_but_the_last_may_go() -> None:
    check(event(Action.VCPU_REMOVE), on="aarch64")
    with pytest.raises(UserError):
        check(event(Action.VCPU_REMOVE, count=2), on="aarch64")


def test_a_long_storm_and_many_vcpus_have_time() -> None:
    one = events.allowance(event(Action.VCPU_ADD))
    assert events.allowance(event(Action.CPU_STORM, seconds=600.0)) == one + 600
    assert events.allowance(event(Action.VCPU_REMOVE, count=48)) > one + 200


def test_events_are_split_at_the_workload() -> None:
    first = event(Action.VCPU_ADD, "before workload")
    second = event(Action.VCPU_ADD, "after 1 s")
    assert events.split([second, first]) == ((first,), (second,))


def test_a_storm_is_the_same_each_time_and_always_changes_something() -> None:
    steps = events.storm(7, [1, 2, 3], 200)
    assert steps == events.storm(7, [1, 2, 3], 200)
    assert steps[:50] == events.storm(7, [1, 2, 3], 50)
    assert steps != events.storm(8, [1, 2, 3], 200)
    online = {1: True, 2: True, 3: True}
    for cpu, goes_online in steps:
        assert online[cpu] is not goes_online
        online[cpu] = goes_online
    assert {cpu for cpu, _ in steps} == {1, 2, 3}
