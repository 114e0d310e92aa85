"""A guest whose serial console is the user's terminal: QEMU as our own child, without libvirt.

libvirt would have to be told of a socket for the console, and the user's keys would take a way
around through it; what a guest is made of is the same (`domain.by_hand`).
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pipeline import domain
from pipeline.console import Classifier, Family, first_cause
from pipeline.domain import GuestSpec
from pipeline.errors import InfraError
from pipeline.guest import READY
from pipeline.process import with_us
from pipeline.scope import Scope
from pipeline.terminal import Ends, Escape, Pump, raw

# Not Ctrl-D: what comes before the shell has set up its terminal is kept, but for that.
END_OF_INPUT = b"\nexit\n"
# What a terminal driver surely has room for until its reader comes to it.
SCRIPT_CHUNK = 256
END_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class ConsoleEnd:
    """`cause`: what the kernel broke by, "" where it did not. `ready`: whether the guest got as
    far as its shell. `left`: the user left. `qemu`: QEMU's last words where it failed."""

    cause: str
    ready: bool
    left: bool
    qemu: str


def attend(
    spec: GuestSpec,
    *,
    families: tuple[Family, ...],
    ends: Ends,
    scope: Scope,
    boot: Scope,
) -> ConsoleEnd:
    """Boot a guest with its console on the user's ends, until it is off or the user leaves with
    Ctrl-]. Where nobody sits there, standard input is typed once the guest is ready, which it
    must be before `boot` ends.

    Raises:
        InfraError: there is no QEMU.
        Cancelled: the scope was cancelled; the guest is gone.
    """
    log = spec.console.with_name("qemu.log")
    with log.open("wb") as sink, _running(spec, sink) as process:
        peer = _Console(process, spec.console, Classifier(families), person=ends.interactive)
        pump = Pump(ends, peer, Escape(tilde=False) if ends.interactive else None)
        if ends.interactive:
            with raw(ends):
                _drive(pump, peer, scope, None)
        else:
            _drive(pump, peer, scope, boot)
        return peer.end(left=pump.left, log=log)


def _drive(pump: Pump, peer: _Console, scope: Scope, boot: Scope | None) -> None:
    while pump.turn():
        scope.check()
        if scope.expired or (boot and boot.expired and not peer.ready):
            return


def command(spec: GuestSpec) -> list[str]:
    """QEMU's command line, without its monitor on the console, whose keys are all the guest's."""
    return ["stdio" if word == "mon:stdio" else word for word in domain.by_hand(spec)]


@contextmanager
def _running(spec: GuestSpec, log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        process = subprocess.Popen(
            [*with_us(), *command(spec)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise InfraError(f"cannot run {spec.architecture.qemu}", hint="`ktrial doctor`") from error
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(END_SECONDS)
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                pipe and pipe.close()


class _Console:
    """The console as a peer. Everything that it says is kept in `log` and read for reports."""

    def __init__(
        self, process: subprocess.Popen[bytes], log: Path, classifier: Classifier, *, person: bool
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._in, self._out = process.stdin.fileno(), process.stdout.fileno()
        self._log = log
        self._classifier = classifier
        self._person = person
        self._tail = b""
        self._closed = False
        self.ready = False
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)

    def fileno(self) -> int:
        return self._out

    def take(self) -> list[tuple[bool, bytes]]:
        try:
            data = os.read(self._out, 1 << 16)
        except BlockingIOError:
            return []
        if not data:
            self._closed = True
            return []
        with self._log.open("ab") as sink:
            sink.write(data)
        self._classifier.feed(data)
        window = self._tail + data
        self._tail = window[-64:]
        self.ready = self.ready or bool(READY.search(window))
        return [(False, data)]

    def send(self, data: bytes) -> int:
        try:
            return os.write(self._in, data if self._person else data[:SCRIPT_CHUNK])
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            return len(data)

    def end_input(self) -> None:
        self.send(END_OF_INPUT)

    def resize(self, columns: int, rows: int) -> None:
        """A serial line has no way to say so; `stty` in the guest has."""

    @property
    def listening(self) -> bool:
        """What is typed before the driver is there would be lost."""
        return self.ready

    @property
    def over(self) -> bool:
        return self._closed

    def end(self, *, left: bool, log: Path) -> ConsoleEnd:
        self._classifier.finish()
        cause = first_cause(self._classifier.findings)
        failed = self._closed and self._process.wait(END_SECONDS) != 0
        words = log.read_text(errors="replace").strip().splitlines()[-2:] if failed else []
        return ConsoleEnd(
            cause=f"{cause.kind}: {cause.title}" if cause else "",
            ready=self.ready,
            left=left,
            qemu=": ".join(["QEMU failed", *words]) if failed else "",
        )
