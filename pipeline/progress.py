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
MOST_NAMED = 5  # steps that are named at once


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


class _NamedStep(_PlainStep):
    def __init__(self, title: str) -> None:
        super().__init__()
        self.title = title
        self.started = time.monotonic()
        self.named = False

    def line(self, now: float) -> str:
        note = f"{self.text}, " if self.text else ""
        return f"  {self.title} … {note}{now - self.started:.0f} s"


class PlainReporter:
    """Whole lines that name their step. A step that took over two seconds is named at its end.

    Only where nothing else was said meanwhile is it named before that, and now and again all
    that are under way: many guests at once would otherwise bury what they come to.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._change = threading.Condition()
        self._steps: list[_NamedStep] = []
        self._said = time.monotonic()
        self._thread: threading.Thread | None = None

    def say(self, text: str) -> None:
        with self._change:
            self._print(text)

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        step = _NamedStep(title)
        with self._change:
            self._steps.append(step)
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, daemon=True)
                self._thread.start()
            self._change.notify_all()
        try:
            yield step
        finally:
            spent = time.monotonic() - step.started
            with self._change:
                self._steps.remove(step)
                if step.named or spent >= PLAIN_SECONDS:
                    self._print(f"  {title}: {spent:.1f} s")
                self._change.notify_all()

    def _print(self, text: str) -> None:
        print(text, file=self._out, flush=True)
        self._said = time.monotonic()

    def _beat(self) -> None:
        """Name steps in a silence, until there is none left. Runs in a thread of its own."""
        with self._change:
            while self._steps:
                self._change.wait(max(0.01, self._due() - time.monotonic()))
                self._name_due()
            self._thread = None

    def _due(self) -> float:
        """When the next line is to be said, if nothing else is until then."""
        fresh = [self._due_of(step) for step in self._steps if not step.named]
        return min([self._said + HEARTBEAT_SECONDS, *fresh])

    def _due_of(self, step: _NamedStep) -> float:
        return max(step.started, self._said) + PLAIN_SECONDS

    def _name_due(self) -> None:
        now = time.monotonic()
        fresh = [step for step in self._steps if not step.named]
        due: list[_NamedStep] = []
        if any(self._due_of(step) <= now for step in fresh):
            due = [step for step in fresh if now - step.started > PLAIN_SECONDS / 2]
        elif now - self._said >= HEARTBEAT_SECONDS:
            due = list(self._steps)
        for step in due:
            step.named = True
        for step in due[:MOST_NAMED]:
            self._print(step.line(now))
        if len(due) > MOST_NAMED:
            self._print(f"  and {len(due) - MOST_NAMED} more")


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
