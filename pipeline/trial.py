"""Composes the stages into one run: the nodes of a plan and the work behind each.

This is the one module that knows every stage; no stage knows another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from pipeline import (
    accelerator,
    cache,
    console,
    estimate,
    evidence,
    image,
    kernelbuild,
    nodes,
    plan,
    results,
    scheduler,
    session,
    tree,
)
from pipeline.boot import Booter, BootJob
from pipeline.budget import Budget, Node
from pipeline.catalog import Catalog
from pipeline.errors import UserError
from pipeline.history import History
from pipeline.hypervisor import Hypervisor
from pipeline.model import (
    Accelerator,
    ApplyFailure,
    BootId,
    BootResult,
    Build,
    BuildFailure,
    Cell,
    ConfigFailure,
    Evidence,
    Image,
    KernelPlan,
    Phase,
    Plan,
    Revision,
    Role,
    Stop,
    Tree,
)
from pipeline.nodes import Job, Kind, Weigh
from pipeline.progress import Reporter
from pipeline.results import Folder
from pipeline.scheduler import Done
from pipeline.scope import Scope
from pipeline.settings import Settings
from pipeline.virt import EMBEDDED


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a run works with. `fail_fast`: nothing more is started once something has failed."""

    settings: Settings
    shelf: Catalog
    reporter: Reporter
    scope: Scope
    folder: Folder
    history: History
    budget: Budget
    weigh: Weigh
    opened: Tree | None = None
    trusted: bool = False
    over: str = "ssh"
    fail_fast: bool = False


def run(plan_: Plan, context: Context) -> Evidence:
    """Carry out a plan. What a stage could not do is in the evidence, not raised.

    Raises UserError where the input turns out to be bad: a lost kconfig symbol on base,
    say, or a tree that is none.
    """
    session.preload()
    todo = nodes.nodes(plan_, context.weigh)
    budget = nodes.limited(context.budget, todo)
    with ExitStack() as stack:
        trial = _Trial(plan_, context, stack, [node.id for node in todo])
        pools = {
            name: stack.enter_context(ThreadPoolExecutor(workers, thread_name_prefix=name))
            for name, workers in budget.at_most.items()
        }
        done = scheduler.run(
            todo,
            trial.work,
            pools=pools,
            usable=lambda value: not isinstance(value, ApplyFailure | BuildFailure | ConfigFailure),
            scope=context.scope,
            budget=budget,
            on_done=trial.keep,
            fail_fast=trial.failed if context.fail_fast else lambda _: False,
        )
    return evidence.gather(plan_, done)


