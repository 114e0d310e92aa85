"""Composes the stages into one run: the nodes of a plan and the work behind each.

This is the one module that knows every stage; no stage knows another.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from pathlib import Path

from pipeline import (
    accelerator,
    cache,
    console,
    estimate,
    evidence,
    host,
    image,
    known,
    nodes,
    plan,
    scheduler,
    session,
    spending,
    tree,
    trials,
)
from pipeline.boot import Booter, BootJob
from pipeline.budget import Budget, Node
from pipeline.catalog import Catalog
from pipeline.crowd import Crowd
from pipeline.evidence import Look
from pipeline.history import History
from pipeline.hypervisor import Hypervisor
from pipeline.model import (
    Accelerator,
    ApplyFailure,
    BootId,
    BootResult,
    Build,
    BuildFailure,
    Comparison,
    ConfigFailure,
    Evidence,
    Finding,
    Image,
    Phase,
    Plan,
    Revision,
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
from pipeline.workshop import Workshop


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
    so_far: Callable[[Callable[[], Evidence]], None] = lambda _: None  # told after each node


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
            usable=_usable,
            scope=context.scope,
            budget=budget,
            on_done=trial.keep,
            fail_fast=trial.failed if context.fail_fast else lambda _: False,
        )
    return evidence.gather(plan_, done)


def _usable(value: object) -> bool:
    """Whether what needs it can go on; a kernel that is the one below it need not boot."""
    if isinstance(value, Comparison):
        return not value.identical
    if isinstance(value, Look):
        return not value.enough
    return not isinstance(value, ApplyFailure | BuildFailure | ConfigFailure)


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
        self._started = time.monotonic()
        self._crowd = Crowd()
        self._hypervisor: Hypervisor | None = None
        self._values: dict[str, object] = {}
        self._workshop = Workshop(
            plan=plan_,
            shelf=context.shelf,
            settings=context.settings,
            scope=context.scope,
            reporter=context.reporter,
            folder=context.folder,
            history=context.history,
            trusted=context.trusted,
            stack=stack,
            crowd=self._crowd,
            values=self._values,
        )
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
            **self._workshop.work,
            Kind.IMAGE: self._image,
            Kind.ACCELERATOR: self._accelerator,
            Kind.BOOT: self._boot,
            Kind.LOOK: self._look,
        }

    def keep(self, done: Done) -> None:
        """What came of a node, for those that need it, and for whoever reads results already."""
        self._done.append(done)
        self._values[done.id] = done.value
        self._context.so_far(lambda: evidence.so_far(self._plan, self._todo, self._done))

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
        cell, kernel = job.boot.cell, self._kernels[job.kernel]
        target = plan.target_of(cell.built_for, kernel).name
        built = self._values[nodes.build_id(target, kernel.source)]
        guest_image = self._values[f"image.{cell.architecture}"]
        chosen = self._values[f"accelerator.{cell.architecture}"]
        assert isinstance(built, Build)
        label = nodes.programs_id(target, kernel.source, cell.workload)
        if isinstance(brought := self._values.get(label), Path):
            built = replace(built, programs=brought)
        assert isinstance(guest_image, Image)
        assert isinstance(chosen, Accelerator)
        todo = BootJob(
            boot=job.boot,
            kernel=kernel,
            build=built,
            image=guest_image,
            accelerator=chosen,
            expected_seconds=self._expected(job.boot, chosen.name),
            cores=host.cpus() if self._context.weigh(job).exclusive else (),
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
        return tuple(replace(each, shared=shared, findings=self._marked(each)) for each in attempts)

    def _marked(self, result: BootResult) -> tuple[Finding, ...]:
        """Its findings, with those that are no news."""
        return known.mark(
            result.findings,
            (*self._scenario.expected, *self._plan.known),
            workload=result.boot.cell.workload,
            architecture=result.boot.cell.architecture,
            today=date.today(),
        )

    def _look(self, job: Job) -> Look:
        """Whether a cell's next block of boots is begun."""
        assert job.cell is not None
        for block in range(job.block):
            earlier = self._values.get(nodes.look_id(job.cell, block))
            if isinstance(earlier, Look) and earlier.enough:
                return earlier
        limit = self._plan.most_seconds
        if limit and time.monotonic() - self._started >= limit:
            return Look(enough=f"the time was spent: {limit:g} s (--max-time)")
        if not self._plan.sequential or job.block not in spending.looks(
            plan.boots_in(self._scenario, job.cell)
        ):
            return Look()
        boots = [each for done in self._done for each in evidence.attempts(done.value)]
        if trials.is_clear(trials.compare(self._plan, boots, job.cell)):
            return Look(enough=f"the answer was clear after {job.block} boots of each kernel")
        return Look()

    # ------------------------------------------------------------------ for the next run

    def _remember_boot(self, result: BootResult) -> None:
        """How long it took; what did not come to its end tells nothing of that."""
        if result.stop is not Stop.COMPLETED:
            return
        cell = result.boot.cell
        run = self._scenario.workload(cell.workload)
        kernel = plan.kernel_of(self._scenario, result.boot.kernel)
        shape = self._context.shelf.guests[plan.guest_of(cell, kernel)]
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
            shape=self._context.shelf.guests[plan.guest_of(boot.cell, self._kernels[boot.kernel])],
            run=run,
        )
        return found.seconds if found.source == estimate.MEASURED else None
