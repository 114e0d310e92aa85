from __future__ import annotations

import io
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from rich.console import Console

from pipeline import progress
from pipeline.progress import PlainReporter, RichReporter


def until(true: Callable[[], bool]) -> None:
    limit = time.monotonic() + 20
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.02)


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


def test_many_steps_at_once_are_named_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0.2)
    reporter = PlainReporter(out)
    with ExitStack() as stack:
        for number in range(8):
            stack.enter_context(reporter.step(f"boot cell{number}")).note("booting")
        until(lambda: "more" in out.getvalue())
        named = out.getvalue().splitlines()
    assert named[:5] == [f"  boot cell{number} … booting, 0 s" for number in range(5)]
    assert named[5] == "  and 3 more"
    ends = out.getvalue().splitlines()[len(named) :]
    assert sorted(line.split(":")[0] for line in ends) == [f"  boot cell{n}" for n in range(8)]


def test_what_is_under_way_is_named_only_in_a_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 1.0)
    reporter = PlainReporter(out)
    with reporter.step("long"):
        for number in range(12):
            time.sleep(0.1)
            reporter.say(f"another's end {number}")
        assert "long" not in out.getvalue()
        until(lambda: "long … " in out.getvalue())


def test_a_silent_run_says_now_and_again_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0.1)
    monkeypatch.setattr(progress, "HEARTBEAT_SECONDS", 0.2)
    reporter = PlainReporter(out)
    for title in ("a", "b"):  # the second one after a pause in which nothing was under way
        with reporter.step(title):
            until(lambda title=title: out.getvalue().count(f"  {title} … ") >= 2)  # type: ignore[misc]


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
