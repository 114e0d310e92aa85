"""From what the user typed to a scenario: what is tried, on which tree, with what."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline import catalog, scenario, schema, series, tree, workload
from pipeline.catalog import Catalog
from pipeline.errors import UserError
from pipeline.model import KernelPlan, Role, Scenario, Series, Tree, TreeSpec, WorkloadRun
from pipeline.progress import Step
from pipeline.scenario import Overrides, Scalar, WorkloadEntry
from pipeline.scope import Scope

DEFAULT_WORKLOAD = WorkloadEntry(use="hackbench")
NO_WORKLOAD = WorkloadEntry(use="none", parameters={})


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked for. One of `sources` (a scenario, a series, a range, or several patch
    files that make a series) and `rev`."""

    sources: tuple[str, ...] = ()
    rev: str | None = None
    tree: str | None = None
    base: str | None = None
    overrides: Overrides
    stdin: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class Intake:
    """The scenario, and the tree where it had to be opened to get there.

    `trusted`: what is on trial comes out of the user's own tree, not out of a mail.
    """

    scenario: Scenario
    tree: Tree | None
    trusted: bool = False


@dataclass(frozen=True, kw_only=True)
class Desk:
    """Takes requests in. `cwd` is where relative paths start and where a tree may lie."""

    shelf: Catalog
    cache: Path
    scratch: Path
    cwd: Path
    native: str
    scope: Scope
    step: Step

    def take(self, request: Request) -> Intake:
        """Raises UserError with one clear line for every kind of bad input."""
        _check(request)
        if request.rev is not None:
            taken = self._revision(request, request.rev)
        elif not request.sources:
            raise UserError(
                "nothing to try", hint="name a scenario, a series or a range, or give --rev REV"
            )
        else:
            taken = self._source(request, self._one(request.sources))
        wanted = request.overrides
        if wanted.workloads == (NO_WORKLOAD,):
            wanted = replace(wanted, workloads=())
            taken = replace(taken, scenario=replace(taken.scenario, workloads=()))
        elif not wanted.workloads and not taken.scenario.workloads:
            wanted = replace(wanted, workloads=(DEFAULT_WORKLOAD,))
        overridden = scenario.override(taken.scenario, wanted, shelf=self.shelf, bind=self._bind)
        return replace(taken, scenario=overridden)

    def _one(self, sources: tuple[str, ...]) -> str:
        """Several patch files as a folder with one series, in the order in which they came."""
        if len(sources) == 1:
            return sources[0]
        folder = self.scratch / "series"
        folder.mkdir()
        for number, source in enumerate(sources, 1):
            path = self.cwd / source
            if not path.is_file():
                raise UserError(
                    f"{source} is no file", hint="several sources are the patch files of one series"
                )
            shutil.copyfile(path, folder / f"{number:04}-{path.stem}.patch")
        return str(folder)

    def _source(self, request: Request, source: str) -> Intake:
        folder = self._scenario_folder(source)
        if folder:
            return self._scenario(request, folder)
        if source == "-" or (self.cwd / source).exists():
            return self._series(request, source)
        if _is_range(source):
            return self._range(request, source)
        raise UserError(f"{source}: no such file, scenario or range", hint=self._advice(source))

    def _advice(self, source: str) -> str:
        if "://" in source or "@" in source:
            return "fetch the thread first: `b4 mbox MESSAGE-ID`, then give the file"
        close = schema.nearest(Path(source).name, self.shelf.scenarios)
        if close.startswith("did you mean"):
            return close
        return "a revision is --rev REV, a range A..B; `ktrial list` shows the scenarios"

    def _scenario_folder(self, source: str) -> Path | None:
        path = self.cwd / source
        if (path / scenario.FILE).is_file():
            return path
        name = source.removeprefix("patches/").rstrip("/")
        return None if path.exists() else self.shelf.scenarios.get(name)

    def _scenario(self, request: Request, folder: Path) -> Intake:
        found = scenario.load(folder)
        spec = TreeSpec(name=request.tree or found.tree, base=request.base or found.base)
        opened = None if spec.debian_version else self._open(spec)
        resolved = scenario.resolve(
            found,
            tree=spec,
            version=opened.version if opened else spec.debian_version or "",
            shelf=self.shelf,
            native=self.native,
            read_files=lambda paths, name: series.read_files(paths, name=name),
            bind=self._bind,
        )
        return Intake(scenario=resolved, tree=opened)

    def _series(self, request: Request, source: str) -> Intake:
        path = source if source == "-" else str(self.cwd / source)
        found = series.read_series(
            path, stdin=request.stdin, scratch=self.scratch, scope=self.scope
        )
        spec = self._tree_spec(request)
        opened = None if spec.debian_version else self._open(spec)
        kernels = (
            KernelPlan(name="base", role=Role.BASE),
            KernelPlan(name="patched", role=Role.PATCHED, series=found),
        )
        named = replace(found, origin=source)
        return self._plain(named, spec, kernels, opened)

    def _range(self, request: Request, text: str) -> Intake:
        spec = self._tree_spec(request)
        opened, found, tip = tree.read_range(self._open(spec), text, scope=self.scope)
        kernels = (
            KernelPlan(name="base", role=Role.BASE),
            KernelPlan(name="patched", role=Role.PATCHED, series=found, commit=tip),
        )
        # Its commits may be anyone's (a fetched branch): only base counts as the user's own.
        return self._plain(found, replace(spec, base=opened.base), kernels, opened, name="range")

    def _revision(self, request: Request, rev: str) -> Intake:
        spec = replace(self._tree_spec(request), base=rev)
        opened = self._open(spec)
        kernel = KernelPlan(name="tree", role=Role.PATCHED, commit=opened.base)
        described = Series(name="tree", origin=rev)
        return replace(self._plain(described, spec, (kernel,), opened), trusted=True)

    def _plain(
        self,
        found: Series,
        spec: TreeSpec,
        kernels: tuple[KernelPlan, ...],
        opened: Tree | None,
        name: str = "",
    ) -> Intake:
        made = scenario.for_series(
            kernels,
            name=name or _slug(found.name),
            title=found.patches[-1].subject if found.patches else f"{spec.name} at {spec.base}",
            tree=spec,
            native=self.native,
        )
        return Intake(scenario=replace(made, notes=found.notes), tree=opened)

    def _tree_spec(self, request: Request) -> TreeSpec:
        if request.tree:
            return TreeSpec(name=request.tree, base=request.base or "HEAD")
        for folder in (self.cwd, *self.cwd.parents):
            if (folder / "Kconfig").is_file() and (folder / ".git").exists():
                return TreeSpec(name=str(folder), base=request.base or "HEAD")
        raise UserError(
            "no kernel tree to try it on",
            hint="give --tree PATH or --tree debian:6.12, or start it in a kernel tree",
        )

    def _open(self, spec: TreeSpec) -> Tree:
        if not spec.debian_version:
            spec = replace(spec, name=str(self.cwd / spec.name))
        return tree.open_tree(spec, cache=self.cache, scope=self.scope, step=self.step)

    def _bind(self, use: str, label: str, parameters: Mapping[str, Scalar]) -> WorkloadRun:
        spec = catalog.pick("workload", use, self.shelf.workloads)
        return workload.bind(spec, label, parameters)


def _check(request: Request) -> None:
    """Refuse what would silently leave out a part of what was asked for."""
    if request.rev is not None and request.sources:
        raise UserError(
            f"--rev {request.rev} tries the tree as it is, without {request.sources[0]}",
            hint=f"to apply it on that revision: --base {request.rev}",
        )
    if request.base and (request.rev is not None or any(map(_is_range, request.sources))):
        raise UserError(
            "--base has no meaning here", hint="a revision or a range says itself where it starts"
        )


def _is_range(source: str) -> bool:
    """A..B of git; a path that goes up has a slash beside its dots."""
    start, dots, end = source.partition("..")
    return bool(dots) and not source.startswith(".") and not (start + end).count("../")


def _slug(name: str) -> str:
    """A name that is safe in a case's name and in a path."""
    return re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-") or "series"
