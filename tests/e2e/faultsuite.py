"""The fault suite: a table of patches, each one fault, and what must come of each.

Each is built and booted with base in the same run, on a real kernel. `Row` is what came of one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.conftest import FAULTS, HERE, Ktrial, Ran

TREE = "debian:6.12"
ARCHITECTURES = ("x86_64", "aarch64")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One of `faults.toml`, where the fields are described."""

    name: str
    case: str
    says: str
    kind: str = ""
    kconfigs: tuple[str, ...] = ()
    guest: str = "smp2"
    workload: str = "none"
    on: tuple[str, ...] = ARCHITECTURES
    within: float = 3.0
    quick: bool = False

    @property
    def patch(self) -> Path:
        return FAULTS / "suite" / f"{self.name}.patch"

    @property
    def subject(self) -> str:
        """As the report has to name it."""
        lines = self.patch.read_text().splitlines()
        return next(line for line in lines if line.startswith("Subject: ")).split("] ", 1)[1]

    def arguments(self, architecture: str) -> list[str]:
        """Of `ktrial`."""
        words = ["run", str(self.patch), "--tree", TREE, "--share", str(HERE / "share")]
        words += ["--arch", architecture, "--guest", self.guest, "--workload", self.workload]
        return words + [word for name in self.kconfigs for word in ("--kconfig", name)]


@dataclass(frozen=True, kw_only=True)
class Row:
    """What came of a fault. `named`: whether the report names the patch.

    `seconds`: from its first word to the guest's end, None where no guest booted it; `within` is
    what was hoped for. Times depend on the host and decide nothing.
    """

    fault: str
    architecture: str
    outcome: str
    finding: str
    named: bool
    seconds: float | None
    within: float

    @property
    def late(self) -> bool:
        return self.seconds is not None and self.seconds > self.within

    def __str__(self) -> str:
        seconds = "–" if self.seconds is None else f"{self.seconds:.1f}"
        hoped = f"{self.within:g}" + (", missed" if self.late else "")
        named = "yes" if self.named else "no"
        cells = (self.fault, self.architecture, self.outcome, self.finding, named, seconds, hoped)
        return f"| {' | '.join(each.replace('|', '/') for each in cells)} |"


HEAD = """\
| fault | architecture | what is charged | kind: title | patch named | s to the verdict | hoped |
|---|---|---|---|---|---|---|"""


def table() -> tuple[Fault, ...]:
    """All of `faults.toml`."""
    read = tomllib.loads((FAULTS / "faults.toml").read_text())
    return tuple(Fault(name=name, **_tuples(keys)) for name, keys in read.items())


def _tuples(keys: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in keys.items()}


def patched_boots(ran: Ran) -> list[dict[str, Any]]:
    boots: list[dict[str, Any]] = ran.result["run"]["evidence"]["boots"]
    return [boot for boot in boots if boot["boot"]["kernel"] == "patched"]


def tried(fault: Fault, architecture: str, ktrial: Ktrial) -> tuple[Ran, Row]:
    """Build and boot it, beside base."""
    ran = ktrial(*fault.arguments(architecture))
    assert ran.folder is not None, ran.explain()
    boots = patched_boots(ran)
    finding, seconds = "", None
    if boots:
        last = boots[-1]
        cause = next(iter([*filter(_fatal, last["findings"]), *last["findings"]]), None)
        finding = f"{cause['kind']}: {cause['title']}" if cause else ""
        seconds = last["ended"] - last["since"] if last["since"] else None
    row = Row(
        fault=fault.name,
        architecture=architecture,
        outcome=f"{fault.case}: {ran.cases(fault.case)}",
        finding=finding,
        named=fault.subject in ran.out,
        seconds=seconds,
        within=fault.within,
    )
    return ran, row


def _fatal(finding: dict[str, Any]) -> bool:
    return bool(finding["fatal"])


def markdown(rows: Iterable[Row]) -> str:
    return "\n".join([HEAD, *map(str, rows)])
