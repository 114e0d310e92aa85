"""Carries out a boot's events: those before the workload, and those on its timeline beside it.

Events have an ssh session of their own, so that the workload's goes on, and come one after the
other: one that is due while another is under way comes right behind it, and its result says
when. What is under way when the workload ends is brought to its end, within its own seconds.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pipeline import events
from pipeline.actions import perform
from pipeline.actor import Actor
from pipeline.errors import Cancelled
from pipeline.events import Timing
from pipeline.model import Action, Event, EventResult, EventState
from pipeline.progress import Step
from pipeline.scope import Scope

NOT_REACHED = "the boot did not come so far"
STUCK = "a command of an event before it never came back"
GONE = "the guest was gone before it was due"

# What has to be done before something can be done.
MAKES_WAY = {
    Action.VCPU_ADD: Action.VCPU_REMOVE,
    Action.VCPU_REMOVE: Action.VCPU_ADD,
    Action.CPU_ONLINE: Action.CPU_OFFLINE,
    Action.MEMORY_REMOVE: Action.MEMORY_ADD,
    Action.MEMORY_ONLINE: Action.MEMORY_OFFLINE,
}


class Conductor:
    """`expected`: how long the workload takes, in seconds, None where nobody knows."""

    def __init__(self, actor: Actor, planned: Sequence[Event], *, expected: float | None) -> None:
        self._actor = actor
        self._planned = tuple(planned)
        self._expected = expected
        self._results: dict[str, EventResult] = {}
        self._rounds: dict[str, int] = {}
        self._started: dict[str, float] = {}  # on the monotonic clock
        self._begun = 0.0  # when the workload began, or would have
        self._ended = 0.0  # seconds after that, when the workload ended
        self._over = threading.Event()
        self._defect: Exception | None = None  # ours, in the thread of the events

    @property
    def results(self) -> tuple[EventResult, ...]:
        """In the order in which the events were planned."""
        return tuple(self._result(event.label) for event in self._planned)

    def _result(self, label: str) -> EventResult:
        result = self._results.get(label, EventResult(label=label, reason=NOT_REACHED))
        if label not in self._started:
            return result
        return replace(result, at=round(self._started[label] - self._begun, 3))

    def before(self, *, scope: Scope, step: Step) -> None:
        """Carry out the events before the workload. Raises Cancelled."""
        if self._planned:
            self._actor.hurry(scope)
        for event in events.split(self._planned)[0]:
            step.note(f"event {event.label}")
            self._results[event.label] = self._one(event, scope)
        self._begun = time.monotonic()

    @contextmanager
    def during(self, *, scope: Scope) -> Iterator[None]:
        """The workload runs inside this block, its events beside it."""
        self._begun = time.monotonic()
        thread = threading.Thread(target=self._play, args=(scope,), name="events", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended = self._elapsed()
            self._over.set()
            thread.join()
        if self._defect is not None:
            raise self._defect

    # ------------------------------------------------------------------ the timeline

    def _play(self, scope: Scope) -> None:
        """Runs in a thread of its own until the workload ends."""
        try:
            self._play_all(scope)
        except Cancelled:
            pass  # the workload's own thread says so
        except Exception as defect:
            self._defect = defect

    def _play_all(self, scope: Scope) -> None:
        order = itertools.count()
        queue = [
            (events.due(events.moment(event.when), self._expected), next(order), event)
            for event in events.split(self._planned)[1]
        ]
        heapq.heapify(queue)
        while queue and not self._over.wait(max(0.0, queue[0][0] - self._elapsed())):
            due, _, event = heapq.heappop(queue)
            if self._again(event, scope):
                later = max(due + events.moment(event.when).value, self._elapsed())
                heapq.heappush(queue, (later, next(order), event))
        for due, _, event in queue:
            self._results.setdefault(event.label, self._missed(event, due))

    def _elapsed(self) -> float:
        return time.monotonic() - self._begun

    def _again(self, event: Event, scope: Scope) -> bool:
        """Carry out an event; whether it is to come once more."""
        result, last = self._one(event, scope), self._results.get(event.label)
        again = events.moment(event.when).timing is Timing.EVERY
        if last is not None and result.state in {EventState.NOT_RUN, EventState.UNSUPPORTED}:
            # It cannot be done once more: what was done before stands.
            self._results[event.label] = replace(last, host=f"{last.host}; then: {result.reason}")
            return False
        if again and result.state is EventState.GOOD:
            number = self._rounds[event.label] = self._rounds.get(event.label, 0) + 1
            result = replace(
                result,
                host=f"{number} times, the last time: {result.host}",
                seconds=max(result.seconds, last.seconds if last else 0.0),
            )
        self._results[event.label] = replace(result, host=result.host + self._unknown(event))
        return again and result.state is EventState.GOOD

    def _one(self, event: Event, scope: Scope) -> EventResult:
        if self._actor.guest.died.is_set():
            return EventResult(label=event.label, reason=GONE)
        if self._actor.stuck:
            return EventResult(label=event.label, reason=STUCK)
        self._started.setdefault(event.label, time.monotonic())
        return self._explained(event, perform(self._actor, event, scope=scope, over=self._over))

    def _explained(self, event: Event, result: EventResult) -> EventResult:
        """What cannot be done for want of what an event before it did has the cause of that one."""
        if result.state is not EventState.NOT_RUN:
            return result
        for before in self._planned:
            became = self._results.get(before.label)
            wanted = before.action is MAKES_WAY.get(event.action)
            if wanted and became is not None and became.state is not EventState.GOOD:
                known = became.state is EventState.UNSUPPORTED
                return replace(
                    result,
                    state=EventState.UNSUPPORTED if known else EventState.NOT_RUN,
                    reason=f"needs event {before.label}: {became.reason}",
                )
        return result

    def _missed(self, event: Event, due: float) -> EventResult:
        why = f"the workload ended after {self._ended:.1f} s, before it was due"
        if due < self._ended:
            why = (
                f"it was due after {due:.1f} s, when other events were under way until the "
                f"workload's end, after {self._ended:.1f} s"
            )
        if self._actor.guest.died.is_set():
            why = GONE
        return EventResult(label=event.label, reason=why)

    def _unknown(self, event: Event) -> str:
        percent = events.moment(event.when).timing is Timing.PERCENT
        if not percent or self._expected is not None:
            return ""
        return "; nobody knew how long the workload takes, so it did not wait for “" + (
            f"{event.when}” but {events.due(events.moment(event.when), None):.1f} s"
        )
