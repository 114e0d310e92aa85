"""What one boot says of the kernel that ran in it, and several boots together. Pure.

An observation is one of: good, faulty (the code that ran is at fault), harness (we or the host
are), cut, blocked by something else, or unsupported. Nothing observed is never good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from pipeline import metrics
from pipeline.model import (
    NO_SSH,
    BootResult,
    EventResult,
    EventState,
    Finding,
    Output,
    Phase,
    Stop,
)
from pipeline.slots import SHAPE, What

OOM = "oom"  # the kind of report
CONSOLE_LOG = "console.log"  # below a boot's folder
TAIL_CHARACTERS = 4000
NOT_STARTED = frozenset({126, 127})  # the shell's: not executable, not found
# Of a test that a workload reported; other words say that it came to no result of its own.
PASSES = frozenset({"passed", "xfail", "todo"})
FAILS = frozenset({"failed", "timeout", "error"})
SKIPPED = "skipped"


class State(Enum):
    """What was seen of a case, before anyone is charged."""

    GOOD = "good"
    FAULTY = "faulty"
    HARNESS = "harness"
    CUT = "cut"
    BLOCKED = "blocked"
    UNSUPPORTED = "unsupported"
    UNCLEAR = "unclear"  # a trial that could not tell
    IDENTICAL = "identical"  # the kernel is the one below it, bit for bit


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that the code under test did wrong; the same `key` is the same fault.

    `title` has nothing that differs from boot to boot, `text` may. `fatal`: the step, or the
    kernel, got no further. `by_load`: a busy host alone can bring it about, `shared`: and
    we ourselves kept it busy. `waited`: seconds that a step without end was given. It came in
    `boots` of the `of` boots looked at. `known`: the note of a known issue.
    """

    kind: str
    title: str
    text: str
    file: str = ""
    fatal: bool = False
    by_load: bool = False
    shared: bool = False
    waited: float = 0.0
    boots: int = 1
    of: int = 1
    known: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.title


@dataclass(frozen=True, kw_only=True)
class Observation:
    """`reason` is one line; `evidence` a path as the stages gave it; `seconds` of a good one.

    `short`: what ended it before its time, where no boot got to the end: what would have come
    behind that is not known. `no_ssh`: the guest lived, and ssh did not connect.
    """

    state: State
    reason: str = ""
    evidence: str = ""
    detail: str = ""
    seconds: float = 0.0
    faults: tuple[Fault, ...] = ()
    short: str = ""
    no_ssh: bool = False


def blocked(needs: str, by: Observation) -> Observation:
    """Not run because of `by`; what stopped that one is named, not the chain behind it."""
    if by.state in {State.CUT, State.UNSUPPORTED, State.IDENTICAL}:
        return Observation(state=by.state, reason=by.reason)
    reason = by.reason if by.state is State.BLOCKED else f"needs {needs}: {by.reason}"
    return Observation(state=State.BLOCKED, reason=reason, evidence=by.evidence)


# --------------------------------------------------------------------------- one boot


def boot_view(result: BootResult) -> Observation:
    """The kernel came up and kept its console clean, apart from what a step is to blame for."""
    trouble = _trouble(result)
    if trouble and not _underway(result):
        return trouble
    assert result.ready is not None  # or it is in trouble
    short = trouble.reason if trouble else ""
    faults = _complaints(result)
    if not faults:
        return Observation(
            state=State.GOOD,
            evidence=str(result.folder),
            seconds=max(0.0, result.ready - result.started),
            short=short,
        )
    if trouble and trouble.state is not State.FAULTY:
        return trouble  # a host in trouble makes kernels complain: nothing of it is charged
    return Observation(
        state=State.FAULTY,
        reason=faults[0].text,
        evidence=str(result.folder / CONSOLE_LOG),
        detail=_reports(result),
        faults=faults,
        short=short,
    )


def source_view(
    result: BootResult,
    source: str,
    *,
    what: What,
    needs_numbers: bool = False,
    needs_tests: bool = False,
) -> Observation:
    """A workload or probe in one boot: it ended well, and what it told could be read."""
    trouble = _trouble(result)
    if trouble and _underway(result) == source:
        return trouble
    outputs = [output for output in result.outputs if output.source == source]
    bad = next((output for output in outputs if output.exit_status != 0 or output.problem), None)
    if bad:
        return _bad_output(bad, result, what)
    # Which phases a probe still had before it is not known here: a boot in trouble read none
    # of them for certain. A workload is read once.
    if trouble and (what is What.PROBE or not outputs or result.ready is None):
        return blocked(_underway(result) or "the boot", trouble)
    if not outputs:
        return Observation(state=State.HARNESS, reason=f"{source}: no result came back")
    unread = next((text for text in result.problems if metrics.concerns(text, source)), "")
    if not unread and needs_numbers and all(s.source != source for s in result.samples):
        unread = f"{source}: no number was read"
    if unread:
        return _harness(unread, result, detail=_tail(outputs[-1]))
    good = Observation(
        state=State.GOOD,
        evidence=str(result.folder),
        seconds=sum(output.seconds for output in outputs),
    )
    return (_untested(result, outputs[-1]) if needs_tests else None) or good


