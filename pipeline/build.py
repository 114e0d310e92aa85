"""Building a kernel: configuration, compilation, and the cache in front of both.

`build_kernel` has a kernel, `opened` a build folder of it for others to run make in, `afresh` a
clean build that nothing of the cache takes part in.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from pipeline import cache as entries
from pipeline import compiler, ramdisk, sandbox
from pipeline.buildjob import Alike, Job, LayOut, never
from pipeline.buildkeys import BuildRequest, Keys
from pipeline.errors import InfraError
from pipeline.model import Build, BuildFailure, ConfigFailure
from pipeline.progress import Step
from pipeline.scope import Scope
from pipeline.store import BUILD_LOG, Store
from pipeline.workbench import Workbench
from pipeline.workspaces import Cost, no_cost

__all__ = [
    "BUILD_LOG",
    "BuildRequest",
    "LayOut",
    "afresh",
    "build_kernel",
    "job",
    "opened",
    "restore",
]


def job(
    request: BuildRequest,
    lay_out: LayOut,
    *,
    cache: Path,
    scope: Scope,
    step: Step,
    log_folder: Path,
    cost: Cost = no_cost,
    alone: bool = False,
    alike: Alike = never,
) -> Job:
    """What `request` describes, with all that it takes to build it here.

    `lay_out` puts the sources on disk for a build folder that has seen the given times;
    it is not called on a hit. `log_folder` gets config.log and build.log of what was done.
    `cost` tells how far the request's tree is from another, `alike` whether that one has the same
    configuration for sure. `alone`: without ccache.

    Raises:
        InfraError: there is no compiler; the hint tells how to get it.
    """
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
        alike=alike,
    )


def build_kernel(
    job: Job,
    *,
    stack: ExitStack | None = None,
    prepare: Callable[[], object] | None = None,
) -> Build | BuildFailure | ConfigFailure:
    """Have a kernel: from the cache, or built now.

    Until `stack` is closed the folder in which make worked stays (`Build.workspace`); without
    one, only a trusted build's does. `prepare` is called before anything is built.

    Raises:
        InfraError: host tools, sandbox or disk space are missing, or the deadline passed; the
            message names what and the hint how to get it.
    """
    ramdisk.sweep()  # of runs that were killed; folders on a disk may wait for the next of a group
    if built := job.cached():
        return built
    if prepare is not None:
        prepare()
    with _locked(job):
        return job.cached() or job.make(stack)


def _locked(job: Job) -> AbstractContextManager[int]:
    lock = job.store.lock(job.keys.config)
    waiting = "another run builds it"
    return entries.locked(lock, scope=job.scope, on_wait=lambda: job.step.note(waiting))


def restore(job: Job) -> None:
    """Have a build folder of a trusted kernel that was built, where none is left to start from.

    The folders of a group may be gone while what was built in them is still there. With ccache
    it takes a tenth of a clean build, once, instead of as much for each kernel that is to start
    from it. Nothing is done where it does not go well: the kernel is there.
    """
    if not (job.request.trusted and job.request.sandboxed):
        return
    with _locked(job):
        built = job.cached()
        if built is None or job.spaces.starts():
            return
        with job.spaces.fresh() as workspace, job.lay_out(None) as sources:
            bench = job.bench(workspace, sources)
            sandbox.require(bench.box, scope=job.scope)
            with suppress(InfraError):
                job.bring(bench, built, continued=False)
                job.spaces.keep(workspace, sources.times)


@contextmanager
def opened(job: Job, *, built: Build, copy: bool) -> Iterator[Workbench]:
    """The build folder of a kernel that was built, with its sources laid out, to run make in.

    With `copy` it is a throw-away copy. So it always is of a trusted build's folder, and never
    without the sandbox, where there is one folder for all. Where no folder is left of the
    kernel, the nearest one is brought to it first: a throw-away copy in any case.

    Raises:
        InfraError: as `build_kernel`, or the kernel does not build any more.
    """
    with ExitStack() as stack:
        workspace = stack.enter_context(job.reopened(built.workspace, copy))
        sources = stack.enter_context(job.lay_out(workspace.seen))
        bench = job.bench(workspace, sources)
        sandbox.require(bench.box, scope=job.scope)
        if not workspace.holds(job.request.tree_id):
            job.bring(bench, built, workspace.seen is not None)
        yield bench
        if workspace.lasting:
            job.spaces.note(workspace, sources.times)


@contextmanager
def afresh(job: Job, *, built: Build) -> Iterator[tuple[Workbench, Keys]]:
    """The kernel built again in an empty folder. `job` is `alone`: no object of any other build.

    Raises:
        InfraError: as `opened`.
    """
    with job.spaces.fresh() as workspace, job.lay_out(None) as sources:
        bench = job.bench(workspace, sources)
        sandbox.require(bench.box, scope=job.scope)
        job.bring(bench, built, continued=False)
        yield bench, job.keys
