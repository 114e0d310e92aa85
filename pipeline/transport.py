"""How a boot's commands reach the guest and what they print comes back: ssh, or the console.

Both give the same `Output`s. Over the console the guest runs a script from its init and has
no network at all: nothing of the host's moves its times.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

from pipeline import events, frames, workload
from pipeline.actor import Actor, Setting
from pipeline.conductor import Conductor
from pipeline.frames import FramedCommand
from pipeline.guest import Guest, GuestEnd
from pipeline.image import GuestFile
from pipeline.keys import Keys
from pipeline.model import (
    Event,
    EventResult,
    EventState,
    Output,
    ProbeSpec,
    Reading,
    WorkloadRun,
)
from pipeline.progress import Step
from pipeline.scope import Scope
from pipeline.session import Credentials, SshSession
from pipeline.workload import StepSpec

NAMES = ("ssh", "console")
POWEROFF_SECONDS = 20.0
KILLED = 137


@dataclass(frozen=True, kw_only=True)
class Carried:
    """What came back from a guest that was ready, and how it ended."""

    outputs: tuple[Output, ...]
    end: GuestEnd
    events: tuple[EventResult, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Program:
    """What happens in a guest that is ready: steps, and events on their timeline.

    `expected`: seconds that the workload takes, None where nobody knows. `slower`: how many times
    as long as others a kernel of this configuration may take. `settings`, `seed`: see
    `workload.steps`.
    """

    run: WorkloadRun | None
    probes: tuple[ProbeSpec, ...]
    events: tuple[Event, ...] = ()
    expected: float | None = None
    slower: float = 1.0
    settings: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0

    @property
    def readings(self) -> Mapping[str, tuple[Reading, ...]]:
        """What is read from the output of each source. The times of a workload that is counted are
        no result."""
        found = {probe.name: probe.readings for probe in self.probes}
        if self.run is not None:
            found[self.run.label] = () if self.run.counted else self.run.spec.readings
        return found

    @property
    def deltas(self) -> frozenset[str]:
        """The probes of which only the growth tells anything."""
        return frozenset(probe.name for probe in self.probes if probe.delta)

    @property
    def after_events(self) -> bool:
        """Whether there are events before the workload, behind which probes are read."""
        return bool(events.split(self.events)[0])

    @property
    def steps(self) -> tuple[StepSpec, ...]:
        planned = workload.steps(
            self.run,
            self.probes,
            after_events=self.after_events,
            settings=self.settings,
            seed=self.seed,
        )
        return tuple(replace(each, deadline=each.deadline * self.slower) for each in planned)


class Transport(Protocol):
    """One of the two ways."""

    @property
    def network(self) -> bool:
        """Whether the guest has a network card."""

    def files(self) -> Mapping[str, GuestFile]:
        """What has to lie in the guest before it boots."""

    def carry(self, guest: Guest, setting: Setting, *, scope: Scope, step: Step) -> Carried:
        """Run the program in a guest that is ready, and power it off."""


@dataclass(frozen=True, kw_only=True)
class OverSsh:
    """The host runs each step over one ssh connection, and events over another."""

    keys: Keys
    program: Program
    network: ClassVar[bool] = True

    def files(self) -> Mapping[str, GuestFile]:
        return {
            "ktrial/authorized_keys": GuestFile(data=self.keys.authorized.encode(), mode=0o600),
            "ktrial/hostkey": GuestFile(data=self.keys.host_private, mode=0o600),
        }

    def session(self, guest: Guest) -> SshSession:
        """A connection of its own, made by the first command."""
        credentials = Credentials(private=self.keys.private, host_public=self.keys.host_public)
        return SshSession(port=guest.ssh_port, credentials=credentials, died=guest.died)

    def carry(self, guest: Guest, setting: Setting, *, scope: Scope, step: Step) -> Carried:
        program = self.program
        with ExitStack() as stack:
            session = stack.enter_context(self.session(guest))
            actor = Actor(
                guest,
                stack.enter_context(self.session(guest)),
                setting,
                lambda limit: self._answers(guest, limit),
            )
            conductor = Conductor(actor, program.events, expected=program.expected)
            outputs = workload.timeline(
                session,
                program.run,
                program.probes,
                scope=scope,
                step=step,
                conductor=conductor if program.events else None,
                after_events=program.after_events,
                slower=program.slower,
                settings=program.settings,
            )
            step.note("powering off")
            # Powering off waits for whoever holds the CPUs' lock: a stuck guest never would.
            end = guest.end() if actor.stuck else guest.shutdown(scope, session)
            return Carried(outputs=outputs, end=end, events=conductor.results)

    def _answers(self, guest: Guest, scope: Scope) -> bool:
        """Whether the guest still runs a command that comes over a fresh connection."""
        with self.session(guest) as fresh:
            return fresh.run(":", scope=scope).ok


NO_EVENTS = "events need a way into the guest beside the console: --transport ssh"


@dataclass(frozen=True, kw_only=True)
class OverConsole:
    """The guest's init runs all steps and prints their framed outputs on the console."""

    program: Program
    network: ClassVar[bool] = False

    @property
    def steps(self) -> tuple[StepSpec, ...]:
        return self.program.steps

    def files(self) -> Mapping[str, GuestFile]:
        commands = [
            FramedCommand(name=str(number), command=each.command, deadline=each.deadline)
            for number, each in enumerate(self.steps)
        ]
        return {"ktrial/run.sh": GuestFile(data=frames.script(commands).encode(), mode=0o755)}

    def carry(self, guest: Guest, setting: Setting, *, scope: Scope, step: Step) -> Carried:  # noqa: ARG002
        step.note("running from init")
        seconds = sum(each.deadline for each in self.steps) + POWEROFF_SECONDS
        end = guest.wait_stopped(scope.child(seconds))
        text = guest.console.read_bytes().decode(errors="replace")
        unheard = tuple(
            EventResult(label=event.label, state=EventState.UNSUPPORTED, reason=NO_EVENTS)
            for event in self.program.events
        )
        return Carried(outputs=outputs(self.steps, frames.read(text)), end=end, events=unheard)


def outputs(steps: tuple[StepSpec, ...], framed: tuple[frames.Framed, ...]) -> tuple[Output, ...]:
    """The outputs of a console, in the order of the steps, up to the first that is missing."""
    by_name = {each.name: each for each in framed}
    found: list[Output] = []
    for number, spec in enumerate(steps):
        each = by_name.get(str(number))
        if each is None:
            problem = "it never came back"
            each = frames.Framed(
                name=str(number), exit_status=None, text="", seconds=0.0, problem=problem
            )
        found.append(
            Output(
                source=spec.source,
                phase=spec.phase,
                exit_status=each.exit_status,
                text=each.text,
                seconds=each.seconds,
                problem=each.problem,
                # `timeout -s KILL` in the guest's script: 128 + SIGKILL.
                timed_out=each.exit_status == KILLED and each.seconds >= spec.deadline,
            )
        )
        if each.exit_status is None:
            break
    return tuple(found)