class _Crowd:
    """Who of us keeps the host busy: tells a boot whether it ever had company."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._members: dict[object, bool] = {}  # each with whether it was alone so far

    @contextmanager
    def member(self) -> Iterator[Callable[[], bool]]:
        """While the context lasts; what it gives answers whether nobody else was there."""
        me = object()
        with self._lock:
            for each in self._members:
                self._members[each] = False
            self._members[me] = not self._members
        try:
            yield lambda: self._members[me]
        finally:
            with self._lock:
                del self._members[me]


class _Trial:
    def __init__(
        self, plan_: Plan, context: Context, stack: ExitStack, todo: Sequence[str]
    ) -> None:
        self._plan = plan_
        self._todo = todo
        self._done: list[Done] = []
        self._scenario = plan_.scenario
        self._kernels = {kernel.name: kernel for kernel in plan_.scenario.kernels}
        self._context = context
        self._stack = stack
        self._lock = threading.Lock()
        self._crowd = _Crowd()
        self._hypervisor: Hypervisor | None = None
        self._values: dict[str, object] = {}
        self._booter = Booter(
            folder=context.folder,
            shelf=context.shelf,
            scenario=self._scenario,
            over=context.over,
            cache=context.settings.cache,
        )

    # ------------------------------------------------------------------ the work

    def work(self, node: Node) -> object:
        """Do what a node is for, and give what it comes to; from any thread."""
        assert isinstance(node.job, Job)
        self._context.scope.check()
        return self._work[node.job.kind](node.job)

    @cached_property
    def _work(self) -> Mapping[Kind, Callable[[Job], object]]:
        return {
            Kind.TREE: self._open_tree,
            Kind.APPLY: self._apply,
            Kind.BUILD: self._build,
            Kind.IMAGE: self._image,
            Kind.ACCELERATOR: self._accelerator,
            Kind.BOOT: self._boot,
        }

    def keep(self, done: Done) -> None:
        """What came of a node, for those that need it."""
        self._done.append(done)
        self._values[done.id] = done.value

    def failed(self, _: Done) -> bool:
        """Whether `--fail-fast` ends the run now."""
        return evidence.failed(self._plan, self._todo, self._done)

    def _open_tree(self, _: Job) -> Tree:
        opened = self._context.opened or self._opened()
        entry = opened.repository
        if self._scenario.tree.debian_version:
            entry = entry.parent  # the package's folder is the cache's entry
        self._stack.enter_context(cache.using(entry))
        return opened

    def _opened(self) -> Tree:
        spec = self._scenario.tree
        with self._context.reporter.step(f"tree {spec.name}") as step:
            return tree.open_tree(
                spec,
                cache=self._context.settings.cache,
                scope=self._context.scope,
                step=step,
            )

    def _apply(self, job: Job) -> Revision | ApplyFailure:
        kernel, opened = self._kernels[job.kernel], self._values["tree"]
        assert isinstance(opened, Tree)
        under = self._values[f"apply.{kernel.on}"] if kernel.on else None
        on = under.commit if isinstance(under, Revision) else opened.base
        with self._context.reporter.step(f"series on {kernel.name}"):
            return tree.apply(
                opened,
                kernel,
                on=on,
                log=self._context.folder.apply_log(kernel.name),
                scope=self._context.scope,
            )

    def _build(self, job: Job) -> Build | BuildFailure | ConfigFailure:
        kernel, cell = self._kernels[job.kernel], job.cell
        opened, revision = self._values["tree"], self._values[f"apply.{kernel.name}"]
        assert isinstance(opened, Tree)
        assert isinstance(revision, Revision)
        assert cell is not None
        context = self._context
        with (
            self._crowd.member(),
            context.reporter.step(f"build {kernel.name} for {cell.target}") as step,
        ):
            result = kernelbuild.make(
                self._wish(cell, kernel, opened, revision),
                shelf=context.shelf,
                settings=context.settings,
                scope=context.scope,
                step=step,
            )
        first = kernel == self._scenario.kernels[0]
        if isinstance(result, ConfigFailure) and result.lost and first:
            raise lost_symbols(result)
        if isinstance(result, Build):
            self._stack.enter_context(cache.using(result.folder))
            results.keep_build(context.folder, result, cell.target, opened, revision)
            self._remember_build(result, cell)
        else:
            logs = context.folder.build(cell.target, kernel.name)
            results.name_source(logs / "build.sh", opened, revision)
        return result

    def _wish(
        self, cell: Cell, kernel: KernelPlan, opened: Tree, revision: Revision
    ) -> kernelbuild.Wish:
        first = self._values.get(f"apply.{self._scenario.kernels[0].name}")
        return kernelbuild.Wish(
            opened=opened,
            revision=revision,
            base=first if isinstance(first, Revision) else None,
            architecture=self._context.shelf.architecture(cell.architecture),
            fragments=self._fragments(cell.configuration),
            trusted=kernel.role is Role.BASE or self._context.trusted,
            log_folder=self._context.folder.build(cell.target, kernel.name),
        )

    def _fragments(self, configuration: str) -> tuple[str, ...]:
        probes = [self._context.shelf.probes[name] for name in self._scenario.probes]
        return (
            *self._scenario.fragments,
            *(name for each in probes for name in each.kconfigs),
            *plan.configuration(self._scenario, configuration).fragments,
        )

    def _image(self, job: Job) -> Image:
        recipe = image.resolve(self._scenario.image, self._context.shelf.images, cwd=Path("/"))
        with self._context.reporter.step(f"image {recipe.name} for {job.architecture}") as step:
            return image.build_image(
                recipe,
                self._context.shelf.architecture(job.architecture),
                cache=self._context.settings.cache,
                scope=self._context.scope,
                step=step,
            )

    def _accelerator(self, job: Job) -> Accelerator:
        settings = self._context.settings
        self._open_hypervisor()
        with self._context.reporter.step(f"accelerator for {job.architecture}") as step:
            return accelerator.choose(
                self._context.shelf.architecture(job.architecture),
                forced=settings.accel,
                cache=settings.cache,
                scope=self._context.scope,
                step=step,
            )

    def _open_hypervisor(self) -> Hypervisor:
        """One for the run, opened by whoever comes first, closed with the run."""
        settings = self._context.settings
        with self._lock:
            if self._hypervisor is None:
                with self._context.reporter.step("libvirt"):
                    self._hypervisor = self._stack.enter_context(
                        Hypervisor(
                            connect=None if settings.connect == EMBEDDED else settings.connect,
                            runtime=settings.runtime,
                            cache=settings.cache,
                            families=console.read_families(settings.data / "console"),
                        )
                    )
            return self._hypervisor

    def _boot(self, job: Job) -> tuple[BootResult, ...]:
        """Every attempt at this boot; the last one counts."""
        assert job.boot is not None
        cell = job.boot.cell
        built = self._values[nodes.build_id(cell.target, job.kernel)]
        guest_image = self._values[f"image.{cell.architecture}"]
        chosen = self._values[f"accelerator.{cell.architecture}"]
        assert isinstance(built, Build)
        assert isinstance(guest_image, Image)
        assert isinstance(chosen, Accelerator)
        todo = BootJob(
            boot=job.boot,
            build=built,
            image=guest_image,
            accelerator=chosen,
            expected_seconds=self._expected(job.boot, chosen.name),
        )
        with (
            self._crowd.member() as alone,
            self._context.reporter.step(f"boot {job.boot.name}") as step,
        ):
            attempts = self._booter.run(
                todo, self._open_hypervisor(), scope=self._context.scope, step=step
            )
            shared = not alone()
        if not shared:  # what shares the host takes longer than it would
            self._remember_boot(attempts[-1])
        return tuple(replace(each, shared=shared) for each in attempts)

    # ------------------------------------------------------------------ for the next run

    def _remember_build(self, result: Build, cell: Cell) -> None:
        kind = estimate.kind_of(result.how)
        tree_name = self._scenario.tree.name
        key = estimate.build_key(target=cell.target, tree=tree_name, kind=kind)
        self._context.history.add(key, result.seconds)

    def _remember_boot(self, result: BootResult) -> None:
        """How long it took; what did not come to its end tells nothing of that."""
        if result.stop is not Stop.COMPLETED:
            return
        cell = result.boot.cell
        run = self._scenario.workload(cell.workload)
        shape = self._context.shelf.guests[cell.guest]
        where = {"architecture": cell.architecture, "accelerator": result.accelerator.name}
        key = estimate.boot_key(**where, shape=shape, image=self._scenario.image, run=run)
        self._context.history.add(key, result.ended - result.started)
        for output in result.outputs:
            if run and output.phase is Phase.WORKLOAD and output.exit_status == 0:
                key = estimate.workload_key(**where, shape=shape, run=run)
                self._context.history.add(key, output.seconds)

    def _expected(self, boot: BootId, accelerator_name: str) -> float | None:
        """Seconds that the workload of a boot takes, as far as this host has measured them."""
        run = self._scenario.workload(boot.cell.workload)
        if run is None:
            return None
        found = estimate.workload(
            self._context.history.known,
            architecture=boot.cell.architecture,
            accelerator=accelerator_name,
            shape=self._context.shelf.guests[boot.cell.guest],
            run=run,
        )
        return found.seconds if found.source == estimate.MEASURED else None


class ConfigurationError(UserError):
    """The tree cannot give the configuration that was asked for; a bisection skips the commit."""

    bisect_code: ClassVar[int] = 125


def lost_symbols(failure: ConfigFailure) -> ConfigurationError:
    """Every lost symbol with its fragment and the reason, in one error."""
    lines = [str(lost) for lost in failure.lost]
    return ConfigurationError(
        "the configuration cannot be had: " + "; ".join(lines),
        hint="mend the fragment, or take a tree that has it",
    )
