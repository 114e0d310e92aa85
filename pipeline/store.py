"""Where builds lie in the cache: made configurations and built kernels, and what is read of them.

configs/KEY/              config, config.log                 one made configuration
builds/KEY/               kernel, vmlinux, config, …         one built kernel
work/                                                        build folders, see `workspaces`
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import diagnostics, recipe
from pipeline.errors import InfraError
from pipeline.model import Build, Diagnostic

OUTPUT_BYTES = 4 << 30  # a vmlinux with debug information has less than 1 GB
TEXT_BYTES = 16 << 20  # a .config of 300 kB is a large one
BUILD_LOG = "build.log"
METADATA = "metadata.json"
WARNINGS = "warnings.json"
CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Store:
    cache: Path

    def config(self, key: str) -> Path:
        return self.cache / "configs" / key

    def build(self, key: str) -> Path:
        return self.cache / "builds" / key

    def lock(self, key: str) -> Path:
        return self.cache / "locks" / f"build-{key}"

    def touch(self, *folders: Path) -> None:
        """Set their times, by which `clean` tells what is in use."""
        for folder in folders:
            with suppress(OSError):  # a cache that may only be read is good enough for a hit
                os.utime(folder)


def load(folder: Path, *, kernel: str, seconds: float, how: str) -> Build:
    """A built kernel from its entry in the cache."""
    metadata: dict[str, Any] = json.loads((folder / METADATA).read_text())
    image, modules = folder / metadata["image"], folder / recipe.ARCHIVE
    archive = modules if modules.exists() else None
    return Build(
        kernel=kernel,
        architecture=metadata["architecture"],
        key=folder.name,
        folder=folder,
        image=image,
        vmlinux=folder / "vmlinux",
        config=folder / "config",
        modules=archive,
        log=folder / BUILD_LOG,
        release=metadata["release"],
        compiler=metadata["compiler"],
        sandboxed=metadata["sandboxed"],
        seconds=seconds,
        how=how,
        warnings=_warnings(folder / WARNINGS),
        digest=metadata.get("digest") or digest(filter(None, (image, archive))),
    )


def intact(folder: Path) -> bool:
    """Whether what a guest boots of an entry is what was put there.

    A kernel that the disk cut short must not be taken for one that its patches broke. Entries of
    older versions have no digest: nothing is known against them.
    """
    try:
        metadata: dict[str, Any] = json.loads((folder / METADATA).read_text())
        files = (folder / metadata["image"], folder / recipe.ARCHIVE)
        found = digest(path for path in files if path.exists())
    except (OSError, ValueError, KeyError):
        return False
    return bool(metadata.get("digest", found) == found)


def _warnings(path: Path) -> tuple[Diagnostic, ...] | None:
    if not path.is_file():
        return None
    return diagnostics.flat(diagnostics.load(path.read_text()))


def tree_of(folder: Path) -> str:
    """The tree that the kernel in an entry was built from."""
    return str(json.loads((folder / METADATA).read_text())["tree_id"])


def digest(files: Iterable[Path]) -> str:
    """SHA-256 over the content of files, each with its length in front; 3 ms for a small image."""
    whole = hashlib.sha256()
    for path in files:
        whole.update(path.stat().st_size.to_bytes(8, "big"))
        with path.open("rb") as source:
            while chunk := source.read(CHUNK):
                whole.update(chunk)
    return whole.hexdigest()


def own_file(build: Path, name: str, *, most: int = OUTPUT_BYTES) -> Path:
    """A file of a build folder that may be read on the host.

    Raises:
        InfraError: `not_own` has something against it.
    """
    if why := not_own(build, name, most=most):
        raise InfraError(f"the build of {build} {why}, though make said that all is well")
    return build / name


def not_own(build: Path, name: str, *, most: int = OUTPUT_BYTES) -> str:
    """What is wrong with a file that a build should have left in its folder, "" if nothing is.

    What runs in the sandbox must not choose what is read outside it: no link out of the folder,
    no pipe that never ends, and no more bytes (in a file with holes they cost it none).
    """
    path = build / name
    if path.exists() and not path.resolve().is_relative_to(build.resolve()):
        return f"left a link out of its folder in place of {name}"
    if not path.is_file():
        return f"left no {name}" + (" but a link to nothing" if path.is_symlink() else "")
    if path.stat().st_size > most:
        return f"left a {name} of {path.stat().st_size} bytes"
    return ""
