"""Fixtures for every test: a pinned environment, a scope that ends, a step that shows nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.scope import Scope


class QuietStep:
    """A progress step that remembers what it was told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def step() -> QuietStep:
    return QuietStep()


@pytest.fixture
def scope() -> Iterator[Scope]:
    """Long enough for anything; cancelled at the end, so that nothing outlives its test."""
    whole = Scope(900)
    yield whole
    whole.cancel()


@pytest.fixture(autouse=True)
def _pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the user's git configuration, and git commits are the same every time."""
    for name, value in {
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Ada Author",
        "GIT_AUTHOR_EMAIL": "ada@example.org",
        "GIT_COMMITTER_NAME": "Carl Committer",
        "GIT_COMMITTER_EMAIL": "carl@example.org",
        "GIT_AUTHOR_DATE": "2024-01-02T03:04:05Z",
        "GIT_COMMITTER_DATE": "2024-01-02T03:04:05Z",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("KTRIAL_CACHE", "KTRIAL_RESULTS", "KTRIAL_SHARE", "KTRIAL_ACCEL"):
        monkeypatch.delenv(name, raising=False)
