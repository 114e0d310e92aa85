"""One build request with all that serves it: how a hit is told, and where a miss is built."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pipeline import cache as entries
from pipeline import compiler, configuration, kconfig, objectcache, recipe, sandbox, store
from pipeline.buildkeys import BuildRequest, Keys
from pipeline.compiling import FRAGMENTS, Made, Making
from pipeline.errors import InfraError
from pipeline.model import Build, BuildFailure, ConfigFailure, FileTimes, Sources
from pipeline.objectcache import ObjectCache
from pipeline.progress import Step
from pipeline.sandbox import Sandbox
from pipeline.scope import Scope
from pipeline.store import Store
from pipeline.workbench import Workbench
from pipeline.workspaces import Cost, Workspace, Workspaces

LayOut = Callable[[FileTimes | None], AbstractContextManager[Sources]]
Alike = Callable[[str], bool]


def never(_: str) -> bool:
    """Where nobody can tell whether another tree has the same configuration."""
    return False


@dataclass(frozen=True, kw_only=True)
class Job:
    """One request with all that serves it. `alone`: no ccache. `alike`: whether the tree with that
    id gives the same configuration for sure."""

    keys: Keys
    lay_out: LayOut
    store: Store
    scope: Scope
    step: Step
    log_folder: Path
    cost: Cost
    started: float
    alone: bool = False
    alike: Alike = never

    @property
    def request(self) -> BuildRequest:
        return self.keys.request

    @cached_property
    def spaces(self) -> Workspaces:
        return Workspaces(
            store=self.store,
            group=self.keys.group,
            base_tree_id=self.request.base_tree_id,
            scope=self.scope,
            below=self._below,
            cost=self.cost,
            passing=not self.request.trusted,
        )

    @property
    def _below(self) -> Path | None:
        """The folder of the kernel under this one, where this one may start from it: a trusted
        build starts from trusted ones alone, and the store knows those."""
        below = self.request.below
        folder = below.workspace if below else None
        group = "" if self.request.across else f"{self.keys.group}-"
        ours = f"{entries.TEMPORARY_PREFIX}{group}"
        if self.request.trusted or folder is None or not folder.name.startswith(ours):
            return None
        return folder

    # ------------------------------------------------------------------ hit

    def cached(self) -> Build | None:
        made = self.store.config(self.keys.config)
        try:
            key = self.keys.build((made / "config").read_text())
        except FileNotFoundError:
            return None
        entry = self.store.build(key)
        if not entry.is_dir() or self._dropped(entry):
            return None
        self.store.touch(made, entry)
        return self._build(key, "cached")

    def _dropped(self, entry: Path) -> bool:
        """Whether an entry was damaged, and is gone now: it is built again."""
        if store.intact(entry):
            return False
        if not entries.remove_unused(entry) and entry.is_dir():
            raise InfraError(
                f"the built kernel in {entry} is damaged, and cannot be removed",
                hint="remove that folder when no other run uses it",
            )
        return True

    def _build(self, key: str, how: str) -> Build:
        built = store.load(
            self.store.build(key),
            kernel=self.request.kernel,
            seconds=time.monotonic() - self.started,
            how=how,
        )
        fragments = self.request.fragments
        return replace(
            built,
            slower=kconfig.slower(fragments),
            cmdline=tuple(word for each in fragments for word in each.cmdline),
            reserves=sum(each.reserves for each in fragments),
            facts=configuration.facts(built.config.read_text(encoding="utf-8")),
        )

    # ------------------------------------------------------------------ miss

    def make(self, stack: ExitStack | None) -> Build | BuildFailure | ConfigFailure:
        compiler.require_host_tools()
        self.step.note("making the build folder")
        with ExitStack() as own:
            workspace = own.enter_context(self._begin())
            with self.lay_out(workspace.seen) as sources:
                bench = self.bench(workspace, sources)
                sandbox.require(bench.box, scope=self.scope)
                outcome = self._making(bench, workspace.seen is not None).run(
                    workspace.folder / FRAGMENTS, known=self._known(workspace.seen)
                )
            if isinstance(outcome, Made):
                built = self._build(outcome.key, self._how(workspace, outcome))
                if outcome.now:  # otherwise the folder has nothing but a configuration
                    built = replace(built, workspace=self._left(workspace, sources, own, stack))
            elif self._is_worth_keeping(outcome):
                self.spaces.keep(workspace, sources.times, whole=False)
        if not isinstance(outcome, Made):
            return outcome
        return self._held(built, stack)

    def _known(self, seen: FileTimes | None) -> str:
        """The key of a configuration that was made of a tree which gives the same one, or ""."""
        trees = (seen.tree_id if seen else None, *self._below_tree, self.request.base_tree_id)
        for tree_id in dict.fromkeys(tree for tree in trees if tree):
            key = self.keys.of(tree_id).config
            if self.store.config(key).is_dir() and self.alike(tree_id):
                return key
        return ""

    def _begin(self) -> AbstractContextManager[Workspace]:
        if self.request.sandboxed:
            return self.spaces.continued()
        trees = (self.request.tree_id, *self._below_tree)
        return self.spaces.in_place(() if self.request.trusted else trees)

    @property
    def _below_tree(self) -> tuple[str, ...]:
        below = self.request.below
        return (store.tree_of(below.folder),) if below else ()

    def _left(
        self, workspace: Workspace, sources: Sources, own: ExitStack, stack: ExitStack | None
    ) -> Path | None:
        """Leave the folder to those who may continue from it; where it lies then."""
        if self.request.trusted and self.request.sandboxed:
            self.spaces.keep(workspace, sources.times)
            return self.spaces.folder(sources.times.tree_id)
        if self.request.sandboxed and stack is not None:
            self.spaces.note(workspace, sources.times)
            stack.enter_context(own.pop_all())
            return workspace.folder
        if not self.request.sandboxed:
            stranger = "" if self.request.trusted else sources.times.tree_id
            self.spaces.note(workspace, sources.times, stranger=stranger)
            return workspace.folder
        return None

    def _held(self, built: Build, stack: ExitStack | None) -> Build:
        """A trusted build's folder is nobody's to remove as long as the run lasts."""
        folder = built.workspace
        kept = self.request.trusted and self.request.sandboxed
        if folder is None or stack is None or not kept:
            return built
        try:
            stack.enter_context(entries.using(folder))
        except FileNotFoundError:  # others were kept meanwhile
            return replace(built, workspace=None)
        return built

    def _making(self, bench: Workbench, continued: bool) -> Making:
        return Making(
            keys=self.keys,
            store=self.store,
            bench=bench,
            continued=continued,
            started=self.started,
        )

    def _is_worth_keeping(self, outcome: BuildFailure | ConfigFailure) -> bool:
        """Whether the folder of a build that broke can be continued: a bisection often meets one,
        and its objects are as good as any. A make that was killed may leave half an object."""
        ended = isinstance(outcome, BuildFailure) and outcome.ended
        return self.request.trusted and self.request.sandboxed and ended

    def _how(self, workspace: Workspace, made: Made) -> str:
        seen, below = workspace.seen, self.request.below
        if not made.now:
            return "cached"
        if seen is None:
            return "clean build"
        if seen.tree_id == self.request.base_tree_id:
            return "increment on base"
        if below and seen.tree_id in self._below_tree:
            return f"increment on {below.kernel}"
        return "increment"

    # ------------------------------------------------------------------ a folder for others

    @contextmanager
    def reopened(self, folder: Path | None, copy: bool) -> Iterator[Workspace]:
        """A folder with the kernel's objects, or the nearest to be brought there."""
        with ExitStack() as stack:
            for begin in self._ways(folder, copy):
                with suppress(FileNotFoundError):
                    workspace = stack.enter_context(begin)
                    break
            yield workspace

    def _ways(self, folder: Path | None, copy: bool) -> Iterator[AbstractContextManager[Workspace]]:
        if not self.request.sandboxed:
            yield self._begin()
            return
        ours = folder is not None and folder.name.startswith(entries.TEMPORARY_PREFIX)
        if folder is not None and ours and not self.request.trusted:
            yield self.spaces.copied(folder) if copy else self.spaces.own(folder)
        yield self.spaces.copied(self.spaces.folder(self.request.tree_id))
        yield self.spaces.continued()

    def bring(self, bench: Workbench, built: Build, continued: bool) -> None:
        """Have make build the kernel in the folder of `bench`."""
        config = built.config.read_text()
        (bench.build / ".config").write_text(config)
        failure = self._making(bench, continued).compile(config)
        if failure is not None:
            raise InfraError(
                f"{bench.kernel} was built before, and does not build again: {failure.error}",
                hint=f"the log is {failure.log}",
            )

    def bench(self, workspace: Workspace, sources: Sources) -> Workbench:
        fragments = workspace.folder / FRAGMENTS
        fragments.mkdir(exist_ok=True)
        objects = self._objects(continued=workspace.seen is not None)
        box = Sandbox(
            source=sources.path,
            build=workspace.build,
            extra={recipe.FRAGMENTS: fragments, **objects.readable},
            writable=objects.writable,
            enabled=self.request.sandboxed,
        )
        return Workbench(
            kernel=self.request.kernel,
            recipe=recipe.Recipe(
                architecture=self.request.architecture,
                compiler=self.keys.compiler,
                source=box.seen_source,
                build=box.seen_build,
                jobs=self.request.jobs,
            ),
            box=box,
            scope=self.scope,
            step=self.step,
            logs=self.log_folder,
            deadline=self.request.deadline,
            environment={**recipe.ENVIRONMENT, **objects.environment},
        )

    def _objects(self, *, continued: bool) -> ObjectCache:
        """ccache, where there is one to be had and it may know any of the objects.

        What a patch on trial has compiled anew after its base has never been compiled before, and
        a compiler that goes through ccache starts slower, of which kbuild starts a hundred to ask
        for options.
        """
        if self.alone or (continued and not self.request.trusted):
            return ObjectCache()
        return objectcache.find(
            self.store.cache,
            identity=self.keys.compiler.identity,
            trusted=self.request.trusted,
            sandboxed=self.request.sandboxed,
        )
