"""The one function that runs a subprocess.

It logs the quoted command, keeps the output in a file as it comes, honours a
shared deadline, and kills the whole process group when that passes or when the
run is cancelled. (Git is driven through GitPython instead; see `repository`.)
"""

from __future__ import annotations

import os
import selectors
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pipeline.errors import InfraError
from pipeline.scope import Scope

POLL_SECONDS = 0.1
WATCH_SECONDS = 0.1
WATCH_SHARE = 20  # watching takes at most one part in so many of the time,
WATCH_LATEST = 1.0  # but is done at least so often (s)
GRACE_SECONDS = 2.0
KEEP_BYTES = 8 << 20  # of the output in memory: half from its head, half from its tail
LOG_BYTES = 256 << 20  # of one command's output in a log
LINE_BYTES = 64 << 10  # of one line for `on_line`

# A child ends with us, even where we are killed. The kernel sends the signal when the
# *thread* that started the child ends, and `run` waits in that thread. (A preexec_fn that
# called prctl(2) would not be safe with threads.) setpriv is part of util-linux.
SETPRIV = "/usr/bin/setpriv"
WITH_US = (SETPRIV, "--pdeathsig", "KILL", "--")


@dataclass(frozen=True, kw_only=True)
class Completed:
    """What a command did. `output` is stdout and stderr as they came, or stdout alone.

    Of more than KEEP_BYTES the middle is left out, and said to be. `stopped`: what the command
    did for which its watch had it ended (“took more than 18 GB of memory”), else "".
    """

    argv: tuple[str, ...]
    exit_code: int
    timed_out: bool
    seconds: float
    output: bytes
    stopped: str = ""

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and not self.timed_out and not self.stopped

    @property
    def text(self) -> str:
        return self.output.decode("utf-8", errors="replace")

    @property
    def command(self) -> str:
        return shlex.join(self.argv)


def run(
    argv: Sequence[str | Path],
    *,
    scope: Scope,
    log: Path | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    merge_stderr: bool = True,
    on_line: Callable[[str], None] | None = None,
    watch: Callable[[], str] | None = None,
    pass_fds: Collection[int] = (),
) -> Completed:
    """Run a command to its end and return what it did; it raises nothing for a bad exit.

    `log`: appended to, with the quoted command as its first line. `on_line`: called
    with each whole line of output, for progress. At most LOG_BYTES of the output go into the
    log. `merge_stderr=False` keeps stderr out
    of `output` (it still goes to the log). `env` is the whole environment of the
    command; None hands on this process's own. `watch` is called several times a second, and
    ends the command with the reason that it gives. `pass_fds`: descriptors that the command gets.

    Raises:
        InfraError: the program is not there.
        Cancelled: the run was cancelled; the process group is gone by then.
    """
    words = tuple(str(word) for word in argv)
    with open(log or os.devnull, "ab") as sink:
        sink.write(f"$ {shlex.join(words)}\n".encode())
        sink.flush()
        started = time.monotonic()
        process = _start(
            words,
            sink,
            cwd=cwd,
            env=env,
            has_stdin=stdin is not None,
            merge_stderr=merge_stderr,
            pass_fds=pass_fds,
        )
        turn = _Turn(scope, watch)
        pump = _Pump(process, stdin, sink, on_line)
        with process:
            try:
                finished = pump.drain(turn)
            finally:
                _kill_group(process)
    return Completed(
        argv=words,
        exit_code=process.returncode,
        timed_out=not finished and not turn.stopped,
        seconds=time.monotonic() - started,
        output=pump.output.content,
        stopped=turn.stopped,
    )


def check(completed: Completed, what: str, *, hint: str = "") -> Completed:
    """Return `completed`, or raise InfraError with its last lines where it failed."""
    if completed.ok:
        return completed
    how = "took too long" if completed.timed_out else f"exited with {completed.exit_code}"
    how = completed.stopped or how
    lines = [line for line in completed.text.splitlines() if line.strip()]
    raise InfraError(f"{what} {how}: {' | '.join(lines[-3:])[-600:]}", hint=hint)


def _start(
    words: tuple[str, ...],
    sink: IO[bytes],
    *,
    cwd: Path | None,
    env: Mapping[str, str] | None,
    has_stdin: bool,
    merge_stderr: bool,
    pass_fds: Collection[int],
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            (*with_us(), *_found(words, cwd, env)),
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE if has_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge_stderr else sink,
            start_new_session=True,
            pass_fds=pass_fds,
        )
    except FileNotFoundError as error:
        missing = cwd if cwd and not cwd.is_dir() else words[0]
        raise InfraError(
            f"cannot run {words[0]}: {missing} is not there",
            hint="`ktrial doctor` tells how to get it",
        ) from error


