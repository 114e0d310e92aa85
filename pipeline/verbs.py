"""What each verb of the command line does."""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from pipeline import (
    accelerator,
    calibration,
    calibrations,
    clean,
    console,
    consoleverb,
    doctor,
    inventory,
    ktapverb,
    runner,
    scenario,
    tree,
    trials,
)
from pipeline.errors import InfraError
from pipeline.progress import PlainReporter, Reporter, RichReporter
from pipeline.runner import Desktop
from pipeline.scope import Scope
from pipeline.settings import Settings

DEMO = "num_present_cpus"
DEMO_FALLBACK = "debian:6.12"


def run(arguments: argparse.Namespace, settings: Settings, reporter: Reporter, scope: Scope) -> int:
    """`ktrial run`: whatever the user named, put on trial."""
    top = Desktop(arguments, settings, reporter, scope)
    return runner.try_out(top, runner.take(top, runner.request(top)))


def build_(
    arguments: argparse.Namespace, settings: Settings, reporter: Reporter, scope: Scope
) -> int:
    """`ktrial build`: as `run`, without a guest."""
    return run(arguments, settings, reporter, scope)


def plan_(
    arguments: argparse.Namespace, settings: Settings, reporter: Reporter, scope: Scope
) -> int:
    """`ktrial plan`: what `run` would do."""
    top = Desktop(arguments, settings, reporter, scope)
    return runner.show_plan(top, runner.take(top, runner.request(top)))


def demo(
    arguments: argparse.Namespace, settings: Settings, reporter: Reporter, scope: Scope
) -> int:
    """`ktrial demo`: the first scenario; on a newer tree where its own is not to be had."""
    top = Desktop(arguments, settings, reporter, scope)
    request = runner.request(top, DEMO)
    taken = runner.take(top, request)
    try:
        opened = runner.opened(top, taken.scenario.tree)
    except tree.TreeUnavailable as error:
        reporter.say(f"{error.message}: taking {DEMO_FALLBACK} and its variant instead")
        taken = runner.take(top, replace(request, tree=DEMO_FALLBACK))
        opened = runner.opened(top, taken.scenario.tree)
    return runner.try_out(top, replace(taken, tree=opened))


def calibrate(
    arguments: argparse.Namespace, settings: Settings, reporter: Reporter, scope: Scope
) -> int:
    """`ktrial calibrate`: 0 where it found out what this host lets a trial see, else 3."""
    top = Desktop(arguments, settings, reporter, scope)
    taken = runner.take(top, runner.request(top))
    finished = runner.tried(top, replace(taken, scenario=scenario.against_itself(taken.scenario)))
    found = calibration.of(trials.compare(finished.plan, finished.evidence.boots))
    sys.stdout.write("\n".join(calibration.lines(found)))
    for cell in finished.plan.cells:
        its = [each for each in found if each.cell == cell.name]
        key = runner.calibration_key(top, finished.plan, cell)
        if its and key:
            calibrations.keep(settings.cache, key, time.strftime("%Y-%m-%d"), its)
    return 0 if found else InfraError.exit_code


def doctor_(
    arguments: argparse.Namespace, settings: Settings, reporter: Reporter, scope: Scope
) -> int:
    """`ktrial doctor`: 0 where all that a run on this host needs is there, else 3."""
    top = Desktop(arguments, settings, reporter, scope)
    with reporter.step("looking at this host") as step:
        checks = doctor.examine(
            cache=settings.cache,
            connect=settings.connect,
            architectures=tuple(top.shelf.architectures.values()),
            choose=lambda architecture: accelerator.choose(
                architecture, forced=None, cache=settings.cache, scope=scope, step=step
            ),
            scope=scope,
            step=step,
            toolchains=tuple(top.shelf.toolchains.values()),
            machine=platform.machine(),
        )
    sys.stdout.write(doctor.render(checks))
    return 3 if any(check.ok is False for check in checks) else 0


def list_(
    arguments: argparse.Namespace, settings: Settings, reporter: Reporter, scope: Scope
) -> int:
    """`ktrial list`: the data files there are."""
    top = Desktop(arguments, settings, reporter, scope)
    sys.stdout.write(inventory.render(inventory.collect(top.shelf), arguments.kind))
    return 0


def clean_(
    arguments: argparse.Namespace, settings: Settings, reporter: Reporter, scope: Scope
) -> int:
    """`ktrial clean`: frees what no live run uses."""
    wanted = clean.policy(arguments.older_than, arguments.max_size, arguments.all)
    with reporter.step("looking at caches and results") as step:
        freed = clean.clean(
            cache=settings.cache,
            results=settings.results,
            wanted=wanted,
            now=time.time(),
            scope=scope,
            step=step,
            dry_run=arguments.dry_run,
        )
    sys.stdout.write(clean.render(freed))
    return 0


def series_(
    arguments: argparse.Namespace, settings: Settings, reporter: Reporter, scope: Scope
) -> int:
    """`ktrial series`: 0, 1 where it does not apply, 2 where there is no series to take."""
    return runner.show_series(Desktop(arguments, settings, reporter, scope))


def shell_(
    arguments: argparse.Namespace, settings: Settings, reporter: Reporter, scope: Scope
) -> int:
    """`ktrial shell`: the exit code is that of what was run in the guest."""
    # A live display would draw into the terminal that the guest's shell has.
    plain = PlainReporter(sys.stderr) if isinstance(reporter, RichReporter) else reporter
    top = Desktop(arguments, settings, plain, scope)
    return runner.enter(top)


def console_(
    arguments: argparse.Namespace, settings: Settings, reporter: Reporter, scope: Scope
) -> int:
    """`ktrial console`: 0 where nothing is wrong, 1 where something is, 2: unreadable."""
    del reporter
    families = console.read_families(settings.data / "console")
    account = consoleverb.examine(arguments.file, families, scope)
    write = consoleverb.as_json if arguments.json else consoleverb.as_text
    sys.stdout.write(write(account))
    return account.exit_code


def ktap_(
    arguments: argparse.Namespace, settings: Settings, reporter: Reporter, scope: Scope
) -> int:
    """`ktrial ktap`: 0 where nothing is wrong, 1 where something is, 2 where there is no KTAP."""
    del settings, reporter
    code, text = ktapverb.examine(arguments.file, as_json=arguments.json, scope=scope)
    sys.stdout.write(text)
    return code


VERBS: Mapping[str, Callable[[argparse.Namespace, Settings, Reporter, Scope], int]] = {
    "run": run,
    "build": build_,
    "plan": plan_,
    "demo": demo,
    "calibrate": calibrate,
    "doctor": doctor_,
    "series": series_,
    "shell": shell_,
    "console": console_,
    "ktap": ktap_,
    "list": list_,
    "clean": clean_,
}
