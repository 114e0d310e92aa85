"""A run that is killed at any moment leaves a junit.xml that is whole and has every case."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import xmlschema
from lxml import etree  # type: ignore[import-untyped]

from pipeline import junit, verdict
from tests import runs

ROOT = Path(__file__).parents[2]
SCHEMAS = {"jenkins": "jenkins-junit-10.xsd", "ant": "windyroad-JUnit.xsd"}
PLAN = runs.plan(runs.scenario(guests=("smp1", "smp2", "smp4"), boots=3))
KILLS = 20

# Writes as often as it can, so that most kills come while it writes.
CHILD = """
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from pipeline.junitfile import Journal
from pipeline.model import Evidence
from tests import runs
from tests.integration.test_junit_kill import PLAN

run = replace(runs.run(PLAN, Evidence(cut=True)), cases=(), folder=Path(sys.argv[1]))
whole = runs.good_evidence(PLAN)
journal = Journal(run, dialect=sys.argv[2], share=1.0)
journal.begin()
print("begun", flush=True)
for number in count():
    over = number % len(whole.boots)
    journal.told(lambda: replace(whole, boots=whole.boots[:over], cut=True))
    print(number, flush=True)
"""


# Ended by the system in the middle of a write: no more than half of the file may be written.
HALF = """
import resource
import signal
import sys
from dataclasses import replace
from pathlib import Path
from pipeline.junitfile import Journal
from pipeline.model import Evidence
from tests import runs
from tests.integration.test_junit_kill import PLAN

run = replace(runs.run(PLAN, Evidence(cut=True)), cases=(), folder=Path(sys.argv[1]))
journal = Journal(run, dialect=sys.argv[2])
journal.begin()
size = journal.path.stat().st_size
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
journal.told(lambda: runs.good_evidence(PLAN))
"""


def look(folder: Path, dialect: str) -> None:
    """The file is whole, valid, has each planned case once, and is not green."""
    schema = xmlschema.XMLSchema(ROOT / "tests" / "schemas" / SCHEMAS[dialect])
    text = (folder / "junit.xml").read_text(encoding="utf-8")
    schema.validate(text)
    cases = list(etree.fromstring(text.encode("utf-8")).iter("testcase"))
    found = [(case.get("classname"), case.get("name")) for case in cases]
    planned = [(each.suite, each.name) for each in verdict.planned(PLAN)]
    assert sorted(found) == sorted(planned)
    assert any(case.find("error") is not None for case in cases), "half a run is not green"
    assert [each.name for each in folder.glob("[!.]*")] == ["junit.xml"]


def killed(folder: Path, dialect: str, seconds: float) -> int:
    """How many times a child had written when it was killed, `seconds` after its first."""
    command = [sys.executable, "-c", CHILD, str(folder), dialect]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "begun\n"
        time.sleep(seconds)
        child.send_signal(signal.SIGKILL)
        told = child.stdout.read().splitlines()
        assert child.wait() == -signal.SIGKILL
    return len(told)


@pytest.mark.parametrize("dialect", junit.DIALECTS)
def test_kill_9_leaves_a_whole_file_with_every_planned_case(tmp_path: Path, dialect: str) -> None:
    moments = random.Random(dialect)
    written = 0
    for number in range(KILLS // len(junit.DIALECTS)):
        folder = tmp_path / str(number)
        folder.mkdir()
        written += killed(folder, dialect, moments.uniform(0.0, 0.25))
        look(folder, dialect)
    assert written, "some kills came after more than the first writing"


@pytest.mark.parametrize("dialect", junit.DIALECTS)
def test_an_end_in_the_middle_of_a_write_leaves_the_file_before(
    tmp_path: Path, dialect: str
) -> None:
    command = [sys.executable, "-c", HALF, str(tmp_path), dialect]
    ended = subprocess.run(command, cwd=ROOT, check=False)
    assert ended.returncode == -signal.SIGXFSZ
    assert [each.name for each in tmp_path.glob(".*")] == [".junit.xml.part"]
    look(tmp_path, dialect)