def _untested(result: BootResult, last: Output) -> Observation | None:
    """Of a workload that came to its end and ran no test, which is no pass."""
    if any(test.status in PASSES | FAILS for test in result.tests):
        return None
    count = len(result.tests)
    if count and all(test.status == SKIPPED for test in result.tests):
        reason = f"{last.source}: no test ran: {count} skipped, such as {result.tests[0].name}"
        return Observation(state=State.UNSUPPORTED, reason=reason, evidence=str(result.folder))
    return _harness(f"{last.source}: no test came to a result", result, detail=_tail(last))


def shape_view(result: BootResult) -> Observation:
    """The guest that came up is the one that its shape describes."""
    trouble = _trouble(result)
    if trouble and _underway(result) == SHAPE:
        return trouble  # no other case stands for what happened then
    if result.differences is None or result.ready is None:
        if trouble:
            return blocked(_underway(result) or "the boot", trouble)
        return Observation(state=State.HARNESS, reason="the guest's own view was not read")
    if result.differences and trouble and trouble.state is not State.FAULTY:
        return blocked("the boot", trouble)  # a host in trouble: nothing of it is charged
    if result.differences:
        faults = tuple(Fault(kind="shape", title=each, text=each) for each in result.differences)
        return Observation(
            state=State.FAULTY,
            reason="; ".join(result.differences),
            evidence=str(result.folder),
            faults=faults,
        )
    return Observation(state=State.GOOD, evidence=str(result.folder))


_EVENT_STATES = {
    EventState.GOOD: State.GOOD,
    EventState.FAILED: State.FAULTY,
    EventState.UNSUPPORTED: State.UNSUPPORTED,
    EventState.HARNESS: State.HARNESS,
}


def event_view(result: BootResult, label: str) -> Observation:
    """What the host did, what the guest saw, and whether they agree."""
    found = next((each for each in result.events if each.label == label), EventResult(label=label))
    if found.state is EventState.NOT_RUN or result.ready is None:
        if trouble := _trouble(result):
            return blocked(_underway(result) or "the boot", trouble)
        reason = found.reason or "no result came back"
        if found.reason and _went_wrong(result):
            return Observation(state=State.BLOCKED, reason=reason, evidence=str(result.folder))
        return Observation(state=State.HARNESS, reason=reason, evidence=str(result.folder))
    failed = found.state is EventState.FAILED
    if failed and (trouble := _trouble(result)) and trouble.state is not State.FAULTY:
        return blocked("the boot", trouble)  # a host in trouble: nothing of it is charged
    words = (("host", found.host), ("guest", found.guest))
    # Of several events that fail alike each is a fault of its own.
    fault = Fault(kind="event", title=f"{label}: {found.title or found.reason}", text=found.reason)
    return Observation(
        state=_EVENT_STATES[found.state],
        reason="" if found.state is EventState.GOOD else found.reason,
        evidence=str(result.folder),
        detail="\n".join(f"{who}: {what}" for who, what in words if what),
        seconds=found.seconds,
        faults=(fault,) if failed else (),
    )


def _went_wrong(result: BootResult) -> bool:
    """Whether another event, or the workload, has a case of its own that tells of it."""
    bad = {EventState.FAILED, EventState.HARNESS}
    return any(event.state in bad for event in result.events) or any(
        output.phase is Phase.WORKLOAD and output.exit_status != 0 for output in result.outputs
    )


def _trouble(result: BootResult) -> Observation | None:
    """What ended this boot's work before its end, if anything did."""
    if result.stop is Stop.INFRA:
        return _harness(result.reason or "infrastructure fault", result)
    if result.stop is Stop.CUT:
        return Observation(
            state=State.CUT, reason=result.reason or "cut short", evidence=str(result.folder)
        )
    fatal = [finding for finding in result.findings if finding.fatal]
    if fatal or result.stop in {Stop.KERNEL, Stop.HANG}:
        return _broke(result, fatal)
    if result.ready is None:
        return _harness("the guest never said that it is ready", result)
    last = result.outputs[-1] if result.outputs else None
    return _unanswered(last, result) if last and last.exit_status is None else None


