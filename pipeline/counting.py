"""Counting is not timing: probes that slow the kernel are read in boots of their own. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pipeline.errors import UserError
from pipeline.model import Configuration, ProbeSpec, Scenario, WorkloadRun

SUFFIX = "-counted"
# Counts differ less from boot to boot than times do.
BOOTS = 3


def name(configuration: str) -> str:
    """What the kernels of counted boots are called at a point of the kconfig axis."""
    return f"{configuration}{SUFFIX}" if configuration else SUFFIX[1:]


def apart(scenario: Scenario, probes: Mapping[str, ProbeSpec]) -> Scenario:
    """The scenario, in which no boot that measures time reads a probe that slows the kernel, and no
    kernel in such a boot is configured for one.

    They go to the workloads that are counted; where there is none, each workload gets a counted
    twin. Without a workload nothing is timed, and they stay.

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
    """With a configuration for counted boots, where they need one."""
    theirs = (each for run in scenario.workloads if run.counted for each in run.probes)
    wanted = dict.fromkeys(each for probe in theirs for each in probes[probe].kconfigs)
    more = tuple(each for each in wanted if each not in scenario.fragments)
    if not more or any(each.counted for each in scenario.configurations):
        return scenario
    points = scenario.configurations or (Configuration(name="", fragments=()),)
    counters = tuple(
        Configuration(name=name(each.name), fragments=(*each.fragments, *more), counted=True)
        for each in points
    )
    return replace(scenario, configurations=(*scenario.configurations, *counters))


def _with(scenario: Scenario, named: tuple[str, ...]) -> tuple[WorkloadRun, ...]:
    runs = scenario.workloads
    if any(run.counted for run in runs):
        return tuple(
            replace(run, probes=tuple(dict.fromkeys((*run.probes, *named)))) if run.counted else run
            for run in runs
        )
    twins = (
        replace(
            run,
            label=run.label + SUFFIX,
            probes=(*run.probes, *named),
            counted=True,
            boots=min(run.boots or scenario.boots, BOOTS),
        )
        for run in runs
    )
    return (*runs, *twins)
