"""Parameters, command lines and the order of steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

import pipeline
from pipeline import binding, schema, workload
from pipeline.errors import Cancelled
from pipeline.model import Phase, ProbeSpec, WorkloadRun, WorkloadSpec
from pipeline.progress import Step
from pipeline.scope import Scope
from tests.conftest import QuietStep

DATA = Path(pipeline.__file__).parent / "data"


def spec() -> WorkloadSpec:
    return schema.read(DATA / "workloads/hackbench.toml", WorkloadSpec, name="hackbench")


def hackbench(**params: str | int | float | bool) -> WorkloadRun:
    return binding.bind(spec(), "hackbench", params)


def probe(name: str, *phases: Phase) -> ProbeSpec:
    return ProbeSpec(
        name=name,
        description="",
        command=f"echo {name}",
        phases=phases,
        needs=(),
        kconfigs=(),
        deadline=5.0,
        readings=(),
    )


# --------------------------------------------------------------------------- steps


def order(run: WorkloadRun | None, *probes: ProbeSpec) -> list[tuple[str, Phase]]:
    return [(step.source, step.phase) for step in workload.steps(run, probes)]


def test_steps_follow_the_phases() -> None:
    every = probe("every", *Phase)
    late = probe("late", Phase.AFTER)
    assert order(hackbench(), every, late) == [
        ("shape", Phase.AFTER_BOOT),
        ("every", Phase.AFTER_BOOT),
        ("every", Phase.BEFORE),
        ("hackbench", Phase.WORKLOAD),
        ("every", Phase.DURING),
        ("every", Phase.AFTER),
        ("late", Phase.AFTER),
        ("every", Phase.AFTER_DROP),
    ]


def test_a_repeated_workload_has_so_many_steps() -> None:
    """… with the readings of each, and the others around all of them."""
    steps = workload.steps(
        replace(hackbench(), repeat=3), (probe("every", *Phase),), settings={"/proc/x": "1"}
    )
    between = [(step.source, step.phase) for step in steps[3:9]]
    assert between == [("hackbench", Phase.WORKLOAD), ("every", Phase.DURING)] * 3
    assert [step.phase for step in steps[9:]] == [Phase.AFTER, Phase.AFTER_DROP]
    assert ["/proc/x" in step.command for step in steps[3:9:2]] == [True, False, False]


def test_without_a_workload_each_probe_is_read_once_after_boot() -> None:
    probes = (probe("a", Phase.AFTER_BOOT, Phase.AFTER), probe("b", Phase.DURING))
    assert order(None, *probes) == [
        ("shape", Phase.AFTER_BOOT),
        ("a", Phase.AFTER_BOOT),
        ("b", Phase.AFTER_BOOT),
    ]


def test_probes_are_read_after_events_where_there_are_some() -> None:
    probes = (probe("every", *Phase), probe("late", Phase.AFTER))
    steps = workload.steps(hackbench(), probes, after_events=True)
    assert [(step.source, step.phase) for step in steps[:4]] == [
        ("shape", Phase.AFTER_BOOT),
        ("every", Phase.AFTER_BOOT),
        ("every", Phase.AFTER_EVENTS),
        ("every", Phase.BEFORE),
    ]
    alone = workload.steps(None, probes, after_events=True)
    assert [step.phase for step in alone][-1] is Phase.AFTER_EVENTS
    assert Phase.AFTER_EVENTS not in {step.phase for step in workload.steps(None, probes)}


def test_without_readings_beside_it_the_workload_runs_bare() -> None:
    (_, step) = workload.steps(hackbench(), ())
    assert step.command == "hackbench -l 200 -g 4"
    assert step.deadline == spec().deadline


def test_caches_are_dropped_before_the_last_reading_and_never_for_another() -> None:
    steps = workload.steps(hackbench(), (probe("every", *Phase),))
    drops = [step.phase for step in steps if "drop_caches" in step.command]
    assert drops == [Phase.AFTER_DROP]


# --------------------------------------------------------------------------- timeline


@dataclass(frozen=True)
class Answer:
    exit_status: int | None = 0
    text: str = "text"
    seconds: float = 0.1
    problem: str = ""


@dataclass
class Recorded:
    """A session that answers from a table, by a word in the command."""

    answers: Mapping[str, Answer] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    wait: bool = False

    def run(self, command: str, *, scope: Scope) -> Answer:
        self.commands.append(command)
        answer = next((a for word, a in self.answers.items() if word in command), Answer())
        if self.wait and answer.exit_status is None:
            scope.sleep(3600)  # no longer than the deadline
        return answer


PROBES = (probe("before", Phase.BEFORE), probe("after", Phase.AFTER))


def test_every_step_has_its_output(scope: Scope, step: QuietStep) -> None:
    outputs = workload.timeline(Recorded(), hackbench(), PROBES, scope=scope, step=step)
    assert [output.source for output in outputs] == ["shape", "before", "hackbench", "after"]
    assert {output.exit_status for output in outputs} == {0}
    assert step.notes == ["shape, after-boot", "before, before", "hackbench", "after, after"]


def test_a_bad_exit_does_not_end_it(scope: Scope, step: QuietStep) -> None:
    session = Recorded({"hackbench": Answer(exit_status=1)})
    outputs = workload.timeline(session, hackbench(), PROBES, scope=scope, step=step)
    assert [output.exit_status for output in outputs] == [0, 0, 1, 0]


def test_a_step_that_does_not_come_back_is_the_last(scope: Scope, step: QuietStep) -> None:
    session = Recorded({"hackbench": Answer(exit_status=None, problem="the guest died")})
    outputs = workload.timeline(session, hackbench(), PROBES, scope=scope, step=step)
    assert [output.source for output in outputs] == ["shape", "before", "hackbench"]
    assert outputs[-1].problem == "the guest died"
    assert not outputs[-1].timed_out


def slow(deadline: float) -> WorkloadRun:
    made = WorkloadSpec(
        name="slow",
        description="",
        command="slow",
        parameters=(),
        needs=(),
        deadline=deadline,
        readings=(),
    )
    return binding.bind(made, "slow", {})


@pytest.mark.parametrize(("crowding", "limit"), [(1.0, "0.05"), (4.0, "0.2")])
def test_the_deadline_of_a_step_is_told_from_that_of_the_boot(
    step: QuietStep, monkeypatch: pytest.MonkeyPatch, crowding: float, limit: str
) -> None:
    """… and is as much longer as the host is crowded."""
    monkeypatch.setattr("pipeline.host.crowding", lambda: crowding)
    session = Recorded({"slow": Answer(exit_status=None)}, wait=True)
    (_, output) = workload.timeline(session, slow(0.05), (), scope=Scope(60), step=step)
    assert output.timed_out
    assert output.problem == f"no end after {limit} s"
    (_, output) = workload.timeline(session, slow(60), (), scope=Scope(0.05), step=step)
    assert not output.timed_out


def test_a_cancelled_run_stops_before_the_next_step(step: QuietStep) -> None:
    scope = Scope(60)
    session = Recorded()
    scope.cancel()
    with pytest.raises(Cancelled):
        workload.timeline(session, hackbench(), PROBES, scope=scope, step=step)
    assert session.commands == []


@dataclass
class Played:
    """A conductor that notes its turns among the session's commands."""

    session: Recorded

    def before(self, *, scope: Scope, step: Step) -> None:  # noqa: ARG002
        self.session.commands.append("events")

    @contextmanager
    def during(self, *, scope: Scope) -> Iterator[None]:  # noqa: ARG002
        self.session.commands.append("begin")
        yield
        self.session.commands.append("end")


