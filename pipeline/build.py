"""Building a kernel: configuration, compilation, and the cache in front of both.

`build_kernel` has a kernel, `opened` a build folder of it for others to run make in, `afresh` a
clean build that nothing of the cache takes part in.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from pipeline import cache as entries
from pipeline import compiler, sandbox
from pipeline.buildjob import Job, LayOut
from pipeline.buildkeys import BuildRequest, Keys
from pipeline.errors import InfraError
from pipeline.model import Build, BuildFailure, ConfigFailure
from pipeline.progress import Step
from pipeline.scope import Scope
from pipeline.store import BUILD_LOG, Store
from pipeline.workbench import Workbench
from pipeline.workspaces import Cost, no_cost

__all__ = ["BUILD_LOG", "BuildRequest", "LayOut", "afresh", "build_kernel", "opened", "restore"]


def build_kernel(
    request: BuildRequest,
    lay_out: LayOut,
    *,
    cache: Path,
    scope: Scope,
    step: Step,
    log_folder: Path,
    cost: Cost = no_cost,
    stack: ExitStack | None = None,
    prepare: Callable[[], object] | None = None,
) -> Build | BuildFailure | ConfigFailure:
    """Have the kernel that `request` describes: from the cache, or built now.

    `lay_out` puts the sources on disk for a build folder that has seen the given times;
    it is not called on a hit. `log_folder` gets config.log and build.log of what was done.
    `cost` tells how far the request's tree is from another. Until `stack` is closed the folder
    in which make worked stays (`Build.workspace`); without one, only a trusted build's does.
    `prepare` is called before anything is built.

    Raises:
        InfraError: compiler, host tools, sandbox or disk space are missing, or the deadline
            passed; the message names what and the hint how to get it.
    """
    job = _job(
        request, lay_out, cache=cache, scope=scope, step=step, log_folder=log_folder, cost=cost
    )
    if built := job.cached():
        return built
    if prepare is not None:
        prepare()
    lock = job.store.lock(job.keys.config)
    with entries.locked(lock, scope=scope, on_wait=lambda: step.note("another run builds it")):
        return job.cached() or job.make(stack)


def restore(
    request: BuildRequest,
    lay_out: LayOut,
    *,
    cache: Path,
    scope: Scope,
    step: Step,
    log_folder: Path,
    cost: Cost = no_cost,
) -> None:
    """Have a build folder of a trusted kernel that was built, where none is left to start from.

    The folders of a group may be gone while what was built in them is still there. With ccache
    it takes a tenth of a clean build, once, instead of as much for each kernel that is to start
    from it. Nothing is done where it does not go well: the kernel is there.
    """
    job = _job(
        request, lay_out, cache=cache, scope=scope, step=step, log_folder=log_folder, cost=cost
    )
    if not (request.trusted and request.sandboxed):
        return
    lock = job.store.lock(job.keys.config)
    with entries.locked(lock, scope=scope, on_wait=lambda: step.note("another run builds it")):
        built = job.cached()
        if built is None or job.spaces.starts():
            return
        with job.spaces.fresh() as workspace, lay_out(None) as sources:
            bench = job.bench(workspace, sources)
            sandbox.require(bench.box, scope=scope)
            with suppress(InfraError):
                job.bring(bench, built, continued=False)
                job.spaces.keep(workspace, sources.times)


@contextmanager
def opened(
    request: BuildRequest,
    lay_out: LayOut,
    *,
    built: Build,
    copy: bool,
    cache: Path,
    scope: Scope,
    step: Step,
    log_folder: Path,
    cost: Cost = no_cost,
) -> Iterator[Workbench]:
    """The build folder of a kernel that was built, with its sources laid out, to run make in.

    With `copy` it is a throw-away copy. So it always is of a trusted build's folder, and never
    without the sandbox, where there is one folder for all. Where no folder is left of the
    kernel, the nearest one is brought to it first: a throw-away copy in any case.

    Raises:
        InfraError: as `build_kernel`, or the kernel does not build any more.
    """
    job = _job(
        request, lay_out, cache=cache, scope=scope, step=step, log_folder=log_folder, cost=cost
    )
    with ExitStack() as stack:
        workspace = stack.enter_context(job.reopened(built.workspace, copy))
        sources = stack.enter_context(lay_out(workspace.seen))
        bench = job.bench(workspace, sources)
        sandbox.require(bench.box, scope=scope)
        if not workspace.holds(request.tree_id):
            job.bring(bench, built, workspace.seen is not None)
        yield bench
        if workspace.lasting:
            job.spaces.note(workspace, sources.times)


@contextmanager
def afresh(
    request: BuildRequest,
    lay_out: LayOut,
    *,
    built: Build,
    cache: Path,
    scope: Scope,
    step: Step,
    log_folder: Path,
) -> Iterator[tuple[Workbench, Keys]]:
    """The same kernel built again in an empty folder, without objects of any other build.

    Raises:
        InfraError: as `opened`.
    """
    job = _job(
        request, lay_out, cache=cache, scope=scope, step=step, log_folder=log_folder, alone=True
    )
    with job.spaces.fresh() as workspace, lay_out(None) as sources:
        bench = job.bench(workspace, sources)
        sandbox.require(bench.box, scope=scope)
        job.bring(bench, built, continued=False)
        yield bench, job.keys


def _job(
    request: BuildRequest,
    lay_out: LayOut,
    *,
    cache: Path,
    scope: Scope,
    step: Step,
    log_folder: Path,
    cost: Cost = no_cost,
    alone: bool = False,
) -> Job:
    started = time.monotonic()
    found = compiler.find(
        request.toolchain, request.architecture, machine=platform.machine(), scope=scope
    )
    log_folder.mkdir(parents=True, exist_ok=True)
    return Job(
        keys=Keys(request=request, compiler=found),
        lay_out=lay_out,
        store=Store(cache=cache),
        scope=scope,
        step=step,
        log_folder=log_folder,
        cost=cost,
        started=started,
        alone=alone,
    )
