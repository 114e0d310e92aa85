"""How long builds and boots are expected to take, and what a guest asks of the host. Pure.

What this host has measured comes first (`history`); where it has nothing, a default stands in,
and an expectation says which of the two it is. Defaults were measured with tiny kernels under
TCG on two cores of a server: they are for planning, and no limits.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from pipeline.model import GuestShape, WorkloadRun

MEASURED = "measured here"
DEFAULT = "default"
MIXED = "partly measured here"

Known = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """Seconds, and where they come from: MEASURED, DEFAULT, or MIXED where it is a sum of both."""

    seconds: float
    source: str


class BuildKind(Enum):
    """How a kernel comes to be: `Build.how` without what it continues from."""

    CLEAN = "clean build"
    INCREMENT = "increment"
    CACHED = "cached"


# A tiny configuration with two cores: 200 to 400 s; one changed file: 6 to 20 s.
BUILD_SECONDS = {BuildKind.CLEAN: 300.0, BuildKind.INCREMENT: 15.0, BuildKind.CACHED: 1.0}
# From the start of a guest until it is gone, without a workload: a part for every guest and
# one for each vCPU that boots.
BOOT_SECONDS = {"kvm": (2.0, 0.02), "tcg": (2.5, 0.1)}
WORKLOAD_SECONDS = 10.0  # or its deadline, where that is shorter
# One vCPU at a time works while a kernel boots, and waits for the host now and then: 0.7 cores
# were measured for one and two vCPUs. Guests come up at different moments, so that a few more
# than fit on the average keep the cores busy.
BOOT_CORES = 0.45
VCPU_CORES = 0.02  # what each further vCPU adds: it idles, which is not for nothing under TCG


def kind_of(how: str) -> BuildKind:
    """The kind of a build that was done, from `Build.how`."""
    return next((kind for kind in BuildKind if how.startswith(kind.value)), BuildKind.CLEAN)


def build_key(*, architecture: str, fragments: Iterable[str], tree: str, kind: BuildKind) -> str:
    """`fragments` as `plan.fragments`, `tree` as `TreeSpec.name`."""
    with_them = "+".join((architecture, *dict.fromkeys(fragments)))
    return f"build {with_them} {tree} {kind.value}"


def boot_key(
    *, architecture: str, accelerator: str, shape: GuestShape, image: str, run: WorkloadRun | None
) -> str:
    """Everything from a guest's start until it is gone; without `run` it only boots."""
    guest = f"{shape.name}:{shape.vcpus}of{shape.max_vcpus}"
    return f"boot {architecture} {accelerator} {guest} {image} {_what(run)}"


def workload_key(
    *, architecture: str, accelerator: str, shape: GuestShape, run: WorkloadRun
) -> str:
    """The workload's own command."""
    guest = f"{shape.name}:{shape.vcpus}of{shape.max_vcpus}"
    return f"workload {architecture} {accelerator} {guest} {_what(run)}"


def build(known: Known, key: str, kind: BuildKind) -> Expectation:
    """`key` as `build_key` has it."""
    return _median(known, key) or Expectation(seconds=BUILD_SECONDS[kind], source=DEFAULT)


def workload(
    known: Known, *, architecture: str, accelerator: str, shape: GuestShape, run: WorkloadRun
) -> Expectation:
    key = workload_key(architecture=architecture, accelerator=accelerator, shape=shape, run=run)
    seconds = min(WORKLOAD_SECONDS, run.spec.deadline)
    return _median(known, key) or Expectation(seconds=seconds, source=DEFAULT)


def boot(
    known: Known,
    *,
    architecture: str,
    accelerator: str,
    shape: GuestShape,
    image: str,
    run: WorkloadRun | None,
) -> Expectation:
    """One boot as a whole: as measured, or a boot without a workload and the workload."""
    key = boot_key(
        architecture=architecture, accelerator=accelerator, shape=shape, image=image, run=run
    )
    if measured := _median(known, key):
        return measured
    if run is None:
        each, vcpu = BOOT_SECONDS.get(accelerator, BOOT_SECONDS["tcg"])
        return Expectation(seconds=each + vcpu * shape.vcpus, source=DEFAULT)
    alone = boot(
        known,
        architecture=architecture,
        accelerator=accelerator,
        shape=shape,
        image=image,
        run=None,
    )
    its = workload(known, architecture=architecture, accelerator=accelerator, shape=shape, run=run)
    source = alone.source if alone.source == its.source else MIXED
    return Expectation(seconds=alone.seconds + its.seconds, source=source)


def cores(shape: GuestShape, run: WorkloadRun | None) -> float:
    """What a guest asks for of the host's cores while nobody looks at its times: a workload may
    keep all its vCPUs busy, a boot keeps about one."""
    if run is not None:
        return float(shape.max_vcpus)
    return BOOT_CORES + VCPU_CORES * (shape.max_vcpus - 1)


def _median(known: Known, key: str) -> Expectation | None:
    values = known.get(key)
    if not values:
        return None
    return Expectation(seconds=statistics.median(values), source=MEASURED)


def _what(run: WorkloadRun | None) -> str:
    """A workload with its parameters: labels are a scenario's own."""
    if run is None:
        return "-"
    given = (f"{name}={value}" for name, value in sorted(run.parameters.items()))
    times = f"x{run.repeat}" if run.repeat > 1 else ""
    return ":".join(filter(None, (run.name, ",".join(given), times)))
