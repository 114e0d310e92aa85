"""Progress for people: a live line per step on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

PLAIN_SECONDS = 2.0
HEARTBEAT_SECONDS = 20.0


class Step(Protocol):
    """One thing that is being done."""

    def note(self, text: str) -> None:
        """Say what it is doing now (shown behind the title, on a terminal at once)."""


class Reporter(Protocol):
    """Where steps are shown. Steps may run side by side, in any thread."""

    def step(self, title: str) -> AbstractContextManager[Step]: ...

    def say(self, text: str) -> None:
        """A line that stays."""


class _PlainStep:
    def __init__(self) -> None:
        self.text = ""

    def note(self, text: str) -> None:
        self.text = text


class QuietReporter:
    """Shows nothing."""

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:  # noqa: ARG002
        yield _PlainStep()

    def say(self, text: str) -> None:
        pass


class PlainReporter:
    """Whole lines: a step is named once it takes over two seconds, then now and again."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        with self._lock:
            print(text, file=self._out, flush=True)

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        step, done, started = _PlainStep(), threading.Event(), time.monotonic()

        def beat() -> None:
            pause = PLAIN_SECONDS
            while not done.wait(pause):
                spent = time.monotonic() - started
                self.say(f"  {title} … {f'{step.text}, ' if step.text else ''}{spent:.0f} s")
                pause = HEARTBEAT_SECONDS

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield step
        finally:
            done.set()
            thread.join()
            spent = time.monotonic() - started
            if spent >= PLAIN_SECONDS:
                self.say(f"  {title}: {spent:.1f} s")


class RichReporter:
    """A spinner with the elapsed time per step; use as a context manager."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TextColumn("[dim]{task.fields[note]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )

    def __enter__(self) -> RichReporter:
        self._progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False)

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        task = self._progress.add_task(title, total=None, note="")
        started = time.monotonic()

        class Live:
            def note(_, text: str) -> None:
                self._progress.update(task, note=text[-60:].replace("[", r"\["))

        try:
            yield Live()
        finally:
            self._progress.remove_task(task)
            spent = time.monotonic() - started
            if spent >= PLAIN_SECONDS:
                self.say(f"  {title}: {spent:.1f} s")
