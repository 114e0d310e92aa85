"""What each verb of the command line does."""

from __future__ import annotations

import argparse
import os
import platform
import select
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline import (
    accelerator,
    cache,
    clean,
    doctor,
    host,
    hypervisor,
    inventory,
    junit,
    outcomes,
    plan,
    preflight,
    record,
    results,
    summary,
    tree,
    trial,
    verdict,
)
from pipeline.catalog import Catalog
from pipeline.errors import Cancelled, UserError
from pipeline.intake import Desk, Intake, Request
from pipeline.model import Plan, Run, Tree, TreeSpec
from pipeline.progress import Reporter
from pipeline.results import Folder
from pipeline.scenario import Overrides, Scalar, WorkloadEntry
from pipeline.scope import Scope
from pipeline.settings import Settings, version

DEMO = "num_present_cpus"
DEMO_FALLBACK = "debian:6.12"
EXIT_CUT = 130
STDIN_POLL_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class _Desktop:
    """What every verb works with."""

    arguments: argparse.Namespace
    settings: Settings
    reporter: Reporter
    scope: Scope

    @property
    def shelf(self) -> Catalog:
        return Catalog(data=self.settings.data, share=self.settings.share)


# ------------------------------------------------------------------------- run and demo


def run(arguments: argparse.Namespace, settings: Settings, reporter: Reporter, scope: Scope) -> int:
    """`ktrial run`: whatever the user named, put on trial."""
    top = _Desktop(arguments=arguments, settings=settings, reporter=reporter, scope=scope)
    request = Request(
        sources=tuple(arguments.source),
        rev=arguments.rev,
        tree=arguments.tree,
        base=arguments.base,
        overrides=_overrides(arguments),
        stdin=_read_stdin(top) if arguments.source == ["-"] else None,
    )
    return _try(top, _take(top, request))


def demo(
    arguments: argparse.Namespace, settings: Settings, reporter: Reporter, scope: Scope
) -> int:
    """`ktrial demo`: the first scenario; on a newer tree where its own is not to be had."""
    top = _Desktop(arguments=arguments, settings=settings, reporter=reporter, scope=scope)
    request = Request(sources=(DEMO,), overrides=_overrides(arguments))
    taken = _take(top, request)
    try:
        opened = _opened(top, taken.scenario.tree)
    except tree.TreeUnavailable as error:
        reporter.say(f"{error.message}: taking {DEMO_FALLBACK} and its variant instead")
        taken = _take(top, replace(request, tree=DEMO_FALLBACK))
        opened = _opened(top, taken.scenario.tree)
    return _try(top, replace(taken, tree=opened))


def _take(top: _Desktop, request: Request) -> Intake:
    with _desk(top) as desk:
        return desk.take(request)


def _opened(top: _Desktop, spec: TreeSpec) -> Tree:
    with top.reporter.step(f"tree {spec.name}") as step:
        return tree.open_tree(spec, cache=top.settings.cache, scope=top.scope, step=step)


def _read_stdin(top: _Desktop) -> bytes:
    """All of standard input; Ctrl-C ends the wait for it."""
    chunks: list[bytes] = []
    with top.reporter.step("reading the series from standard input"):
        while True:
            top.scope.check()
            if select.select([sys.stdin], [], [], STDIN_POLL_SECONDS)[0]:
                chunks.append(os.read(sys.stdin.fileno(), 1 << 16))
                if not chunks[-1]:
                    return b"".join(chunks)


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
def _desk(top: _Desktop) -> Iterator[Desk]:
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


