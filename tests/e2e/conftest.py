"""End to end: the real command line, on real kernels, in real guests.

Kernels, trees and images are kept in the user's cache folder, so that a second run of the
tests is quick; nothing here depends on that cache being there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipeline import ramdisk
from pipeline.cache import is_locked

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FAULTS = HERE / "faults"
TREE = "debian:5.10"
REAL_HOME = os.environ.get("HOME", "/")
CACHE = Path(
    os.environ.get("KTRIAL_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path(REAL_HOME) / ".cache") / "ktrial"
)


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What one command line did. `folder` is the run's folder, None where there is none."""

    exit_code: int
    out: str
    err: str
    folder: Path | None

    @property
    def result(self) -> dict[str, Any]:
        assert self.folder is not None, self.err
        loaded: dict[str, Any] = json.loads((self.folder / "result.json").read_text())
        return loaded

    @property
    def junit(self) -> dict[str, str]:
        """Case -> passed, failure, error or skipped, with the message behind a colon."""
        assert self.folder is not None, self.err
        found = {}
        for case in ET.parse(self.folder / "junit.xml").iter("testcase"):
            states = [
                f"{child.tag}: {child.get('message')}"
                for child in case
                if child.tag in {"failure", "error", "skipped"}
            ]
            name = f"{case.get('classname')}/{case.get('name')}"
            assert name not in found
            found[name] = states[0] if states else "passed"
        return found

    def cases(self, ending: str) -> str:
        """The state of the one case whose name ends so."""
        (state,) = [state for name, state in self.junit.items() if name.endswith(ending)]
        return state

    def explain(self) -> str:
        return f"exit {self.exit_code}\n{self.out}\n{self.err}"


class Ktrial:
    """The command, with results and sockets of this test's own and the shared cache."""

    def __init__(self, folder: Path) -> None:
        self.results = folder / "results"
        self.runtime = folder / "rt"
        # A UNIX socket's path ends at 108 characters, and pytest's folders are deep.
        self.runtime = Path("/tmp") / f"kt-e2e-{os.getpid()}-{abs(hash(folder)) % 10**6}"
        self.cwd = folder

    def command(self, *arguments: str) -> list[str]:
        where = ["--cache", str(CACHE), "--results", str(self.results)]
        runtime = ["--runtime", str(self.runtime)]
        verb, *rest = arguments
        return [sys.executable, "-m", "pipeline", verb, *where, *runtime, *rest]

    def environment(self) -> dict[str, str]:
        paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        return os.environ | {"PYTHONPATH": paths}

    def __call__(self, *arguments: str, stdin: bytes = b"", cwd: Path | None = None) -> Ran:
        before = self._runs()
        done = subprocess.run(
            self.command(*arguments),
            input=stdin,
            capture_output=True,
            cwd=cwd or self.cwd,
            env=self.environment(),
            timeout=1500,
            check=False,
        )
        return self.ran(done.returncode, done.stdout, done.stderr, before)

    def ran(self, code: int, out: bytes, err: bytes, before: set[Path]) -> Ran:
        fresh = self._runs() - before
        return Ran(
            exit_code=code,
            out=out.decode(errors="replace"),
            err=err.decode(errors="replace"),
            folder=fresh.pop() if fresh else None,
        )

    def _runs(self) -> set[Path]:
        if not self.results.is_dir():
            return set()
        runs = (path for path in self.results.iterdir() if path.is_dir())
        return {path for path in runs if not path.is_symlink()}

    def interrupted(
        self, *arguments: str, when: Callable[[int], bool], signum: int = signal.SIGINT
    ) -> Ran:
        """Start the command and send it a signal as soon as `when` holds, which is given its
        process id."""
        before = self._runs()
        with subprocess.Popen(
            self.command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.cwd,
            env=self.environment(),
        ) as process:
            limit = time.monotonic() + 900
            while not when(process.pid):
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < limit
                time.sleep(0.02)
            process.send_signal(signum)
            out, err = process.communicate(timeout=120)
        return self.ran(process.returncode, out, err, before)

    def qemus(self) -> list[int]:
        """QEMU processes of this test's runs."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            words = _command(path)
            if words.startswith("/usr/bin/qemu-system") and str(self.runtime) in words:
                found.append(int(path.name))
        return found

    def is_guest(self, pid: int) -> bool:
        """Whether this QEMU runs a guest, and is none that libvirt asks what it can do."""
        return " -name guest=" in _command(Path("/proc") / str(pid))

    def leftovers(self) -> list[str]:
        """Everything that a run must not leave behind."""
        left = [f"QEMU {pid}" for pid in self.qemus()]
        left += [str(path) for path in self.runtime.glob("*")]
        # Another run may share the cache: what it is making is locked.
        places = (*CACHE.glob("*/.making-*"), *ramdisk.own().glob(".making-*"))
        made = [*(CACHE / "tmp").glob("*"), *places]
        return left + [str(path) for path in made if path.exists() and not is_locked(path)]


def _command(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


@pytest.fixture
def ktrial(tmp_path: Path) -> Iterator[Ktrial]:
    command = Ktrial(tmp_path)
    yield command
    left = command.leftovers()
    subprocess.run(["rm", "-rf", str(command.runtime)], check=True)
    assert not left


@dataclass(frozen=True, kw_only=True)
class Row:
    """A number of the record: cell × kernel × block × boot × phase × metric."""

    architecture: str
    configuration: str
    guest: str
    workload: str
    kernel: str
    block: int
    boot: int
    phase: str
    source: str
    metric: str
    value: float
    unit: str
    better: str


def rows(ran: Ran) -> list[Row]:
    table = ran.result["samples"]
    return [Row(**dict(zip(table["columns"], cells, strict=True))) for cells in table["rows"]]


def values(ran: Ran, kernel: str, metric: str, phase: str = "after-boot") -> set[float]:
    """What the boots of a kernel read for a metric."""
    return {
        row.value
        for row in rows(ran)
        if (row.kernel, row.metric, row.phase) == (kernel, metric, phase)
    }
