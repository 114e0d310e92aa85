"""Finds the data files: what architectures, workloads, guests, … there are, by name.

A user's own root (`--share DIR`, `~/.config/ktrial/`)
holds folders of the same kinds as the shipped one and wins where names are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from pipeline import kconfig, metrics, schema, shapes
from pipeline.errors import UserError
from pipeline.model import (
    Architecture,
    CheckSpec,
    Fragment,
    GuestShape,
    ImageRecipe,
    ProbeSpec,
    Toolchain,
    WorkloadSpec,
)

Item = TypeVar("Item")
Readable = TypeVar("Readable", WorkloadSpec, ProbeSpec)


def pick(kind: str, name: str, known: Mapping[str, Item]) -> Item:
    """The one of that name, or a UserError with the nearest known name."""
    try:
        return known[name]
    except KeyError:
        raise UserError(f"unknown {kind} “{name}”", hint=schema.nearest(name, known)) from None


@dataclass(frozen=True)
class Catalog:
    """All data files below the roots, the first root winning."""

    data: Path
    share: tuple[Path, ...]

    @cached_property
    def architectures(self) -> Mapping[str, Architecture]:
        return self._records("architectures", Architecture)

    @cached_property
    def toolchains(self) -> Mapping[str, Toolchain]:
        return self._records("toolchains", Toolchain)

    @cached_property
    def workloads(self) -> Mapping[str, WorkloadSpec]:
        return self._each(
            "workloads", "*.toml", lambda path: _sound(path, WorkloadSpec), name=_stem
        )

    @cached_property
    def probes(self) -> Mapping[str, ProbeSpec]:
        return self._each("probes", "*.toml", lambda path: _sound(path, ProbeSpec), name=_stem)

    @cached_property
    def checks(self) -> Mapping[str, CheckSpec]:
        return self._each("checks", "*.toml", _sound_check, name=_stem)

    @cached_property
    def guests(self) -> Mapping[str, GuestShape]:
        return self._each("vm_images/guests", "*.toml", _sound_shape, name=_stem)

    @cached_property
    def images(self) -> Mapping[str, ImageRecipe]:
        return self._each(
            "vm_images",
            "*/image.toml",
            lambda path: schema.read(path, ImageRecipe, name=path.parent.name, folder=path.parent),
            name=lambda path: path.parent.name,
        )

    @cached_property
    def fragments(self) -> Mapping[str, Fragment]:
        return _Fragments(self._each("kconfigs", "*.config", _read_fragment, name=_stem))

    @cached_property
    def scenarios(self) -> Mapping[str, Path]:
        """Folder of each scenario."""
        return self._each(
            "patches",
            "*/scenario.toml",
            lambda path: path.parent,
            name=lambda path: path.parent.name,
        )

    def architecture(self, name: str) -> Architecture:
        """By name or alias (arm64 is aarch64, amd64 is x86_64)."""
        by_alias = {
            alias: each
            for each in self.architectures.values()
            for alias in (each.name, *each.aliases)
        }
        return pick("architecture", name, by_alias)

    def native(self, machine: str) -> Architecture:
        """The architecture of a host whose `uname -m` is `machine`."""
        for each in self.architectures.values():
            if machine in each.machines:
                return each
        raise UserError(
            f"this host is a {machine}, for which there is no architecture file",
            hint="name one with --arch",
        )

    def _records(self, folder: str, record: type[Item]) -> Mapping[str, Item]:
        return self._each(
            folder,
            "*.toml",
            lambda path: schema.read(path, record, name=path.stem),
            name=_stem,
        )

    def _each(
        self,
        folder: str,
        pattern: str,
        read: Callable[[Path], Item],
        *,
        name: Callable[[Path], str],
    ) -> Mapping[str, Item]:
        found: dict[str, Path] = {}
        for root in (*self.share, self.data):
            for path in sorted((root / folder).glob(pattern)):
                found.setdefault(name(path), path)
        return {key: read(path) for key, path in sorted(found.items())}


def _stem(path: Path) -> str:
    return path.stem


def _sound(path: Path, record: type[Readable]) -> Readable:
    """A workload or probe whose regular expressions compile and name their groups."""
    found = schema.read(path, record, name=path.stem)
    for trouble in metrics.check(found.readings):
        raise UserError(f"{path}: {trouble}", hint="mend the file")
    return found


def _sound_shape(path: Path) -> GuestShape:
    """A shape whose topology, cells and memory fit together."""
    found = schema.read(path, GuestShape, name=path.stem)
    for trouble in shapes.check(found):
        raise UserError(f"{path}: {trouble}", hint="mend the file")
    return found


def _sound_check(path: Path) -> CheckSpec:
    """A check that is made in one way, and whose findings can be told apart."""
    found = schema.read(path, CheckSpec, name=path.stem)
    if bool(found.make) == bool(found.script):
        raise UserError(f"{path}: either “make” or “script” is needed", hint="mend the file")
    try:
        groups = re.compile(found.message).groupindex
    except re.error as error:
        raise UserError(f"{path}: message: {error}", hint="mend the file") from error
    if found.script and (missing := {"file", "line", "text"} - set(groups)):
        raise UserError(
            f"{path}: message: no group {', '.join(sorted(missing))}", hint="mend the file"
        )
    return found


def _read_fragment(path: Path) -> Fragment:
    return kconfig.read_fragment(path.read_text(encoding="utf-8"), path=path)


class _Fragments(dict[str, Fragment]):
    """Fragments by name; `randconfig@42` is one of them with a seed of its own."""

    def __missing__(self, name: str) -> Fragment:
        kind, at, seed = name.partition("@")
        if not at:
            raise KeyError(name)
        return kconfig.seeded(self[kind], name, seed)
