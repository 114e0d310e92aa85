"""Composes the stages into one run: the nodes of a plan and the work behind each.

This is the one module that knows every stage; no stage knows another.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from pipeline import (
    accelerator,
    build,
    cache,
    catalog,
    console,
    evidence,
    image,
    layout,
    results,
    scheduler,
    session,
    tree,
)
from pipeline.boot import Booter, BootJob
from pipeline.catalog import Catalog
from pipeline.errors import UserError
from pipeline.hypervisor import Hypervisor
from pipeline.model import (
    Accelerator,
    ApplyFailure,
    BootId,
    BootResult,
    Build,
    BuildFailure,
    ConfigFailure,
    Evidence,
    Image,
    KernelPlan,
    Plan,
    Revision,
    Role,
    Tree,
)
from pipeline.progress import Reporter
from pipeline.results import Folder
from pipeline.scheduler import Done, Node
from pipeline.scope import Scope
from pipeline.settings import TOOLCHAIN, Settings
from pipeline.virt import EMBEDDED


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a run works with."""

    settings: Settings
    shelf: Catalog
    reporter: Reporter
    scope: Scope
    folder: Folder
    opened: Tree | None = None
    trusted: bool = False
    over: str = "ssh"


def run(plan_: Plan, context: Context) -> Evidence:
    """Carry out a plan. What a stage could not do is in the evidence, not raised.

    Raises UserError where the input turns out to be bad: a lost kconfig symbol on base,
    say, or a tree that is none.
    """
    session.preload()
    with ExitStack() as stack:
        trial = _Trial(plan_, context, stack)
        pools = {
            name: stack.enter_context(ThreadPoolExecutor(workers, thread_name_prefix=name))
            for name, workers in (("light", 4), ("build", 1), ("image", 1), ("guest", 1))
        }
        done = scheduler.run(
            trial.nodes(),
            trial.work,
            pools=pools,
            usable=lambda value: not isinstance(value, ApplyFailure | BuildFailure | ConfigFailure),
            scope=context.scope,
            on_done=trial.keep,
        )
    return evidence.gather(plan_, done)


