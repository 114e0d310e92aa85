"""`junit.xml` of a run that is under way: each planned case is in it from the first moment.

A run may be killed at any time, and then nobody is left to write anything. What is not over is
an error in it ("the run was cut before its end"), so that half a run is never green.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipeline import junit, results, verdict
from pipeline.model import Evidence, Run

NAME = "junit.xml"
SHARE = 0.05  # of a run's time may go into it
AHEAD = 1.0  # seconds of that which may be spent before they are earned


@dataclass
class Journal:
    """Writes what is known of `run`, which has no cases yet, into its folder.

    It writes in the thread that tells it, between nodes: a thread of its own would take time
    from guests whose time is measured. What goes into all writing (0.3 s each for two thousand
    cases) is kept below AHEAD and SHARE of the run's time. `problem`: why the last one failed (a
    full disk is no reason to end a run), "" where it did not.
    """

    run: Run
    dialect: str = "jenkins"
    share: float = SHARE
    ahead: float = AHEAD
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    problem: str = field(default="", init=False)
    _began: float = field(default=0.0, init=False)
    _spent: float = field(default=0.0, init=False)
    _last: float = field(default=0.0, init=False)  # seconds: the next will take as long

    def __post_init__(self) -> None:
        self._began = self.clock()

    @property
    def path(self) -> Path:
        return self.run.folder / NAME

    def begin(self) -> None:
        """Write the file in which nothing has been run yet."""
        self._write(Evidence(cut=True))

    def told(self, evidence: Callable[[], Evidence]) -> None:
        """Something is over; `evidence` tells all that is, and is asked only if it is time."""
        earned = self.ahead + self.share * (self.clock() - self._began)
        if self._spent + self._last <= earned:
            self._write(evidence)

    def _write(self, evidence: Evidence | Callable[[], Evidence]) -> None:
        started = self.clock()
        found = evidence if isinstance(evidence, Evidence) else evidence()
        text = junit.render(finished(self.run, found, ended=self.now()), self.dialect)
        try:
            results.write(self.path, text)
            self.problem = ""
        except OSError as error:
            self.problem = f"{self.path} could not be written: {error.strerror or error}"
        self._last = self.clock() - started
        self._spent += self._last


def finished(run: Run, evidence: Evidence, *, ended: float) -> Run:
    """The run with what came of it, judged."""
    cases = verdict.judge(run.plan, evidence, root=run.folder)
    return replace(run, evidence=evidence, cases=cases, ended=ended)
