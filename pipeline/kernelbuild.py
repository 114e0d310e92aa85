"""Builds a kernel of a tree: lays its sources out, and names what the build is made with."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline import build, catalog, layout, nearest
from pipeline.buildjob import Job
from pipeline.buildkeys import BuildRequest, Keys
from pipeline.catalog import Catalog
from pipeline.model import (
    Architecture,
    Build,
    BuildFailure,
    ConfigFailure,
    FileTimes,
    Fragment,
    Revision,
    Sources,
    Tree,
)
from pipeline.progress import Step
from pipeline.scope import Scope
from pipeline.settings import Settings
from pipeline.workbench import Workbench

BASE = "base"  # beside a build's own logs


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is to be built. `base`: the revision whose build folder it may start from.

    `fragments`: names of those besides what every kernel of the architecture has. `trusted`: the
    user vouches for the source. `below`: the kernel under this one, of the same series and built
    in this run; a build that nobody vouches for may start from its folder. `extra`: fragments that
    have no name, behind all others; `across`: `below` has another configuration.
    """

    opened: Tree
    revision: Revision
    base: Revision | None
    architecture: Architecture
    fragments: Iterable[str]
    trusted: bool
    log_folder: Path
    below: Build | None = None
    extra: tuple[Fragment, ...] = ()
    across: bool = False


def make(
    wish: Wish,
    *,
    shelf: Catalog,
    settings: Settings,
    scope: Scope,
    step: Step,
    stack: ExitStack | None = None,
) -> Build | BuildFailure | ConfigFailure:
    """Build it, or take it from the cache. Its `workspace` stays until `stack` is closed.

    Raises:
        UserError: there is no fragment of such a name.
        InfraError: no space, no compiler, no sandbox.
        Cancelled: the run was cancelled.
    """
    at = _Place(wish=wish, shelf=shelf, settings=settings, scope=scope, step=step)
    return build.build_kernel(at.job(), stack=stack, prepare=at.restore_base)


def bench(
    wish: Wish,
    built: Build,
    *,
    copy: bool = True,
    shelf: Catalog,
    settings: Settings,
    scope: Scope,
    step: Step,
) -> AbstractContextManager[Workbench]:
    """The build folder of a kernel, with its sources laid out, for others to run make in.

    `built` is what `make` gave for the same wish. With `copy` it is a throw-away copy; without,
    the folder in which make worked, where there is one of this run: a trusted build's is always
    copied, since others start from it. Where none is left, the nearest folder is brought to this
    kernel first, which takes as long as its build did. Logs go to the wish's `log_folder`.

    One tree of an origin is laid out at a time: another bench, or a build, waits until this one
    is closed, so never open two of them in one thread.

    Raises:
        InfraError: as `make`, or the kernel does not build any more.
    """
    at = _Place(wish=wish, shelf=shelf, settings=settings, scope=scope, step=step)
    return build.opened(at.job(), built=built, copy=copy)


def afresh(
    wish: Wish,
    built: Build,
    *,
    shelf: Catalog,
    settings: Settings,
    scope: Scope,
    step: Step,
) -> AbstractContextManager[tuple[Workbench, Keys]]:
    """The same kernel built again from nothing, without any object of another build."""
    at = _Place(wish=wish, shelf=shelf, settings=settings, scope=scope, step=step)
    return build.afresh(at.job(alone=True), built=built)


@dataclass(frozen=True, kw_only=True)
class _Place:
    """A wish, and where it is fulfilled."""

    wish: Wish
    shelf: Catalog
    settings: Settings
    scope: Scope
    step: Step

    def job(self, *, alone: bool = False) -> Job:
        return build.job(
            self.request(),
            self.lay_out,
            cache=self.settings.cache,
            scope=self.scope,
            step=self.step,
            log_folder=self.wish.log_folder,
            cost=self.cost,
            alone=alone,
            alike=self.alike,
        )

    def restore_base(self) -> None:
        """See to it that a kernel on trial has a folder of its base to start from."""
        wish = self.wish
        if wish.base is None or wish.trusted:
            return
        logs = wish.log_folder / BASE
        base = replace(
            wish, revision=wish.base, base=None, trusted=True, below=None, log_folder=logs
        )
        build.restore(replace(self, wish=base).job())
        with suppress(OSError):  # empty where there was nothing to do
            logs.rmdir()

    def lay_out(self, seen: FileTimes | None) -> AbstractContextManager[Sources]:
        return layout.laid_out(
            self.wish.opened,
            self.wish.revision.tree_id,
            seen,
            cache=self.settings.cache,
            scope=self.scope,
            # Without the sandbox the path of the sources is in every object.
            patience=layout.PATIENCE if self.settings.sandboxed else None,
        )

    def cost(self, tree_id: str) -> int | None:
        """How far that tree is from the wish's; None too where the repository lacks it."""
        paths = self._differing(tree_id)
        return None if paths is None else nearest.cost(paths)

    def alike(self, tree_id: str) -> bool:
        """Whether that tree gives the same configuration as the wish's for sure."""
        paths = self._differing(tree_id)
        return paths is not None and nearest.same_configuration(paths)

    def _differing(self, tree_id: str) -> tuple[str, ...] | None:
        return layout.differing(self.wish.opened, tree_id, self.wish.revision.tree_id, self.scope)

    def request(self) -> BuildRequest:
        wish, settings, shelf = self.wish, self.settings, self.shelf
        names = dict.fromkeys(("base", *wish.architecture.fragments, *wish.fragments))
        pick = catalog.pick
        return BuildRequest(
            kernel=wish.revision.kernel,
            tree_id=wish.revision.tree_id,
            origin=wish.opened.origin,
            base_tree_id=wish.base.tree_id if wish.base else None,
            architecture=wish.architecture,
            toolchain=pick("toolchain", settings.toolchain, shelf.toolchains),
            fragments=(
                *(pick("kconfig fragment", name, shelf.fragments) for name in names),
                *wish.extra,
            ),
            jobs=settings.jobs,
            trusted=wish.trusted,
            sandboxed=settings.sandboxed,
            below=wish.below,
            across=wish.across,
        )