def with_us() -> tuple[str, ...]:
    """What comes before a command so that it ends with the thread that starts it."""
    return WITH_US if Path(SETPRIV).exists() else ()


def _found(
    words: tuple[str, ...], cwd: Path | None, env: Mapping[str, str] | None
) -> tuple[str, ...]:
    """The command with its program found: setpriv would tell a missing one by an exit code."""
    folders = None if env is None else env.get("PATH", os.defpath)  # None: this process's own
    program = str((cwd or Path()) / words[0]) if "/" in words[0] else words[0]
    if shutil.which(program, path=folders) is None:
        raise FileNotFoundError(words[0])
    return words


class _Kept:
    """Output of which only the head and the tail are held in memory."""

    def __init__(self) -> None:
        self._head, self._tail, self._left_out = bytearray(), bytearray(), 0

    def add(self, chunk: bytes) -> None:
        half = KEEP_BYTES // 2
        room = max(0, half - len(self._head))
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > KEEP_BYTES:  # not at each chunk: it moves all that is kept
            self._left_out += len(self._tail) - half
            del self._tail[:-half]

    @property
    def content(self) -> bytes:
        note = f"\n[{self._left_out} bytes left out]\n".encode() if self._left_out else b""
        return bytes(self._head) + note + bytes(self._tail)


class _Log:
    """A command's output in its log, up to LOG_BYTES."""

    def __init__(self, sink: IO[bytes]) -> None:
        self._sink, self._room = sink, LOG_BYTES

    def add(self, chunk: bytes) -> None:
        if self._room <= 0:
            return
        self._sink.write(chunk[: self._room])
        self._room -= len(chunk)
        if self._room <= 0:
            self._sink.write(b"\n[ktrial: the rest of the output is left out]\n")
        self._sink.flush()


class _Turn:
    """Whether a command may go on: its deadline, the cancel flag, and its watch."""

    def __init__(self, scope: Scope, watch: Callable[[], str] | None) -> None:
        self.scope, self._watch = scope, watch
        self.stopped, self._next = "", 0.0

    @property
    def goes_on(self) -> bool:
        """Asked over and over; raises Cancelled."""
        self.scope.check()
        now = time.monotonic()
        if self._watch and now >= self._next and not self.stopped:
            self.stopped = self._watch()
            cost = time.monotonic() - now
            self._next = now + cost + min(WATCH_LATEST, max(WATCH_SECONDS, cost * WATCH_SHARE))
        return not self.stopped and not self.scope.expired


class _Pump:
    """Moves a command's bytes until it closes its output."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        stdin: bytes | None,
        sink: IO[bytes],
        on_line: Callable[[str], None] | None,
    ) -> None:
        assert process.stdout is not None
        self._process = process
        self._stdout = process.stdout
        self._pending = stdin or b""
        self._log = _Log(sink)
        self._on_line = on_line
        self._partial = b""
        self.output = _Kept()

    def drain(self, turn: _Turn) -> bool:
        """True where the command ended by itself, False where it has to be ended."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ, self._read)
            if self._process.stdin is not None:
                os.set_blocking(self._process.stdin.fileno(), False)
                selector.register(self._process.stdin, selectors.EVENT_WRITE, self._feed)
            while turn.goes_on:
                for key, _ in selector.select(turn.scope.remaining(POLL_SECONDS)):
                    if not key.data():
                        selector.unregister(key.fileobj)
                        if key.fileobj is self._stdout:
                            return _wait(self._process, turn)
        return False

    def _read(self) -> bool:
        chunk = os.read(self._stdout.fileno(), 1 << 16)
        self.output.add(chunk)
        self._log.add(chunk)
        if self._on_line:
            *lines, rest = (self._partial + chunk).split(b"\n")
            self._partial = rest[:LINE_BYTES]
            for line in lines:
                self._on_line(line.decode("utf-8", errors="replace"))
        return bool(chunk)

    def _feed(self) -> bool:
        assert self._process.stdin is not None
        try:
            sent = os.write(self._process.stdin.fileno(), self._pending[: 1 << 16])
            self._pending = self._pending[sent:]
        except BrokenPipeError:
            self._pending = b""
        if not self._pending:
            self._process.stdin.close()
        return bool(self._pending)


def _wait(process: subprocess.Popen[bytes], turn: _Turn) -> bool:
    """Wait for a command that has closed its output; False where it has to be ended."""
    while process.poll() is None:
        if not turn.goes_on:
            return False
        time.sleep(0.005)
    return True


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End whatever is left of the command's session: politely, then not."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, signum)
        except (ProcessLookupError, PermissionError):
            break
        if process.poll() is not None:
            continue
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
