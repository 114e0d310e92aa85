"""The keys that leave, and bytes moved between a user's ends and a peer."""

from __future__ import annotations

import os
import pty
import termios
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pipeline.terminal import Ends, Escape, Pump, raw


@pytest.mark.parametrize(
    ("typed", "sent", "left"),
    [
        (b"ls\r", b"ls\r", False),
        (b"~.", b"", True),
        (b"ls\r~.more", b"ls\r", True),
        (b"a~.b", b"a~.b", False),  # not at the start of a line
        (b"~~.", b"~.", False),  # two for one
        (b"~a", b"~a", False),
        (b"\x1d", b"\x1d", False),
    ],
)
def test_a_tilde_and_a_dot_at_the_start_of_a_line_leave(
    typed: bytes, sent: bytes, left: bool
) -> None:
    for step in (1, len(typed)):  # key by key, and all at once
        escape = Escape(tilde=True)
        got = b""
        for at in range(0, len(typed), step):
            got += b"" if escape.left else escape.feed(typed[at : at + step])
        assert (got, escape.left) == (sent, left)


def test_control_and_bracket_leave_the_console_at_once() -> None:
    escape = Escape(tilde=False)
    assert (escape.feed(b"~.\r"), escape.left) == (b"~.\r", False)
    assert (escape.feed(b"ab\x1dcd"), escape.left) == (b"ab", True)


class Echo:
    """A peer that says what it is told, five bytes at a time; digits on the error output."""

    def __init__(self) -> None:
        self._pipe = os.pipe()
        self._said: list[tuple[bool, bytes]] = []
        self._ended = False
        self.listening = True
        self.sizes: list[tuple[int, int]] = []

    def fileno(self) -> int:
        return self._pipe[0]

    def take(self) -> list[tuple[bool, bytes]]:
        said, self._said = self._said, []
        return said

    def send(self, data: bytes) -> int:
        self._said.append((data[:1].isdigit(), data[:5]))
        return min(5, len(data))

    def end_input(self) -> None:
        self._ended = True

    def resize(self, columns: int, rows: int) -> None:
        self.sizes.append((columns, rows))

    @property
    def over(self) -> bool:
        return self._ended and not self._said


@contextmanager
def pipes() -> Iterator[tuple[Ends, int, int, int]]:
    """Ends, and the other sides of stdin, stdout and stderr."""
    (a, b), (c, d), (e, f) = os.pipe(), os.pipe(), os.pipe()
    yield Ends(stdin=a, stdout=d, stderr=f), b, c, e
    for each in (a, c, d, e, f):
        os.close(each)


def test_all_that_comes_in_goes_out_and_the_streams_stay_apart() -> None:
    with pipes() as (ends, keyboard, out, err):
        os.write(keyboard, b"0123456789abcdefghij")
        os.close(keyboard)
        pump = Pump(ends, Echo())
        while pump.turn():
            pass
        assert (os.read(out, 100), os.read(err, 100)) == (b"abcdefghij", b"0123456789")


def test_nothing_is_read_before_the_peer_listens() -> None:
    with pipes() as (ends, keyboard, _, _):
        peer = Echo()
        peer.listening = False
        pump = Pump(ends, peer)
        os.write(keyboard, b"early")
        assert pump.turn()
        assert peer.take() == []
        peer.listening = True
        assert pump.turn()
        assert peer.take() == [(False, b"early")]
        os.close(keyboard)


def test_raw_mode_is_undone_whatever_happens() -> None:
    master, slave = pty.openpty()
    ends = Ends(stdin=slave, stdout=slave, stderr=slave)
    before = termios.tcgetattr(slave)
    with pytest.raises(KeyError), raw(ends):
        assert not termios.tcgetattr(slave)[3] & termios.ISIG  # Ctrl-C is a key like any other
        raise KeyError
    assert termios.tcgetattr(slave) == before
    os.close(master)
    os.close(slave)


def test_a_terminal_of_another_size_is_told_to_the_peer() -> None:
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    peer = Echo()
    pump = Pump(Ends(stdin=slave, stdout=slave, stderr=slave), peer, Escape(tilde=True))
    termios.tcsetwinsize(slave, (50, 132))
    assert pump.turn()
    assert peer.sizes == [(132, 50)]
    os.close(master)
    os.close(slave)