def test_events_come_before_and_beside_the_workload(scope: Scope, step: QuietStep) -> None:
    session = Recorded()
    probes = (probe("boot", Phase.AFTER_BOOT), probe("events", Phase.AFTER_EVENTS), *PROBES)
    workload.timeline(
        session,
        hackbench(),
        probes,
        scope=scope,
        step=step,
        conductor=Played(session),
        after_events=True,
    )
    assert session.commands[1:] == [
        "echo boot",
        "events",
        "echo events",
        "echo before",
        "begin",
        "hackbench -l 200 -g 4",
        "end",
        "echo after",
    ]


def test_events_come_beside_the_first_run_of_several(scope: Scope, step: QuietStep) -> None:
    session = Recorded()
    run, played = replace(hackbench(loops=1), repeat=2), Played(session)
    workload.timeline(session, run, (), scope=scope, step=step, conductor=played)
    ran = "hackbench -l 1 -g 4"
    assert session.commands[1:] == ["events", "begin", ran, "end", ran]


def test_no_event_comes_to_a_guest_that_is_gone(scope: Scope, step: QuietStep) -> None:
    session = Recorded({"osrelease": Answer(exit_status=None, problem="the guest died")})
    played = Played(session)
    workload.timeline(session, None, (), scope=scope, step=step, conductor=played)
    assert "events" not in session.commands


def test_events_come_without_a_workload_too(scope: Scope, step: QuietStep) -> None:
    session = Recorded()
    workload.timeline(session, None, (), scope=scope, step=step, conductor=Played(session))
    assert session.commands[1:] == ["events"]
