"""The user's terminal, or what stands in its place, joined to a stream of bytes."""

from __future__ import annotations

import os
import select
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

TICK_SECONDS = 0.05
CHUNK = 1 << 15


@dataclass(frozen=True, kw_only=True)
class Ends:
    """File descriptors of standard input, output and error."""

    stdin: int = 0
    stdout: int = 1
    stderr: int = 2

    @property
    def interactive(self) -> bool:
        """Whether a person sits there."""
        return os.isatty(self.stdin) and os.isatty(self.stdout)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        with suppress(OSError):
            found = os.get_terminal_size(self.stdout)
            if found.columns and found.lines:
                return found.columns, found.lines
        return 80, 24


class Escape:
    """Looks for what leaves in the keys that are typed: Ctrl-], or `~.` at the start of a line.

    Pure. Each is looked for where it is asked for.
    """

    def __init__(self, *, tilde: bool) -> None:
        self._tilde = tilde
        self._fresh = True  # at the start of a line
        self._held = b""  # a tilde that may be the first half
        self.left = False

    def feed(self, typed: bytes) -> bytes:
        """What of it is to be sent on; `left` is set where the rest is not wanted any more."""
        out = b""
        for key in (typed[at : at + 1] for at in range(len(typed))):
            if self._leaves(key):
                self.left = True
                return out
            if self._tilde and self._fresh and key == b"~" and not self._held:
                self._held = key
                continue
            # `~~` sends one tilde.
            out += key if self._held and key == b"~" else self._held + key
            self._held = b""
            self._fresh = key in b"\r\n"
        return out

    def _leaves(self, key: bytes) -> bool:
        return key == b"." and bool(self._held) if self._tilde else key == b"\x1d"


class Peer(Protocol):
    """The other side. Nothing in it blocks."""

    def fileno(self) -> int:
        """A descriptor that is readable as soon as there is something to take."""

    def take(self) -> list[tuple[bool, bytes]]:
        """What came since: (whether it goes to standard error, bytes)."""

    def send(self, data: bytes) -> int:
        """How many of the bytes were taken."""

    def end_input(self) -> None:
        """There is no more input."""

    def resize(self, columns: int, rows: int) -> None:
        """The user's terminal has this size now."""

    @property
    def listening(self) -> bool:
        """Whether input may be sent yet."""

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""


@contextmanager
def raw(ends: Ends) -> Iterator[None]:
    """The terminal in raw mode: every key, Ctrl-C too, goes to the other side. As it was after."""
    before = termios.tcgetattr(ends.stdin)
    try:
        tty.setraw(ends.stdin, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(ends.stdin, termios.TCSADRAIN, before)


class Pump:
    """Moves bytes between the user's ends and a peer, until that is over or the user leaves."""

    def __init__(self, ends: Ends, peer: Peer, escape: Escape | None = None) -> None:
        self._ends = ends
        self._peer = peer
        self._escape = escape
        self._pending = b""
        self._open = True
        self._size = ends.size

    @property
    def left(self) -> bool:
        """Whether the user left."""
        return self._escape is not None and self._escape.left

    def turn(self) -> bool:
        """Wait for a moment, and move what there is; False where it is over."""
        asked = [self._peer.fileno()]
        hungry = self._open and not self._pending and self._peer.listening
        if hungry:
            asked.append(self._ends.stdin)
        ready = select.select(asked, [], [], TICK_SECONDS)[0]
        moved = self._deliver()
        if hungry and self._ends.stdin in ready:
            self._read()
        elif ready and not moved:  # it has closed its output, and is not over yet
            time.sleep(TICK_SECONDS)
        if self._pending:
            self._pending = self._pending[self._peer.send(self._pending) :]
        if self._escape and (size := self._ends.size) != self._size:
            self._size = size
            self._peer.resize(*size)
        if self._peer.over:
            self._deliver()
            return False
        return not self.left

    def _deliver(self) -> bool:
        """Hand on what came; whether there was anything."""
        came = self._peer.take()
        for is_error, data in came:
            _write(self._ends.stderr if is_error else self._ends.stdout, data)
        return bool(came)

    def _read(self) -> None:
        try:
            data = os.read(self._ends.stdin, CHUNK)
        except OSError:  # the terminal is gone
            data = b""
        if not data:
            self._open = False
            self._peer.end_input()
        self._pending = self._escape.feed(data) if self._escape else data


def _write(descriptor: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            select.select([], [descriptor], [], TICK_SECONDS)
