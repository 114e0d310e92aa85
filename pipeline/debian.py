"""Kernel trees out of Debian's source packages, each imported once into a repository of ours."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from pipeline import apt, fastimport, repository
from pipeline import cache as caches
from pipeline.errors import InfraError, UserError
from pipeline.progress import Step
from pipeline.scope import Scope

BYTES = 3 * 10**9  # package, tarball, pack, and the tree laid out from it
VERSION = re.compile(r"\d+\.\d+")


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package in its repository, which has one commit."""

    name: str
    version: str
    repository: Path


def imported(version: str, *, cache: Path, scope: Scope, step: Step) -> Package:
    """The source package of a kernel version, imported where it is not there yet.

    Raises:
        UserError: not a version, or one that Debian does not have.
        TreeUnavailable: it is not to be had here.
        InfraError: too little disk space; apt or git failed.
    """
    name = f"debian:{version}"
    if not VERSION.fullmatch(version):
        raise UserError(
            f"{name} names no kernel version", hint="it looks like debian:5.10 or debian:6.12"
        )
    folder = cache / "trees" / f"debian-{version}"

    def wait() -> None:
        step.note(f"another run is importing {name}")

    with caches.locked(folder.with_name(f"{folder.name}.lock"), scope=scope, on_wait=wait):
        caches.entry(folder, lambda at: _import(version, at, cache, scope, step))
    package = json.loads((folder / "metadata.json").read_text())
    return Package(
        name=package["package"], version=package["version"], repository=folder / "repository.git"
    )


def _import(version: str, target: Path, cache: Path, scope: Scope, step: Step) -> None:
    free = caches.free_bytes(cache)
    if free < BYTES:
        raise InfraError(
            f"{free / 1e9:.1f} GB free in {cache}, a Debian tree needs {BYTES / 1e9:.0f} GB",
            hint="free some space, for instance with `ktrial clean`, or use another --cache",
        )
    with caches.scratch(cache, "apt") as work:
        package = apt.fetch(version, work=work, scope=scope, step=step)
        ours = target / "repository.git"
        ours.mkdir()
        repository.create(ours, scope=scope)
        commit = fastimport.import_tarball(
            package.tarball,
            ours,
            message=f"{package.name} {package.version}\n",
            scope=scope,
            note=lambda count: step.note(f"importing {package.name}: {count} files"),
        )
    metadata = {"package": package.name, "version": package.version, "commit": commit}
    (target / "metadata.json").write_text(json.dumps(metadata))
