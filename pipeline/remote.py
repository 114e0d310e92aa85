"""A command or a shell in a guest over ssh, joined to the user's own input and output.

Beside `session`, whose commands have no input and give their output at their end.
"""

from __future__ import annotations

import base64
import io
import shlex
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any

from pipeline.errors import InfraError
from pipeline.scope import Scope
from pipeline.session import USER, Credentials
from pipeline.terminal import Ends, Escape, Pump, raw

OPEN_SECONDS = 20.0
LINGER_SECONDS = 1.0  # for output behind a command's exit: something it left holds the channel
DEATH_SECONDS = 0.5  # a connection that breaks is most often a guest that dies: let that show
# In a shell within the one that ssh starts, which says 128+N where a signal ends the inner one:
# paramiko does not name it.
COMMAND = '"$SHELL" -c {command}\nexit $?'
SCRIPT = "sh -s\nexit $?"


@dataclass(frozen=True, kw_only=True)
class Exit:
    """How it ended: the exit status, or None with a `problem`. `left`: the user broke it off."""

    status: int | None
    problem: str = ""
    left: bool = False


@dataclass(frozen=True, kw_only=True)
class Line:
    """A way into a guest: its port here, the keys, and the flag that says that it is dead."""

    port: int
    credentials: Credentials
    died: threading.Event


def run(
    line: Line,
    command: str | None,
    *,
    ends: Ends,
    terminal: str,
    scope: Scope,
) -> Exit:
    """Run a command with the user's input and output; without one a shell, interactive where a
    person sits there, else for the script that standard input is.

    `terminal`: the value of TERM. stdout and stderr stay apart, but for an interactive shell.

    Raises:
        InfraError: no connection comes about.
        Cancelled: the scope was cancelled.
    """
    interactive = command is None and ends.interactive
    try:
        with _connected(line) as transport:
            channel = _channel(transport, command, terminal if interactive else "", ends)
            peer = _Channel(channel)
            pump = Pump(ends, peer, Escape(tilde=True) if interactive else None)
            if interactive:
                with raw(ends):
                    _drive(pump, line, scope)
            else:
                _drive(pump, line, scope)
            return _exit(channel, pump, line)
    except (OSError, EOFError, _ssh_error()) as error:
        if line.died.wait(DEATH_SECONDS):
            return Exit(status=None, problem="the guest died")
        raise InfraError(f"no ssh connection to the guest: {error}") from error


def _drive(pump: Pump, line: Line, scope: Scope) -> None:
    while pump.turn():
        scope.check()
        if line.died.is_set() or scope.expired:
            return


def _exit(channel: Any, pump: Pump, line: Line) -> Exit:
    if pump.left:
        return Exit(status=None, problem="left", left=True)
    if channel.exit_status_ready() and channel.exit_status >= 0:
        return Exit(status=channel.exit_status)
    if line.died.wait(DEATH_SECONDS):
        return Exit(status=None, problem="the guest died")
    if channel.exit_status_ready():  # ended by a signal, which paramiko does not name
        return Exit(status=128)
    return Exit(status=None, problem="the connection broke")


def _connected(line: Line) -> Any:
    import paramiko  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415

    sock = socket.create_connection(("127.0.0.1", line.port), timeout=OPEN_SECONDS)
    transport = paramiko.Transport(sock)
    transport.banner_timeout = transport.auth_timeout = OPEN_SECONDS
    blob = line.credentials.host_public.split()[1]
    try:
        transport.connect(
            hostkey=paramiko.Ed25519Key(data=base64.b64decode(blob)),
            username=USER,
            pkey=paramiko.Ed25519Key.from_private_key(io.StringIO(line.credentials.private)),
        )
    except BaseException:
        transport.close()
        raise
    return transport


def _ssh_error() -> type[Exception]:
    import paramiko  # noqa: PLC0415

    found: type[Exception] = paramiko.SSHException
    return found


def _channel(transport: Any, command: str | None, terminal: str, ends: Ends) -> Any:
    channel = transport.open_session(timeout=OPEN_SECONDS)
    if terminal:
        columns, rows = ends.size
        channel.get_pty(terminal, columns, rows)
        channel.invoke_shell()
    else:
        channel.exec_command(
            SCRIPT if command is None else COMMAND.format(command=shlex.quote(command))
        )
    channel.setblocking(0)
    return channel


class _Channel:
    """A paramiko channel as a peer."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._ended: float | None = None
        self.listening = True

    def fileno(self) -> int:
        return int(self._channel.fileno())

    def take(self) -> list[tuple[bool, bytes]]:
        found: list[tuple[bool, bytes]] = []
        while self._channel.recv_ready() and (data := self._channel.recv(1 << 16)):
            found.append((False, data))
        while self._channel.recv_stderr_ready() and (data := self._channel.recv_stderr(1 << 16)):
            found.append((True, data))
        return found

    def send(self, data: bytes) -> int:
        if self._channel.closed or self._channel.exit_status_ready():
            return len(data)  # nobody reads it any more
        if not self._channel.send_ready():
            time.sleep(0.005)
            return 0
        return int(self._channel.send(data))

    def end_input(self) -> None:
        if not self._channel.closed:
            self._channel.shutdown_write()

    def resize(self, columns: int, rows: int) -> None:
        if not self._channel.closed:
            self._channel.resize_pty(columns, rows)

    @property
    def over(self) -> bool:
        if self._channel.recv_ready() or self._channel.recv_stderr_ready():
            return False
        if self._channel.closed:
            return True
        if not self._channel.exit_status_ready():
            return False
        if self._channel.eof_received:
            return True
        self._ended = self._ended or time.monotonic()
        return time.monotonic() - self._ended > LINGER_SECONDS
