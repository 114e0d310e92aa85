"""Runs a workload in a guest and reads the guest around it.

A boot's work is a list of steps, each one shell command: what the guest sees of its machine,
the probes of the phase after boot, those behind the events that come before the workload,
those before the workload, the workload, and the probes of the phases behind it. The list is
pure and the same for both ways into a guest: over ssh `timeline` runs it step by step; an
init-started run gets it as a whole and prints what the steps gave on the console.

Probes of the phase `during` are read inside the guest, by a loop in the workload's own step:
once at its start and then once a second. So they need no second connection, and they end
with the workload. A further step hands over what they read; `metrics` makes one number of it.

A workload that is repeated within a boot has so many steps of its own; what is done to the guest
beside it begins with the first of them.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Protocol

from pipeline import binding, deterministic, guestview, host, metrics
from pipeline.model import Output, Phase, ProbeSpec, WorkloadRun
from pipeline.progress import Step
from pipeline.scope import Scope

GUEST_FOLDER = "/tmp"  # a tmpfs in the guest
DURING_SECONDS = 1.0
SHAPE = "shape"  # source of the step that reads what the guest sees of its machine
SHAPE_SECONDS = 60.0
PERTURBATION = "perturbation"  # source of the step that makes a deterministic boot one of many
DROP_CACHES = "sync && echo 3 > /proc/sys/vm/drop_caches"


class Reply(Protocol):
    """What came of one command; `exit_status` is None where it never came back."""

    @property
    def exit_status(self) -> int | None: ...

    @property
    def text(self) -> str: ...

    @property
    def seconds(self) -> float: ...

    @property
    def problem(self) -> str: ...


class Session(Protocol):
    """A way into the guest. `run` returns at once when the guest dies or the scope ends."""

    def run(self, command: str, *, scope: Scope) -> Reply: ...


class Conductor(Protocol):
    """Carries out what is done to the guest besides: before the workload, and beside it."""

    def before(self, *, scope: Scope, step: Step) -> None: ...

    def during(self, *, scope: Scope) -> AbstractContextManager[None]: ...


@dataclass(frozen=True, kw_only=True)
class StepSpec:
    """One shell command in the guest. `deadline` in seconds, under the slowest accelerator."""

    source: str
    phase: Phase
    command: str
    deadline: float


SHAPE_STEP = StepSpec(
    source=SHAPE, phase=Phase.AFTER_BOOT, command=guestview.COMMAND, deadline=SHAPE_SECONDS
)


# --------------------------------------------------------------------------- steps


def steps(
    run: WorkloadRun | None,
    probes: Sequence[ProbeSpec],
    *,
    folder: str = GUEST_FOLDER,
    after_events: bool = False,
    settings: Mapping[str, str] | None = None,
    seed: int = 0,
) -> tuple[StepSpec, ...]:
    """All commands of a boot, in order. Without a workload each probe is read once, after boot.

    `folder` is where, in the guest, readings are kept while the workload runs; `after_events`
    says that there are events before the workload, behind which probes may be read. `settings`:
    what is written to which file before the workload starts; where that fails, so does it.
    `seed`: of what perturbs a deterministic boot, 0 for nothing.
    """
    behind = _phase_steps(probes, Phase.AFTER_EVENTS) if after_events else iter(())
    if run is None:
        early = (_probe_step(probe, Phase.AFTER_BOOT) for probe in probes)
        return (SHAPE_STEP, *early, *behind)
    words = binding.command(run)
    first = _written(settings or {}) + words
    return (
        SHAPE_STEP,
        *_phase_steps(probes, Phase.AFTER_BOOT),
        *behind,
        *_perturbed(seed),
        *_phase_steps(probes, Phase.BEFORE),
        *_workload_steps(run, first, probes, folder),
        *(
            each
            for _ in range(1, run.repeat)
            for each in _workload_steps(run, words, probes, folder)
        ),
        *_phase_steps(probes, Phase.AFTER),
        *_phase_steps(probes, Phase.AFTER_DROP),
    )


def _perturbed(seed: int) -> Iterator[StepSpec]:
    if words := deterministic.perturbed(seed):
        yield StepSpec(
            source=PERTURBATION, phase=Phase.BEFORE, command=words, deadline=SHAPE_SECONDS
        )


def _workload_steps(
    run: WorkloadRun, words: str, probes: Sequence[ProbeSpec], folder: str
) -> Iterator[StepSpec]:
    """The workload once, and what was read while it ran."""
    during = [probe for probe in probes if Phase.DURING in probe.phases]
    yield StepSpec(
        source=run.label,
        phase=Phase.WORKLOAD,
        command=_with_readings(words, during, folder) if during else words,
        deadline=run.spec.deadline,
    )
    yield from (_handover(probe, folder) for probe in during)


def _written(settings: Mapping[str, str]) -> str:
    """Shell lines that write each setting, or end with the file's name."""
    lines = (
        f"printf '%s\\n' {shlex.quote(value)} > {shlex.quote(path)} || "
        f"{{ echo 'cannot write {shlex.quote(value)} to '{shlex.quote(path)} >&2; exit 1; }}\n"
        for path, value in settings.items()
    )
    return "".join(lines)


