"""`ktrial list`: the data files there are, by kind. Pure but for reading them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline import scenariofile, schema
from pipeline.catalog import Catalog
from pipeline.errors import UserError
from pipeline.model import GuestShape, WorkloadSpec

DEBIAN_TREES = {
    "debian:5.10": "Debian 11's kernel",
    "debian:6.1": "Debian 12's kernel",
    "debian:6.12": "Debian 13's kernel",
}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A line of the list."""

    kind: str
    name: str
    text: str


def collect(shelf: Catalog) -> tuple[Entry, ...]:
    """Everything a run can name."""
    found: list[Entry] = []

    def add(kind: str, items: Mapping[str, str]) -> None:
        found.extend(Entry(kind=kind, name=name, text=text) for name, text in items.items())

    add("scenarios", {n: scenariofile.load(path).title for n, path in shelf.scenarios.items()})
    add("workloads", {n: _workload(each) for n, each in shelf.workloads.items()})
    add("probes", {n: each.description for n, each in shelf.probes.items()})
    add("checks", {n: each.description for n, each in shelf.checks.items()})
    add("guests", {n: _guest(each) for n, each in shelf.guests.items()})
    add("images", {n: each.description for n, each in shelf.images.items()})
    add("kconfigs", {n: each.description for n, each in shelf.fragments.items()})
    add("architectures", {n: each.description for n, each in shelf.architectures.items()})
    add("toolchains", {n: each.description for n, each in shelf.toolchains.items()})
    add("trees", DEBIAN_TREES | {"PATH": "any git repository with a kernel in it"})
    return tuple(found)


def _workload(spec: WorkloadSpec) -> str:
    """With its parameters, as `--workload NAME:KEY=VALUE` takes them."""
    lines = [spec.description]
    for each in spec.parameters:
        default = "" if each.default is None else f", {each.default} by default"
        lines.append(f"    {each.name}: {each.description} ({each.kind}{default})")
    return "\n".join(lines)


def _guest(shape: GuestShape) -> str:
    vcpus = str(shape.vcpus)
    if shape.max_vcpus != shape.vcpus:
        vcpus += f" of {shape.max_vcpus}"
    return f"{shape.description} ({vcpus} vCPU, {shape.memory} MiB)"


def render(entries: tuple[Entry, ...], kind: str | None = None) -> str:
    """One block per kind; UserError for a kind that is none."""
    kinds = list(dict.fromkeys(entry.kind for entry in entries))
    if kind is not None and kind not in kinds:
        raise UserError(f"unknown kind “{kind}”", hint=schema.nearest(kind, kinds))
    blocks = []
    for each in kinds if kind is None else [kind]:
        rows = [entry for entry in entries if entry.kind == each]
        width = max(len(row.name) for row in rows)
        lines = [f"  {row.name:<{width}}  {row.text}".rstrip() for row in rows]
        blocks.append("\n".join([each, *lines]))
    return "\n\n".join(blocks) + "\n"
