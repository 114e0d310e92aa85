"""The only two exceptions that ktrial raises on purpose, and the one for Ctrl-C.

Outcomes that a run may have (a patch that does not apply, a build that breaks,
a guest that panics) are values, not exceptions.
"""

from __future__ import annotations

from typing import ClassVar


class KtrialError(Exception):
    """Something that ends a run or a part of it: what failed, and what to do next."""

    exit_code: ClassVar[int] = 3
    # `git bisect run` skips a commit at 125; it takes 1 to 124 for "bad", and stops at 128.
    bisect_code: ClassVar[int] = 125

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UserError(KtrialError):
    """The input is wrong: exit 2. The message names the thing, the hint says what to type."""

    exit_code: ClassVar[int] = 2
    bisect_code: ClassVar[int] = 128


class InfraError(KtrialError):
    """The host or the harness is at fault, never the series: exit 3."""

    exit_code: ClassVar[int] = 3


class Cancelled(Exception):
    """The run was asked to stop (Ctrl-C, SIGTERM); whoever waits lets go at once."""
