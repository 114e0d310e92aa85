"""What is to be built, and the names under which it lies in the cache. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace

from pipeline import kconfig, recipe
from pipeline.compiler import Compiler
from pipeline.model import Architecture, Build, Fragment, Toolchain
from pipeline.workbench import DEADLINE


def key_of(*parts: object) -> str:
    """A name for what is the same in all of `parts`: 32 hex digits of SHA-256."""
    text = json.dumps([str(part) for part in parts])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, kw_only=True)
class BuildRequest:
    """What is to be built. `tree_id` names the source's content, `origin` where it comes from.

    `trusted`: the source is the user's own or the distribution's, not what is on trial;
    later builds may then continue from this one's folder. `base_tree_id` is the tree whose
    folder is the best to continue from where nobody can tell how far others are. `below` is
    the kernel under this one, of the same series: its folder is one to continue from too, with
    `across` whatever its configuration is. kbuild knows which objects depend on which symbol, but
    nothing holds such a kernel against a clean build: it has a key of its own.
    `deadline`: seconds for configuration and compilation together; a tree that takes longer
    is a failure of that tree.
    """

    kernel: str
    tree_id: str
    origin: str
    base_tree_id: str | None
    architecture: Architecture
    toolchain: Toolchain
    fragments: tuple[Fragment, ...]
    jobs: int
    trusted: bool
    sandboxed: bool = True
    deadline: float = DEADLINE
    below: Build | None = None
    across: bool = False


@dataclass(frozen=True, kw_only=True)
class Keys:
    """The keys of a request that is built with `compiler`."""

    request: BuildRequest
    compiler: Compiler

    def of(self, tree_id: str) -> Keys:
        """Those of the same request for another tree."""
        return replace(self, request=replace(self.request, tree_id=tree_id))

    @property
    def _common(self) -> tuple[object, ...]:
        architecture, request = self.request.architecture, self.request
        return (
            recipe.VERSION,
            *(architecture.name, architecture.kernel_arch, architecture.image_target),
            self.compiler.identity,
            sorted(recipe.ENVIRONMENT.items()),
            request.sandboxed,
        )

    @property
    def _wishes(self) -> tuple[str, ...]:
        across = ("across",) if self.request.across else ()
        return (*(kconfig.wish(fragment) for fragment in self.request.fragments), *across)

    @property
    def config(self) -> str:
        return key_of("config", self.request.tree_id, self._wishes, *self._common)

    @property
    def group(self) -> str:
        """Of the build folders that may be continued for each other's sake.

        Where a tree comes from plays no part in the sandbox, where paths are the same; on the
        host the source's path is in every object.
        """
        origin = "" if self.request.sandboxed else self.request.origin
        return key_of("group", origin, self._wishes, *self._common)

    def build(self, config: str) -> str:
        # With the wishes, though the configuration tells all: a hit that another group has
        # made would leave this one without a folder of its base to continue from.
        packed = recipe.wants_modules(kconfig.parse_config(config))
        how = (recipe.PACK,) if packed else ()
        return key_of("build", self.request.tree_id, config, self._wishes, *self._common, *how)
