"""Commands in a guest over ssh (Fabric), on one connection that is kept.

Only the run's own keys are used: no agent, no files of the user's, no known_hosts. A call
ends at once when the guest dies, when its scope ends or is cancelled.
"""

from __future__ import annotations

import base64
import io
import logging
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pipeline.model import NO_SSH
from pipeline.scope import Scope

USER = "root"
POLL_SECONDS = 0.005
OPEN_SECONDS = 20.0
LINGER_SECONDS = 1.0  # for output after a command's exit: something it left holds the channel

GONE = "the guest died"
LATE = "no time left"
# A shell that runs its last command in its own place would take the end of that for its own:
# those of busybox 1.35 and bash do. So it is given something to do behind it, and says 128+N.
SHELL = "exec < /dev/null 2>&1\n{command}\nexit $?"
KILLED = 128  # the exit status of a shell that a signal ended: ssh names it, paramiko does not


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a command did: stdout and stderr as they came; exit_status None with a `problem`.

    A command that signal N ended has the exit status 128+N.
    """

    exit_status: int | None
    text: str
    seconds: float
    problem: str = ""

    @property
    def ok(self) -> bool:
        return self.exit_status == 0


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """`private`: the client's key as OpenSSH PEM; `host_public`: the host's "ssh-ed25519 …"."""

    private: str
    host_public: str


def preload() -> threading.Thread:
    """Import Fabric beside what else is done: it takes a third of a second."""
    thread = threading.Thread(target=_fabric, name="fabric import", daemon=True)
    thread.start()
    return thread


def _fabric() -> Any:
    # Without a handler, paramiko's complaints about a lost connection go to stderr.
    logger = logging.getLogger("paramiko")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
    import fabric  # noqa: PLC0415

    return fabric


class SshSession:
    """An ssh connection to a guest; a context manager. `run` may be called from any thread."""

    def __init__(
        self,
        *,
        port: int,
        credentials: Credentials,
        died: threading.Event,
        host: str = "127.0.0.1",
        user: str = USER,
    ) -> None:
        self._address = (host, port)
        self._user = user
        self._credentials = credentials
        self._died = died
        self._guard = threading.Lock()
        self._socket: socket.socket | None = None
        self._connection: Any = None

    def __enter__(self) -> SshSession:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connection; running calls return."""
        if self._socket is not None:
            _shut(self._socket)
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()

    def run(self, command: str, *, scope: Scope) -> Reply:
        """Run a shell command in the guest to its end.

        Raises:
            Cancelled: the scope was cancelled.
        """
        started = time.monotonic()

        def reply(problem: str, text: str = "", status: int | None = None) -> Reply:
            seconds = time.monotonic() - started
            return Reply(exit_status=status, text=text, seconds=seconds, problem=problem)

        connection, problem = self._open(scope)
        if problem:
            return reply(problem)
        promise, problem = self._start(connection, command, scope)
        if problem:
            scope.check()
            return reply(problem)
        problem = self._await(promise.runner, scope)
        try:
            result = promise.join()
        except Exception as error:
            problem = problem or f"the connection broke: {_words(error)}"
            result = getattr(error, "result", None)
        text = result.stdout if result is not None else "".join(promise.runner.stdout)
        if problem or result is None:
            scope.check()
            return reply(self._why(problem or "the connection broke"), text)
        if result.exited < 0:  # the channel closed without a status
            scope.check()
            problem = self._why("the connection broke")
            if problem == GONE or not connection.client.get_transport().is_active():
                return reply(problem, text)
            return reply("", text, KILLED)
        return reply("", text, result.exited)

    def _start(self, connection: Any, command: str, scope: Scope) -> tuple[Any, str]:
        """Start a command: Fabric's promise of its end, or why there is none.

        A guest that hangs answers no request for a channel, and paramiko waits an hour for
        that. So it is asked in a thread, which loses the connection where time is up: the next
        call makes a new one.
        """

        def ask() -> Any:
            return connection.run(
                SHELL.format(command=command),
                asynchronous=True,
                warn=True,
                in_stream=False,
                encoding="utf-8",
            )

        if problem := _ended(self._died, scope):
            return None, problem
        outcome, problem = _beside(ask, self._died, scope)
        if problem:
            self._drop(connection)
            return None, problem
        if isinstance(outcome, Exception):
            return None, self._why(f"the connection broke: {_words(outcome)}")
        return outcome, ""

    def _drop(self, connection: Any) -> None:
        """Give a connection up; whoever still uses it gets an error at once."""
        with self._guard:
            if self._connection is connection:
                self._connection = None
                if self._socket is not None:
                    _shut(self._socket)

    def _await(self, runner: Any, scope: Scope) -> str:
        """Wait for a command; the reason why it was given up, or "". It is over on return."""
        problem = _wait(lambda: runner.process_is_finished, self._died, scope)
        limit = scope.child(LINGER_SECONDS)
        if not problem:
            _wait(lambda: not _reading(runner), self._died, limit)
        # paramiko raises EOFError, OSError and its own kinds where the guest is just going.
        with suppress(Exception):
            runner.kill()
        return problem

    def _why(self, problem: str) -> str:
        """A broken connection is most often a dead guest: give that a moment to show."""
        return GONE if self._died.wait(0.2) else problem

    def _open(self, scope: Scope) -> tuple[Any, str]:
        """The connection, made where there is none; or why there is none."""
        while not self._guard.acquire(timeout=POLL_SECONDS):
            scope.check()
            if problem := _ended(self._died, scope):
                return None, problem
        try:
            if self._connection is not None:
                return self._connection, ""
            outcome, problem = _beside(self._connect, self._died, scope.child(OPEN_SECONDS))
            if problem:
                if self._socket is not None:
                    _shut(self._socket)
                scope.check()
                return None, problem if problem == GONE else f"{NO_SSH}: {problem}"
            if isinstance(outcome, Exception):
                return None, self._why(f"{NO_SSH}: {_words(outcome)}")
            self._connection = outcome
            return outcome, ""
        finally:
            self._guard.release()

    def _connect(self) -> Any:
        self._socket = socket.create_connection(self._address, timeout=OPEN_SECONDS)
        connection = self._new_connection(self._socket)
        connection.open()
        return connection

    def _new_connection(self, sock: socket.socket) -> Any:
        fabric = _fabric()
        import paramiko  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415

        host, port = self._address
        # lazy: no configuration file of the user's is read.
        config = fabric.Config(lazy=True, overrides={"load_ssh_configs": False})
        connection = fabric.Connection(
            host=host,
            user=self._user,
            port=port,
            config=config,
            connect_kwargs={
                "sock": sock,
                "pkey": paramiko.Ed25519Key.from_private_key(
                    io.StringIO(self._credentials.private)
                ),
                "allow_agent": False,
                "look_for_keys": False,
                "banner_timeout": OPEN_SECONDS,
                "auth_timeout": OPEN_SECONDS,
            },
        )
        kind, blob = self._credentials.host_public.split()[:2]
        name = host if port == 22 else f"[{host}]:{port}"
        key = paramiko.Ed25519Key(data=base64.b64decode(blob))
        connection.client.get_host_keys().add(name, kind, key)
        connection.client.set_missing_host_key_policy(paramiko.RejectPolicy())
        return connection


def _wait(done: Callable[[], bool], died: threading.Event, scope: Scope) -> str:
    """Wait until `done`; the reason why not, or ""."""
    while not done():
        died.wait(POLL_SECONDS)
        if problem := _ended(died, scope):
            return problem
    return ""


def _ended(died: threading.Event, scope: Scope) -> str:
    """Why nothing is waited for any longer, or ""."""
    if died.is_set():
        return GONE
    if scope.cancelled:
        return "cancelled"
    return LATE if scope.expired else ""


def _beside(call: Callable[[], Any], died: threading.Event, scope: Scope) -> tuple[Any, str]:
    """What `call` gives (its exception as a value), or why it was left behind in its thread."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(call())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run, name="ssh", daemon=True)
    thread.start()
    problem = _wait(lambda: not thread.is_alive(), died, scope)
    return (None, problem) if problem else (outcome[0], "")


def _reading(runner: Any) -> bool:
    return any(thread.is_alive() for thread in runner.threads.values())


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    finally:
        sock.close()


def _words(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
