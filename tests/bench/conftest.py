"""The command as the end-to-end tests have it: nothing is left behind."""

from __future__ import annotations

from tests.e2e.conftest import ktrial

__all__ = ["ktrial"]
