"""A run as a whole: the plan, its evidence, the verdict, the results; and what `plan` shows."""

from __future__ import annotations

import argparse
import platform
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from pathlib import Path

from pipeline import (
    cache,
    calibrations,
    catalog,
    clean,
    estimate,
    evict,
    host,
    hypervisor,
    image,
    incoming,
    junit,
    junitfile,
    known,
    nodes,
    odds,
    outcomes,
    overrides,
    plan,
    planview,
    preflight,
    record,
    results,
    scheduler,
    seriesverb,
    shell,
    summary,
    tree,
    trial,
    trials,
    weigh,
)
from pipeline.budget import Budget
from pipeline.catalog import Catalog
from pipeline.errors import Cancelled, InfraError, UserError
from pipeline.estimate import BuildKind
from pipeline.history import History
from pipeline.intake import Desk, Intake, Request
from pipeline.model import Build, Cell, Evidence, Plan, Run, Scenario, Tree, TreeSpec
from pipeline.progress import Reporter
from pipeline.results import Folder
from pipeline.scope import Scope
from pipeline.settings import Settings, version
from pipeline.terminal import Ends
from pipeline.weigh import Scales

EXIT_CUT = 130
BUILD = "build"  # the verb that boots nothing
# What is left to the host itself and to ktrial, of what is free.
MEMORY_SHARE = 0.9


@dataclass(frozen=True)
class Desktop:
    """What every verb works with."""

    arguments: argparse.Namespace
    settings: Settings
    reporter: Reporter
    scope: Scope

    @cached_property
    def shelf(self) -> Catalog:
        return Catalog(data=self.settings.data, share=self.settings.share)

    @cached_property
    def budget(self) -> Budget:
        """Cores and MiB that builds and guests may take together."""
        free = int(host.memory() / host.MIB * MEMORY_SHARE)
        return Budget(cores=self.settings.jobs, memory=self.settings.memory or free)


# ------------------------------------------------------------------------- what was asked for


def request(top: Desktop, *sources: str) -> Request:
    """The command line of a trial, as `intake` takes it."""
    arguments = top.arguments
    wanted = overrides.read(arguments)
    found = image.resolve(wanted.image, top.shelf.images, cwd=Path.cwd()) if wanted.image else None
    if isinstance(found, image.UserImage):
        wanted = replace(wanted, image=str(found.path))
    given = tuple(sources or arguments.source)
    return Request(
        sources=given,
        rev=getattr(arguments, "rev", None),
        tree=getattr(arguments, "tree", None),
        base=getattr(arguments, "base", None),
        overrides=wanted,
        stdin=read_stdin(top) if given == ("-",) else None,
        version=getattr(arguments, "series_version", None),
        trailers=getattr(arguments, "trailers", False),
        pick=getattr(arguments, "pick", None),
        lore=top.settings.lore,
        boots=arguments.verb != BUILD,
        per_commit=arguments.per_commit,
        scale=getattr(arguments, "scale", None) or "",
    )


def show_series(top: Desktop) -> int:
    """Print how a series reads and whether it applies; nothing is built."""
    arguments = top.arguments
    given = tuple(arguments.source)
    asked = Request(
        sources=given,
        tree=arguments.tree,
        base=arguments.base,
        stdin=read_stdin(top) if given == ("-",) else None,
        version=arguments.series_version,
        trailers=arguments.trailers,
        pick=arguments.pick,
        lore=top.settings.lore,
    )
    with _desk(top) as desk:
        text, code = seriesverb.show(asked, desk, as_json=arguments.json)
    sys.stdout.write(text)
    return code


def take(top: Desktop, request: Request) -> Intake:
    with _desk(top) as desk:
        return desk.take(request)


def opened(top: Desktop, spec: TreeSpec) -> Tree:
    with top.reporter.step(f"tree {spec.name}") as step:
        return tree.open_tree(spec, cache=top.settings.cache, scope=top.scope, step=step)


def read_stdin(top: Desktop) -> bytes:
    """All of standard input; Ctrl-C ends the wait for it."""
    with top.reporter.step("reading the series from standard input"):
        return b"".join(incoming.chunks(incoming.STDIN, top.scope))


def _claim_places(settings: Settings) -> None:
    """Raise UserError where the cache cannot be written, before anything is done."""
    try:
        settings.cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=settings.cache):
            pass
    except OSError as error:
        raise UserError(
            f"cannot write to the cache {settings.cache}: {error.strerror}", hint="give --cache DIR"
        ) from error


