"""How far a console's kernel got: whether one spoke at all, and how often it started. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipeline.consolepatterns import Patterns

RANKS = {"firmware": 1, "loader": 2, "kernel": 3}
LOOP = 4  # so many starts in one log are a loop, announced or not

_STAMPED = re.compile(rb"\[ *\d+\.\d{6}\]")
_RUNNING = re.compile(rb"\[ *(?:[1-9]\d*\.\d{6}|0\.0*[1-9]\d*)\]")  # time has passed
_UNSTAMPED = re.compile(rb"(?m)^(?!.*\[ *\d+\.\d{6}\])[ \t]*[^\s].*")  # a program's
# A kernel without time stamps prints "subsystem: words".
_SUBSYSTEM = re.compile(rb"(?m)^(?:<\d+>)?(?!qemu)[A-Za-z][\w ./-]*: \S")


@dataclass
class BootWatch:
    """`starts`: of a kernel in the log; the next three are of the last of them."""

    starts: int = 0
    banner: bool = False  # it named itself
    userspace: bool = False  # it came to its first program
    ended: bool = False  # it said that it goes down
    killed: bool = False  # its machine was ended from outside
    _seen: bool = False
    _stamped: bool = False
    _running: bool = False
    _named: bool = False
    _spoke: bool = False
    _firmware: bool = False
    _rank: int = 0

    @property
    def kernel(self) -> bool:
        """Whether there is anything of a kernel."""
        return self._stamped or self._seen or (self._named and not self._firmware)

    def sign(self, stage: str) -> str:
        """The title of what is wrong with this start of a kernel, or "".

        `heard` has been given all lines before.
        """
        if stage == "userspace":
            self.userspace = True
        elif stage == "end":
            self.ended = True
        elif stage == "killed":
            self.killed = True
        elif stage:
            return self._start(RANKS[stage])
        return ""

    def heard(self, block: bytes, patterns: Patterns) -> None:
        """These lines are past."""
        self._stamped = self._stamped or bool(_STAMPED.search(block))
        self._running = self._running or bool(_RUNNING.search(block))
        self._named = self._named or bool(_SUBSYSTEM.search(block))
        self._spoke = self._spoke or _words(block, patterns)
        if self.banner and not self.userspace:
            self.userspace = any(
                not patterns.noise.match(found[0].decode("utf-8", errors="ignore").strip())
                for found in _UNSTAMPED.finditer(block)
            )

    def _start(self, rank: int) -> str:
        if self._rank:
            again = rank < self._rank or rank == self._rank == RANKS["kernel"]
        elif rank == RANKS["firmware"]:  # nothing speaks before it
            again = self._spoke
        else:
            again = self._running
        self.starts += not self._rank
        self.killed = False
        self._rank = rank
        self._firmware = self._firmware or rank == RANKS["firmware"]
        self.banner = rank == RANKS["kernel"]
        self._seen = self._seen or self.banner
        if not again:
            return ""
        announced, self.ended, self.userspace = self.ended, False, False
        self.starts += 1
        if not announced:
            return "unexpected kernel reboot"
        return "reboot loop" if self.starts == LOOP else ""


def _words(block: bytes, patterns: Patterns) -> bool:
    """Whether anything but blank lines and words of the harness stands there."""
    return any(
        line.strip() and not patterns.noise.match(line.decode("utf-8", errors="ignore"))
        for line in block.split(b"\n")
    )
