"""Who of us keeps the host busy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Crowd:
    """Tells a boot whether it ever had company: other guests, or a build."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._members: dict[object, bool] = {}  # each with whether it was alone so far

    @contextmanager
    def member(self) -> Iterator[Callable[[], bool]]:
        """While the context lasts; what it gives answers whether nobody else was there."""
        me = object()
        with self._lock:
            for each in self._members:
                self._members[each] = False
            self._members[me] = not self._members
        try:
            yield lambda: self._members[me]
        finally:
            with self._lock:
                del self._members[me]
