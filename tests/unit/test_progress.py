from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from pipeline import progress
from pipeline.progress import PlainReporter, RichReporter


def test_short_steps_say_nothing_in_plain_lines() -> None:
    out = io.StringIO()
    with PlainReporter(out).step("quick") as step:
        step.note("x")
    assert out.getvalue() == ""


def test_long_steps_say_what_they_do_and_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0.05)
    with PlainReporter(out).step("slow") as step:
        step.note("compiling")
        time.sleep(0.2)
    first, last = out.getvalue().splitlines()
    assert "slow … compiling" in first
    assert last.startswith("  slow: 0.")


def test_a_terminal_shows_brackets_as_they_are() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    with RichReporter(console) as live:
        with live.step("build") as step:
            step.note("CC [M] fs/x.o")
            time.sleep(0.3)
        live.say("[bold]done")
    assert "[M] fs/x.o" in out.getvalue()
    assert "[bold]done" in out.getvalue()
