"""Consoles from outside with their right answers, where they are.

KTRIAL_CONSOLE_CASES names the folder, by default one in a folder beside the checkout:
`NAME.log` and `expected.json`. Nothing of it is part of the project.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from pipeline import consoleverb
from pipeline.console import Classifier
from pipeline.model import Finding
from tests import guests

ROOT = Path(__file__).parents[2]
BESIDE = next(iter(ROOT.parent.glob("*/cases/console-syzkaller")), Path("no-cases"))
CASES = Path(os.environ.get("KTRIAL_CONSOLE_CASES", BESIDE))
# Their only fault is a line of syzkaller's own executor (SYZFAIL, SYZFATAL).
NOT_OF_THE_KERNEL = {"660.log", "717.log"}

pytestmark = pytest.mark.skipif(
    not (CASES / "expected.json").exists(), reason=f"{CASES} has no expected.json"
)


def expected() -> dict[str, dict[str, Any]]:
    answers = json.loads((CASES / "expected.json").read_text())
    return {name: each for name, each in answers.items() if name not in NOT_OF_THE_KERNEL}


def findings(name: str) -> tuple[Finding, ...]:
    classifier = Classifier(guests.FAMILIES)
    classifier.feed((CASES / name).read_bytes())
    classifier.finish()
    return classifier.findings


def normal(title: str) -> str:
    return " ".join(title.lower().split())


def test_every_crash_is_flagged_and_nothing_else() -> None:
    wrong = []
    for name, answer in expected().items():
        account = consoleverb.read([(CASES / name).read_bytes()], guests.FAMILIES)
        if account.verdict != ("faults" if answer["crash"] else "clean"):
            wrong.append((name, account.verdict))
    assert wrong == []


def test_titles() -> None:
    asked, wrong = 0, []
    for name, answer in expected().items():
        if answer["crash"] and not answer.get("CORRUPTED"):
            asked += 1
            titles = [answer["TITLE"], *answer.get("ALT", [])]
            if normal(findings(name)[0].title) not in map(normal, titles):
                wrong.append((name, findings(name)[0].title, answer["TITLE"]))
    print(f"\n{asked - len(wrong)} of {asked} titles are right; not: {wrong}")
    assert len(wrong) <= asked / 10, wrong


def test_cut_anywhere_they_read_the_same() -> None:
    rng = random.Random(3)
    for name in expected():
        data = (CASES / name).read_bytes()
        classifier = Classifier(guests.FAMILIES)
        at = 0
        while at < len(data):
            step = rng.choice([1, 7, 100, 3000])
            classifier.feed(data[at : at + step])
            at += step
        classifier.finish()
        assert classifier.findings == findings(name), name