@contextmanager
def _desk(top: Desktop) -> Iterator[Desk]:
    settings = top.settings
    _claim_places(settings)
    with (
        cache.scratch(settings.cache, "intake") as scratch,
        top.reporter.step("looking at it") as step,
    ):
        yield Desk(
            shelf=top.shelf,
            cache=settings.cache,
            scratch=scratch,
            cwd=Path.cwd(),
            native=top.shelf.native(platform.machine()).name,
            scope=top.scope,
            step=step,
        )


def enter(top: Desktop) -> int:
    """Boot a guest and let the user in."""
    arguments = top.arguments
    _claim_places(top.settings)
    for ended in hypervisor.sweep(top.settings.runtime, scope=top.scope):
        top.reporter.say(f"left by a dead run: {ended}")
    asked = shell.ShellRequest(
        guest=arguments.guest,
        architecture=arguments.arch,
        image=arguments.image,
        kernel=arguments.kernel or "",
        tree=arguments.tree or "",
        rev=arguments.rev or "",
        kconfigs=tuple(overrides.names(arguments.kconfig)),
        command=arguments.command or (),
        console=arguments.console,
        terminal=top.settings.terminal,
    )
    place = shell.Place(
        settings=top.settings,
        shelf=top.shelf,
        reporter=top.reporter,
        scope=top.scope,
        cwd=Path.cwd(),
        machine=platform.machine(),
        memory=top.budget.memory,
        ends=Ends(),
    )
    return shell.shell(asked, place)


def _scales(top: Desktop, todo: Plan, history: History) -> Scales:
    return Scales(
        plan=todo,
        shelf=top.shelf,
        known=history.known,
        cores=top.budget.cores,
        accelerator=top.settings.accel or "tcg",
        exclusive=getattr(top.arguments, "exclusive", "auto"),
    )


def _checked(top: Desktop, taken: Intake) -> Plan:
    return preflight.check(
        planned(top, taken.scenario),
        settings=top.settings,
        shelf=top.shelf,
        budget=top.budget,
        transport=_transport(top, taken.scenario),
        scope=top.scope,
    )


def _transport(top: Desktop, scenario: Scenario) -> str:
    """A network has times of its own, which would get into a deterministic guest."""
    given = str(getattr(top.arguments, "transport", "ssh"))
    return "console" if scenario.deterministic else given


def planned(top: Desktop, scenario: Scenario) -> Plan:
    """The plan of what the command line asks for."""
    arguments = top.arguments
    checks = [catalog.pick("check", name, top.shelf.checks) for name in scenario.checks]
    on_patches = tuple(each.name for each in checks if each.script)
    if arguments.verb == BUILD:
        made = plan.builds(scenario)
        return replace(
            made, patch_checks=on_patches, verify=arguments.verify, cover=arguments.cover
        )
    rate = overrides.rate(arguments.odds)
    if rate:
        scenario = replace(scenario, boots=max(scenario.boots, odds.boots_for(rate)))
    known_issues = (issue for path in arguments.known_issues for issue in known.read(Path(path)))
    return replace(
        plan.make(scenario),
        patch_checks=on_patches,
        cover=arguments.cover,
        rate=rate,
        known=tuple(known_issues),
        sequential=arguments.max_boots is not None,
        most_seconds=overrides.seconds(arguments.max_time),
    )


def show_plan(top: Desktop, taken: Intake) -> int:
    """Print what a run would do; nothing is run."""
    todo = _checked(top, taken)
    scales = _scales(top, todo, History(top.settings.cache))
    listed = nodes.nodes(todo, scales)
    budget = nodes.limited(top.budget, listed)
    forecast = scheduler.simulate(listed, budget)
    sys.stdout.write(planview.render(weigh.outlook(scales, budget=budget, forecast=forecast)))
    return 0


def try_out(top: Desktop, taken: Intake) -> int:
    """Carry the plan out, write the results, print the summary, and say the exit code."""
    return _exit_code(tried(top, taken), top.arguments)


