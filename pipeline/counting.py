"""Counting is not timing: probes that slow the kernel are read in boots of their own. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pipeline.errors import UserError
from pipeline.model import Configuration, ProbeSpec, Scenario, WorkloadRun

# Counts differ less from boot to boot than times do.
BOOTS = 3


def name(configuration: str, counters: tuple[str, ...]) -> str:
    """What the kernels with these fragments are called at a point of the kconfig axis."""
    return "-".join(filter(None, (configuration, *counters)))


def apart(scenario: Scenario, probes: Mapping[str, ProbeSpec]) -> Scenario:
    """The scenario, in which no boot that measures time reads a probe that slows the kernel, and no
    kernel in such a boot is configured for one.

    They go to the workloads that are counted; where there is none, each workload gets a counted
    twin for each of them. Without a workload nothing is timed, and they stay.

    Raises:
        UserError: a workload that is timed asks for such a probe itself.
    """
    for run in scenario.workloads:
        wrong = [each for each in run.probes if probes[each].slows and not run.counted]
        if wrong:
            raise UserError(
                f"workload {run.label}: probe {wrong[0]} slows the kernel, and would be timed too",
                hint="say `counted = true`, in a workload of its own",
            )
    slow = tuple(each for each in scenario.probes if probes[each].slows)
    if not scenario.workloads:
        return scenario
    quick = tuple(each for each in scenario.probes if each not in slow)
    runs = _with(scenario, slow) if slow else scenario.workloads
    return _configured(replace(scenario, probes=quick, workloads=runs), probes)


def _configured(scenario: Scenario, probes: Mapping[str, ProbeSpec]) -> Scenario:
    """With configurations for counted boots, where they need one."""
    runs = tuple(
        replace(run, counters=_counters(run, scenario, probes)) for run in scenario.workloads
    )
    points = tuple(each for each in scenario.configurations if not each.counted)
    counters = {
        name(each.name, run.counters): Configuration(
            name=name(each.name, run.counters),
            fragments=(*each.fragments, *run.counters),
            counted=True,
        )
        for each in points or (Configuration(name="", fragments=()),)
        for run in runs
        if run.counters
    }
    return replace(scenario, workloads=runs, configurations=(*points, *counters.values()))


def _counters(
    run: WorkloadRun, scenario: Scenario, probes: Mapping[str, ProbeSpec]
) -> tuple[str, ...]:
    wanted = (each for probe in run.probes for each in probes[probe].kconfigs)
    missing = (each for each in wanted if each not in scenario.fragments)
    return tuple(dict.fromkeys(missing)) if run.counted else ()


def _with(scenario: Scenario, slow: tuple[str, ...]) -> tuple[WorkloadRun, ...]:
    """The workloads, with `slow` probes where they are read."""
    runs = scenario.workloads
    if any(run.counted for run in runs):
        return tuple(
            replace(run, probes=tuple(dict.fromkeys((*run.probes, *slow)))) if run.counted else run
            for run in runs
        )
    twins = (_twin(run, probe, scenario) for run in runs for probe in slow)
    return (*runs, *twins)


def _twin(run: WorkloadRun, probe: str, scenario: Scenario) -> WorkloadRun:
    """One for each probe: what one costs would be seen by another."""
    return replace(
        run,
        label=f"{run.label}-{probe}",
        probes=(*run.probes, probe),
        counted=True,
        boots=min(run.boots or scenario.boots, BOOTS),
    )
