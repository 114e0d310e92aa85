"""What became of a case, and the words that every stage shares."""

from __future__ import annotations

from enum import Enum


class Outcome(Enum):
    """What became of a planned case. A verdict starts as NOT_RUN: no evidence is no pass."""

    PASSED = "passed"
    FAILED = "failed"
    BASE_BROKEN = "base broken"
    KNOWN = "known"
    IDENTICAL = "identical"
    INCONCLUSIVE = "inconclusive"
    UNSUPPORTED = "unsupported"
    NOT_RUN = "not run"
    ERROR = "error"


class Role(Enum):
    """What a kernel is in the comparison; only PATCHED ones are on trial."""

    BASE = "base"
    PREREQUISITE = "prerequisite"
    PATCHED = "patched"


class Phase(Enum):
    """When in a boot a probe reads the guest, or a workload reports."""

    AFTER_BOOT = "after-boot"
    AFTER_EVENTS = "after-events"  # those before the workload
    BEFORE = "before"
    DURING = "during"
    WORKLOAD = "workload"
    AFTER = "after"
    AFTER_DROP = "after-drop"


class Better(Enum):
    """Which direction of a metric is an improvement."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"