def _try(top: _Desktop, taken: Intake) -> int:
    """Carry the plan out, write the results, print the summary, and say the exit code."""
    settings, reporter = top.settings, top.reporter
    for ended in hypervisor.sweep(settings.runtime, scope=top.scope):
        reporter.say(f"left by a dead run: {ended}")
    todo = preflight.check(
        plan.make(taken.scenario), settings=settings, shelf=top.shelf, scope=top.scope
    )
    with ExitStack() as stack:
        folder = stack.enter_context(results.new_folder(settings.results))
        results.keep_series(folder, taken.scenario)
        stack.enter_context(cache.using(folder.root))
        stack.enter_context(clean.live(settings.cache, folder.root.name, scope=top.scope))
        finished = _carry_out(top, taken, todo, folder)
        text = summary.render(finished, strict=top.arguments.strict)
        _write(finished, folder, text)
    sys.stdout.write(text)
    return _exit_code(finished, top.arguments)


def _carry_out(top: _Desktop, taken: Intake, todo: Plan, folder: Folder) -> Run:
    started = time.time()
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
            over=top.arguments.transport,
        ),
    )
    if evidence.cut and not (evidence.revisions or evidence.builds or evidence.boots):
        raise Cancelled
    return Run(
        id=folder.root.name,
        plan=todo,
        evidence=evidence,
        cases=verdict.judge(todo, evidence, root=folder.root),
        folder=folder.root,
        command=shlex.join(["ktrial", *sys.argv[1:]]),
        started=started,
        ended=time.time(),
        host={"ktrial": version(), **host.facts()},
        notes=taken.scenario.notes,
    )


def _write(finished: Run, folder: Folder, text: str) -> None:
    results.write(folder.root / "summary.txt", text)
    results.write(folder.root / "junit.xml", junit.render(finished))
    results.write(folder.root / "result.json", record.dump(finished))
    results.point_latest(folder)


def _exit_code(finished: Run, arguments: argparse.Namespace) -> int:
    if finished.evidence.cut:
        return EXIT_CUT
    if arguments.bisect_exit:
        return outcomes.bisect_exit(finished.cases)
    return outcomes.run_exit(finished.cases, strict=arguments.strict)


# ------------------------------------------------------------------------- options


def _overrides(arguments: argparse.Namespace) -> Overrides:
    if arguments.boots is not None and arguments.boots < 1:
        raise UserError(f"--boots: expected 1 or more, not {arguments.boots}")
    return Overrides(
        architectures=_names(arguments.arch),
        kconfigs=_names(arguments.kconfig),
        guests=_names(arguments.guest),
        image=arguments.image,
        workloads=tuple(workload_entry(text) for text in arguments.workload),
        probes=_names(arguments.probe),
        boots=arguments.boots or 0,
    )


def _names(given: Sequence[str]) -> tuple[str, ...]:
    """`--arch x86_64 --arch aarch64` and `--arch x86_64,aarch64` are the same."""
    return tuple(name for text in given for name in text.split(","))


def workload_entry(text: str) -> WorkloadEntry:
    """`hackbench:loops=500,groups=4,process=true` as a scenario would have it."""
    use, _, rest = text.partition(":")
    parameters: dict[str, Scalar] = {}
    for pair in filter(None, rest.split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise UserError(f"--workload {text}: “{pair}” has no value", hint="write KEY=VALUE")
        if key in parameters:
            raise UserError(f"--workload {text}: “{key}” is there twice")
        parameters[key] = _scalar(value)
    return WorkloadEntry(use=use, parameters=parameters)


def _scalar(text: str) -> Scalar:
    words: Mapping[str, bool] = {"true": True, "yes": True, "false": False, "no": False}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


# ------------------------------------------------------------------------- the others


def doctor_(
    arguments: argparse.Namespace, settings: Settings, reporter: Reporter, scope: Scope
) -> int:
    """`ktrial doctor`: 0 where all that a run on this host needs is there, else 3."""
    top = _Desktop(arguments=arguments, settings=settings, reporter=reporter, scope=scope)
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
    top = _Desktop(arguments=arguments, settings=settings, reporter=reporter, scope=scope)
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


VERBS: Mapping[str, Callable[[argparse.Namespace, Settings, Reporter, Scope], int]] = {
    "run": run,
    "demo": demo,
    "doctor": doctor_,
    "list": list_,
    "clean": clean_,
}