def tried(top: Desktop, taken: Intake) -> Run:
    """Carry the plan out, write the results, and print the summary."""
    settings, reporter = top.settings, top.reporter
    for ended in hypervisor.sweep(settings.runtime, scope=top.scope):
        reporter.say(f"left by a dead run: {ended}")
    todo = _checked(top, taken)
    with ExitStack() as stack:
        folder = stack.enter_context(results.new_folder(settings.results))
        results.keep_series(folder, taken.scenario)
        stack.enter_context(cache.using(folder.root))
        stack.enter_context(clean.live(settings.cache, folder.root.name, scope=top.scope))
        finished = _carry_out(top, taken, todo, folder)
        text = summary.render(finished, strict=top.arguments.strict)
        try:
            _write(finished, folder, text, top.arguments.junit_dialect)
        except OSError as error:
            sys.stdout.write(text)
            raise InfraError(
                f"cannot write the results: {error}", hint=f"free some room for {folder.root}"
            ) from error
    sys.stdout.write(text)
    _make_room(top, finished)
    return finished


def _make_room(top: Desktop, finished: Run) -> None:
    """Keep the cache below its limit, where something was put into it."""
    built = [each for each in finished.evidence.builds.values() if isinstance(each, Build)]
    if all(estimate.kind_of(each.how) is BuildKind.CACHED for each in built):
        return
    with top.reporter.step("looking at the cache's size") as step:
        limit = top.settings.cache_size * host.MIB
        freed = evict.evict(top.settings.cache, limit, scope=top.scope, step=step)
    if freed is not None:
        top.reporter.say(clean.render(freed).strip())


def _carry_out(top: Desktop, taken: Intake, todo: Plan, folder: Folder) -> Run:
    begun = Run(
        id=folder.root.name,
        plan=todo,
        evidence=Evidence(cut=True),
        cases=(),
        folder=folder.root,
        command=shlex.join(["ktrial", *sys.argv[1:]]),
        started=time.time(),
        ended=time.time(),
        host={"ktrial": version(), **host.facts()},
        notes=(
            *taken.scenario.notes,
            *known.expired((*taken.scenario.expected, *todo.known), date.today()),
            *_calibrations(top, todo),
        ),
    )
    journal = junitfile.Journal(begun, dialect=getattr(top.arguments, "junit_dialect", "jenkins"))
    journal.begin()
    results.point_latest(folder)  # `latest` of a run that is killed is not an older one's
    history = History(top.settings.cache)
    evidence = trial.run(
        todo,
        trial.Context(
            settings=top.settings,
            shelf=top.shelf,
            reporter=top.reporter,
            scope=top.scope,
            folder=folder,
            opened=taken.tree,
            trusted=taken.trusted,
            over=_transport(top, taken.scenario),
            history=history,
            budget=top.budget,
            weigh=_scales(top, todo, history),
            fail_fast=top.arguments.fail_fast,
            so_far=journal.told,
        ),
    )
    if evidence.cut and not (evidence.revisions or evidence.builds or evidence.boots):
        raise Cancelled
    return junitfile.finished(begun, evidence, ended=time.time())


def _calibrations(top: Desktop, todo: Plan) -> Iterator[str]:
    """What is known of this host's noise, where the run has a trial."""
    for cell in todo.cells if trials.wanted(todo.scenario) else ():
        told = calibrations.last(top.settings.cache, calibration_key(top, todo, cell))
        if told:
            yield f"calibration of this host for {cell.name}, {told}"


def calibration_key(top: Desktop, todo: Plan, cell: Cell) -> str:
    """Of a cell's workload on this host; "" where it only boots."""
    run = todo.scenario.workload(cell.workload)
    if run is None:
        return ""
    return estimate.workload_key(
        architecture=cell.architecture,
        accelerator="deterministic" if todo.scenario.deterministic else (top.settings.accel or ""),
        shape=top.shelf.guests[cell.guest],
        run=run,
    )


def _write(finished: Run, folder: Folder, text: str, dialect: str) -> None:
    results.write(folder.root / "summary.txt", text)
    results.write(folder.root / "junit.xml", junit.render(finished, dialect))
    results.write(folder.root / "result.json", record.dump(finished))
    results.point_latest(folder)


def _exit_code(finished: Run, arguments: argparse.Namespace) -> int:
    if finished.evidence.cut:
        return EXIT_CUT
    if arguments.bisect_exit:
        return outcomes.bisect_exit(finished.cases)
    return outcomes.run_exit(finished.cases, strict=arguments.strict)
