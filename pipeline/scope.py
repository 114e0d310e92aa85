"""A shared deadline and a shared cancel flag, handed down to everything that waits."""

from __future__ import annotations

import threading
import time

from pipeline.errors import Cancelled


class Scope:
    """How long something may still take, and whether it should stop at once.

    A child never outlives its parent's deadline, and cancelling a parent
    cancels its children. All times are seconds of the monotonic clock.
    """

    def __init__(self, seconds: float | None = None, *, parent: Scope | None = None) -> None:
        self._flag: threading.Event = parent._flag if parent else threading.Event()
        ends = [parent._end] if parent and parent._end is not None else []
        if seconds is not None:
            ends.append(time.monotonic() + seconds)
        self._end: float | None = min(ends, default=None)

    def child(self, seconds: float | None = None) -> Scope:
        """A scope that ends after `seconds` or with this one, whichever is first."""
        return Scope(seconds, parent=self)

    def cancel(self) -> None:
        """Tell everyone who waits on this scope or its relatives to stop."""
        self._flag.set()

    @property
    def cancelled(self) -> bool:
        return self._flag.is_set()

    @property
    def expired(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    def remaining(self, at_most: float | None = None) -> float | None:
        """Seconds left, never below 0; None where there is no limit."""
        left = None if self._end is None else max(0.0, self._end - time.monotonic())
        if at_most is None:
            return left
        return at_most if left is None else min(left, at_most)

    def check(self) -> None:
        """Raise Cancelled where the run was asked to stop."""
        if self.cancelled:
            raise Cancelled

    def sleep(self, seconds: float) -> None:
        """Wait, no longer than the deadline; raise Cancelled as soon as cancelled."""
        if self._flag.wait(self.remaining(seconds)):
            raise Cancelled