def _unanswered(last: Output, result: BootResult) -> Observation:
    """A step that never came back from a guest that lives on."""
    if last.timed_out and last.phase is Phase.WORKLOAD:
        text = f"{last.source}: {last.problem or 'no end within its deadline'}"
        fault = Fault(
            kind="timeout",
            title=last.source,
            text=text,
            fatal=True,
            by_load=_emulated(result),
            waited=last.seconds,
        )
        return _faulty((fault,), result, evidence=str(result.folder), detail=_tail(last))
    # The kernel itself killed who was to answer: where base does not, that is the patch's.
    if killed := [each for each in result.findings if each.kind == OOM]:
        return _broke(result, killed)
    silent = _harness(f"{last.source}: {last.problem or 'no answer'}", result)
    return replace(silent, no_ssh=last.problem.startswith(NO_SSH))


def _broke(result: BootResult, fatal: Sequence[Finding]) -> Observation:
    """A kernel that crashed, hung or left. The first fatal report is the cause of the rest."""
    underway = _underway(result)
    if fatal:
        fault = _reported(fatal[0], result)
    elif result.stop is Stop.HANG:
        text = result.reason or "the guest does not answer"
        fault = Fault(kind="hang", title=_doing(result), text=text, fatal=True)
    else:
        text = result.reason or "the guest ended by itself"
        title = f"{text.partition('; ')[0]} {_doing(result)}"  # what is behind it changes
        fault = Fault(kind="kernel", title=title, text=text, fatal=True)
    if underway:
        fault = replace(fault, text=f"during {underway}: {fault.text}")
    return _faulty(
        (fault,),
        result,
        evidence=str(result.folder / CONSOLE_LOG),
        detail=_reports(result),
    )


def _reports(result: BootResult) -> str:
    """What the kernel reported, with file and line where they are known."""
    return "\n\n".join(each.decoded or each.excerpt for each in result.findings)


def _underway(result: BootResult) -> str:
    """The step that never came back; "" while booting and between steps."""
    if result.ready is None or not result.outputs:
        return ""
    last = result.outputs[-1]
    return last.source if last.exit_status is None else ""


def _doing(result: BootResult) -> str:
    if result.ready is None:
        return "during boot"
    underway = _underway(result)
    return f"during {underway}" if underway else "between steps"


def _emulated(result: BootResult) -> bool:
    return result.accelerator.name == "tcg"


def _bad_output(output: Output, result: BootResult, what: What) -> Observation:
    """A bad exit of a workload is charged; a probe is our own tool, so that is our fault."""
    status = output.exit_status
    if status is None or status == 0:
        return _harness(f"{output.source}: {output.problem or 'no answer'}", result)
    text = f"{output.source} exited with {status}"
    if what is What.PROBE or status in NOT_STARTED:
        where = f" in phase {output.phase.value}" if what is What.PROBE else ""
        return _harness(f"{text}{where}: {_last_line(output)}", result, detail=_tail(output))
    fault = Fault(kind="exit", title=text, text=f"{text}: {_last_line(output)}".rstrip(": "))
    return _faulty((fault,), result, evidence=str(result.folder), detail=_tail(output))


def _complaints(result: BootResult) -> tuple[Fault, ...]:
    """What the kernel reported and survived."""
    return tuple(_reported(finding, result) for finding in result.findings if not finding.fatal)


def _reported(finding: Finding, result: BootResult) -> Fault:
    times = f" ({finding.count} times)" if finding.count > 1 else ""
    return Fault(
        kind=finding.kind,
        title=finding.title,
        text=f"{finding.title}{times}",
        fatal=finding.fatal,
        # A vCPU that its host does not run looks the same as one that is stuck.
        by_load=finding.kind == "hang" and not finding.fatal and _emulated(result),
        shared=result.shared,
        known=finding.known,
    )


def _faulty(
    faults: tuple[Fault, ...], result: BootResult, *, evidence: str, detail: str
) -> Observation:
    faults = faults if _underway(result) else (*faults, *_complaints(result))
    return Observation(
        state=State.FAULTY,
        reason=faults[0].text,
        evidence=evidence,
        detail=detail,
        faults=faults,
        short=faults[0].text if faults[0].fatal else "",
    )


def _harness(reason: str, result: BootResult, *, detail: str = "") -> Observation:
    return Observation(
        state=State.HARNESS, reason=reason, evidence=str(result.folder), detail=detail
    )


def _last_line(output: Output) -> str:
    lines = [line.strip() for line in output.text.splitlines() if line.strip()]
    return lines[-1][-200:] if lines else ""


def _tail(output: Output) -> str:
    return output.text[-TAIL_CHARACTERS:]