def _phase_steps(probes: Sequence[ProbeSpec], phase: Phase) -> Iterator[StepSpec]:
    for probe in probes:
        if phase in probe.phases:
            yield _probe_step(probe, phase)


def _probe_step(probe: ProbeSpec, phase: Phase) -> StepSpec:
    text = probe.command.strip()
    if phase is Phase.AFTER_DROP:
        text = f"{DROP_CACHES} && {{\n{text}\n}}"
    return StepSpec(source=probe.name, phase=phase, command=text, deadline=probe.deadline)


def _handover(probe: ProbeSpec, folder: str) -> StepSpec:
    return StepSpec(
        source=probe.name,
        phase=Phase.DURING,
        command=f"cat {_readings_file(probe, folder)}",
        deadline=probe.deadline,
    )


def _readings_file(probe: ProbeSpec, folder: str) -> str:
    return shlex.quote(f"{folder}/ktrial-during.{probe.name}")


def _with_readings(workload: str, during: Sequence[ProbeSpec], folder: str) -> str:
    """The workload with a loop beside it that reads the probes; its exit status is kept.

    The loop ends by a file, not by a signal, so that a reading once begun is finished: even
    the shortest workload has one. Only its pause is killed, for not to be waited for.
    """
    stop, pause = (shlex.quote(f"{folder}/ktrial-{name}") for name in ("stop", "pause"))
    readings = "\n".join(_reading(probe, folder) for probe in during)
    files = " ".join(_readings_file(probe, folder) for probe in during)
    return f"""(
rm -f {stop} {pause} {files}
(
while :; do
{readings}
[ -e {stop} ] && break
sleep {DURING_SECONDS:g} &
echo $! > {pause}
wait $!
[ -e {stop} ] && break
done
) > /dev/null 2>&1 < /dev/null &
sampler=$!
(
{workload}
)
status=$?
: > {stop}
[ -e {pause} ] && read pid < {pause} && kill $pid 2> /dev/null
wait $sampler
exit $status
)"""


def _reading(probe: ProbeSpec, folder: str) -> str:
    return f"""(
{probe.command.strip()}
) >> {_readings_file(probe, folder)} 2>&1
echo "{metrics.end_of_reading("$?")}" >> {_readings_file(probe, folder)}"""


# --------------------------------------------------------------------------- running them


def timeline(
    session: Session,
    run: WorkloadRun | None,
    probes: Sequence[ProbeSpec],
    *,
    scope: Scope,
    step: Step,
    conductor: Conductor | None = None,
    after_events: bool = False,
    slower: float = 1.0,
    settings: Mapping[str, str] | None = None,
) -> tuple[Output, ...]:
    """Run a boot's steps, each under its own deadline; what each printed, in their order.

    `slower`: how many times as long as others a kernel of this configuration may take.

    It ends at the first step that does not come back: the guest is gone, or busy with a
    command that nobody waits for any more. That step's output is the last one. A step that
    comes back with a bad exit status does not keep the others from being run. The `conductor`
    has its turn behind the steps after boot, and again beside the workload.

    Raises Cancelled when the scope is cancelled.
    """
    planned = [
        replace(spec, deadline=spec.deadline * slower)
        for spec in steps(run, probes, after_events=after_events, settings=settings)
    ]
    early = [spec for spec in planned if spec.phase is Phase.AFTER_BOOT]
    outputs = _carried_out(session, early, scope, step)
    if outputs and outputs[-1].exit_status is None:
        return tuple(outputs)
    if conductor is not None:
        conductor.before(scope=scope, step=step)
    late = planned[len(early) :]
    return (*outputs, *_carried_out(session, late, scope, step, conductor))


def _carried_out(
    session: Session,
    planned: Sequence[StepSpec],
    scope: Scope,
    step: Step,
    conductor: Conductor | None = None,
) -> list[Output]:
    """As far as they come back."""
    outputs: list[Output] = []
    for spec in planned:
        scope.check()
        step.note(
            spec.source if spec.phase is Phase.WORKLOAD else f"{spec.source}, {spec.phase.value}"
        )
        beside = conductor if spec.phase is Phase.WORKLOAD else None
        conductor = None if beside else conductor  # beside the first run of several
        with beside.during(scope=scope) if beside else nullcontext():
            # A host that is crowded by others is no fault of the kernel.
            limit, started = spec.deadline * host.crowding(), time.time()
            own = scope.child(limit)
            output = _output(spec, session.run(spec.command, scope=own), own, scope, limit)
        outputs.append(replace(output, started=started))
        scope.check()
        if outputs[-1].exit_status is None:
            break
    return outputs


def _output(spec: StepSpec, reply: Reply, own: Scope, whole: Scope, limit: float) -> Output:
    """`own` is the step's deadline after `limit` seconds, `whole` that of the boot."""
    timed_out = reply.exit_status is None and own.expired and not whole.expired
    problem = reply.problem
    if timed_out:
        problem = f"no end after {limit:.3g} s"
    return Output(
        source=spec.source,
        phase=spec.phase,
        exit_status=reply.exit_status,
        text=reply.text,
        seconds=reply.seconds,
        problem=problem,
        timed_out=timed_out,
    )
