"""Whether a build is, bit for bit, what a clean one of the same source gives."""

from __future__ import annotations

import filecmp
import time
from dataclasses import replace
from pathlib import Path

from pipeline import compiling, kernelbuild
from pipeline.catalog import Catalog
from pipeline.kernelbuild import Wish
from pipeline.model import Build, Verified
from pipeline.progress import Step
from pipeline.scope import Scope
from pipeline.settings import Settings
from pipeline.store import BUILD_LOG

FOLDER = "verify"  # beside the build's own logs


def verify(
    wish: Wish,
    built: Build,
    *,
    shelf: Catalog,
    settings: Settings,
    scope: Scope,
    step: Step,
) -> Verified:
    """Build the kernel of `wish` once more, in an empty folder and without ccache, and hold it
    against `built`: image, modules, vmlinux, System.map. The log is below the wish's log folder.

    What is compared is what lies in the cache, however it came to be: for a build taken from
    there, the one that it was made by. Takes as long as a clean build, and leaves nothing.

    Raises:
        InfraError: no space, no compiler; or the clean build broke, which the other had not.
    """
    started = time.monotonic()
    aside = replace(wish, log_folder=wish.log_folder / FOLDER)
    around = kernelbuild.afresh(
        aside, built, shelf=shelf, settings=settings, scope=scope, step=step
    )
    with around as (bench, keys):
        made = compiling.products(bench.build, keys)
        differing = tuple(
            name for name, path in made.items() if not same(path, built.folder / name)
        )
    return Verified(
        differing=differing,
        seconds=time.monotonic() - started,
        log=aside.log_folder / BUILD_LOG,
    )


def same(one: Path, other: Path) -> bool:
    """Whether two files are there and have the same content."""
    return other.is_file() and filecmp.cmp(one, other, shallow=False)