class _Trial:
    def __init__(self, plan_: Plan, context: Context, stack: ExitStack) -> None:
        self._plan = plan_
        self._scenario = plan_.scenario
        self._context = context
        self._stack = stack
        self._lock = threading.Lock()
        self._hypervisor: Hypervisor | None = None
        self._values: dict[str, object] = {}
        self._booter = Booter(
            folder=context.folder,
            shelf=context.shelf,
            scenario=self._scenario,
            over=context.over,
        )

    # ------------------------------------------------------------------ the plan's nodes

    def nodes(self) -> list[Node]:
        """In plan order: tree, series, builds, then boots behind all builds of their kind."""
        tree_node = Node(id="tree", pool="light", job=self._open_tree)
        applies = [self._apply_node(kernel) for kernel in self._scenario.kernels]
        wanted = list(dict.fromkeys(boot.cell.architecture for boot in self._plan.boots))
        builds = {
            name: [self._build_node(name, kernel) for kernel in self._scenario.kernels]
            for name in wanted
        }
        hosts = [node for name in wanted for node in self._host_nodes(name)]
        boots = [self._boot_node(boot, builds) for boot in self._plan.boots]
        flat = [node for group in builds.values() for node in group]
        return [tree_node, *hosts, *applies, *flat, *boots]

    def _apply_node(self, kernel: KernelPlan) -> Node:
        need = f"apply.{kernel.on}" if kernel.on else "tree"
        return Node(
            id=f"apply.{kernel.name}",
            pool="light",
            needs=(need,),
            job=partial(self._apply, kernel),
        )

    def _build_node(self, architecture: str, kernel: KernelPlan) -> Node:
        # Base is built first, since the others start from its folder; they are built even
        # where it breaks, since that tells whether the fault is base's own.
        first = self._scenario.kernels[0]
        after = () if kernel == first else (f"build.{architecture}.{first.name}",)
        return Node(
            id=f"build.{architecture}.{kernel.name}",
            pool="build",
            needs=(f"apply.{kernel.name}",),
            any_of=self._on_trial(kernel, "apply"),
            after=after,
            job=partial(self._build, architecture, kernel),
        )

    def _host_nodes(self, architecture: str) -> tuple[Node, Node]:
        return (
            Node(
                id=f"image.{architecture}",
                pool="image",
                job=partial(self._image, architecture),
            ),
            Node(
                id=f"accelerator.{architecture}",
                pool="light",
                job=partial(self._accelerator, architecture),
            ),
        )

    def _boot_node(self, boot: BootId, builds: Mapping[str, list[Node]]) -> Node:
        # A build beside a boot would disturb its times: guests wait for every build.
        name = boot.cell.architecture
        kernel = next(each for each in self._scenario.kernels if each.name == boot.kernel)
        return Node(
            id=boot.name,
            pool="guest",
            needs=(f"build.{name}.{boot.kernel}", f"image.{name}", f"accelerator.{name}"),
            any_of=self._on_trial(kernel, f"build.{name}"),
            after=(
                *(node.id for group in builds.values() for node in group),
                *(f"{kind}.{each}" for each in builds for kind in ("image", "accelerator")),
            ),
            job=partial(self._boot, boot),
        )

    def _on_trial(self, kernel: KernelPlan, stage: str) -> tuple[str, ...]:
        """For a kernel that only stands beside those on trial: the nodes of which one must do.

        Where no patched kernel applies, or builds, base has nothing to be compared with.
        """
        if kernel.role is Role.PATCHED:
            return ()
        patched = [each for each in self._scenario.kernels if each.role is Role.PATCHED]
        return tuple(f"{stage}.{each.name}" for each in patched)

    # ------------------------------------------------------------------ the work

    def work(self, node: Node) -> object:
        assert callable(node.job)
        self._context.scope.check()
        return node.job()

    def keep(self, done: Done) -> None:
        self._values[done.id] = done.value

    def _open_tree(self) -> Tree:
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

    def _apply(self, kernel: KernelPlan) -> Revision | ApplyFailure:
        opened = self._values["tree"]
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

    def _build(self, architecture: str, kernel: KernelPlan) -> Build | BuildFailure | ConfigFailure:
        opened, revision = self._values["tree"], self._values[f"apply.{kernel.name}"]
        assert isinstance(opened, Tree)
        assert isinstance(revision, Revision)
        context = self._context
        with context.reporter.step(f"build {kernel.name} for {architecture}") as step:
            result = build.build_kernel(
                self._build_request(architecture, kernel, opened, revision),
                lambda seen: layout.laid_out(
                    opened,
                    revision.tree_id,
                    seen,
                    cache=context.settings.cache,
                    scope=context.scope,
                ),
                cache=context.settings.cache,
                scope=context.scope,
                step=step,
                log_folder=context.folder.build(architecture, kernel.name),
            )
        first = kernel == self._scenario.kernels[0]
        if isinstance(result, ConfigFailure) and result.lost and first:
            raise lost_symbols(result)
        if isinstance(result, Build):
            self._stack.enter_context(cache.using(result.folder))
            results.keep_build(context.folder, result, opened, revision)
        else:
            logs = context.folder.build(architecture, kernel.name)
            results.name_source(logs / "build.sh", opened, revision)
        return result

    def _build_request(
        self, architecture: str, kernel: KernelPlan, opened: Tree, revision: Revision
    ) -> build.BuildRequest:
        shelf, first = (
            self._context.shelf,
            self._values.get(f"apply.{self._scenario.kernels[0].name}"),
        )
        target = shelf.architecture(architecture)
        names = ("base", *target.fragments, *self._fragments())
        return build.BuildRequest(
            kernel=kernel.name,
            tree_id=revision.tree_id,
            origin=opened.origin,
            base_tree_id=first.tree_id if isinstance(first, Revision) else None,
            architecture=target,
            toolchain=catalog.pick("toolchain", TOOLCHAIN, shelf.toolchains),
            fragments=tuple(
                catalog.pick("kconfig fragment", name, shelf.fragments)
                for name in dict.fromkeys(names)
            ),
            jobs=self._context.settings.jobs,
            trusted=kernel.role is Role.BASE or self._context.trusted,
            sandboxed=self._context.settings.sandboxed,
        )

    def _fragments(self) -> tuple[str, ...]:
        probes = [self._context.shelf.probes[name] for name in self._scenario.probes]
        return (*self._scenario.fragments, *(name for each in probes for name in each.kconfigs))

    def _image(self, architecture: str) -> Image:
        recipe = self._context.shelf.images[self._scenario.image]
        with self._context.reporter.step(f"image {recipe.name} for {architecture}") as step:
            return image.build_image(
                recipe,
                self._context.shelf.architecture(architecture),
                cache=self._context.settings.cache,
                scope=self._context.scope,
                step=step,
            )

    def _accelerator(self, architecture: str) -> Accelerator:
        settings = self._context.settings
        self._open_hypervisor()
        with self._context.reporter.step(f"accelerator for {architecture}") as step:
            return accelerator.choose(
                self._context.shelf.architecture(architecture),
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

    def _boot(self, boot: BootId) -> BootResult:
        built = self._values[f"build.{boot.cell.architecture}.{boot.kernel}"]
        guest_image = self._values[f"image.{boot.cell.architecture}"]
        chosen = self._values[f"accelerator.{boot.cell.architecture}"]
        assert isinstance(built, Build)
        assert isinstance(guest_image, Image)
        assert isinstance(chosen, Accelerator)
        job = BootJob(boot=boot, build=built, image=guest_image, accelerator=chosen)
        with self._context.reporter.step(f"boot {boot.name}") as step:
            return self._booter.run(
                job, self._open_hypervisor(), scope=self._context.scope, step=step
            )


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
