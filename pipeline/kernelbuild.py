"""Builds a kernel of a tree: lays its sources out, and names what the build is made with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pipeline import build, catalog, layout
from pipeline.catalog import Catalog
from pipeline.model import Architecture, Build, BuildFailure, ConfigFailure, Revision, Tree
from pipeline.progress import Step
from pipeline.scope import Scope
from pipeline.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is to be built. `base`: the revision whose build folder it may start from.

    `fragments`: names of those besides what every kernel of the architecture has. `trusted`: the
    user vouches for the source.
    """

    opened: Tree
    revision: Revision
    base: Revision | None
    architecture: Architecture
    fragments: Iterable[str]
    trusted: bool
    log_folder: Path


def make(
    wish: Wish, *, shelf: Catalog, settings: Settings, scope: Scope, step: Step
) -> Build | BuildFailure | ConfigFailure:
    """Build it, or take it from the cache.

    Raises:
        UserError: there is no fragment of such a name.
        InfraError: no space, no compiler, no sandbox.
        Cancelled: the run was cancelled.
    """
    return build.build_kernel(
        _request(wish, shelf, settings),
        lambda seen: layout.laid_out(
            wish.opened, wish.revision.tree_id, seen, cache=settings.cache, scope=scope
        ),
        cache=settings.cache,
        scope=scope,
        step=step,
        log_folder=wish.log_folder,
    )


def _request(wish: Wish, shelf: Catalog, settings: Settings) -> build.BuildRequest:
    names = dict.fromkeys(("base", *wish.architecture.fragments, *wish.fragments))
    return build.BuildRequest(
        kernel=wish.revision.kernel,
        tree_id=wish.revision.tree_id,
        origin=wish.opened.origin,
        base_tree_id=wish.base.tree_id if wish.base else None,
        architecture=wish.architecture,
        toolchain=catalog.pick("toolchain", settings.toolchain, shelf.toolchains),
        fragments=tuple(catalog.pick("kconfig fragment", name, shelf.fragments) for name in names),
        jobs=settings.jobs,
        trusted=wish.trusted,
        sandboxed=settings.sandboxed,
    )
