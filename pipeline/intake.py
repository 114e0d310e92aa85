"""From what the user typed to a scenario: what is tried, on which tree, with what."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipeline import (
    bases,
    catalog,
    counting,
    fetch,
    percommit,
    ranges,
    scenario,
    scenariofile,
    schema,
    series,
    tree,
    userrepo,
)
from pipeline.binding import bind
from pipeline.catalog import Catalog
from pipeline.errors import UserError
from pipeline.gather import Reader
from pipeline.model import KernelPlan, Role, Scenario, Series, Tree, TreeSpec, WorkloadRun
from pipeline.pathsafety import visible
from pipeline.progress import Step
from pipeline.scenario import Overrides
from pipeline.scenariofile import Scalar, WorkloadEntry
from pipeline.scope import Scope

DEFAULT_WORKLOAD = WorkloadEntry(use="hackbench")
NO_WORKLOAD = WorkloadEntry(use="none", parameters={})


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked for. One of `sources` (a scenario, a series, a message-id, a range, a branch,
    or several patch files that make a series) and `rev`.

    `base`: None where nobody named one. `version`: the version of the series to take, `pick`: which
    of several series, `trailers`: whether those of replies are collected, `lore`: the server to
    ask for a message-id. `boots`: False where kernels are only to be built; `per_commit`: each
    patch of a series is. `scale`: which size of a scenario.
    """

    sources: tuple[str, ...] = ()
    rev: str | None = None
    tree: str | None = None
    base: str | None = None
    overrides: Overrides = field(default_factory=Overrides)
    stdin: bytes | None = None
    version: int | None = None
    trailers: bool = False
    pick: str | None = None
    lore: str = ""
    boots: bool = True
    per_commit: bool = False
    scale: str = ""


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
        check(request)
        if request.rev is not None:
            taken = self._revision(request, request.rev)
        elif not request.sources:
            raise UserError(
                "nothing to try", hint="name a scenario, a series or a range, or give --rev REV"
            )
        elif len(request.sources) > 1:
            taken = self._series(request)
        else:
            taken = self._source(request, request.sources[0])
        taken = replace(taken, scenario=self._as_wanted(taken.scenario, request))
        if request.per_commit:
            split = percommit.split(taken.scenario.kernels)
            taken = replace(taken, scenario=replace(taken.scenario, kernels=split))
        return taken

    def _as_wanted(self, found: Scenario, request: Request) -> Scenario:
        """The scenario with what the command line says in its place."""
        wanted = request.overrides
        if not request.boots:
            found = replace(found, workloads=(), probes=(), tables=(), events=())
            found = scenario.override(found, wanted, shelf=self.shelf, bind=self._bind)
            return replace(found, guests=(), guests_on={}, include=(), exclude=())
        if wanted.workloads == (NO_WORKLOAD,):
            wanted = replace(wanted, workloads=())
            found = replace(found, workloads=())
        elif not wanted.workloads and not found.workloads:
            wanted = replace(wanted, workloads=(DEFAULT_WORKLOAD,))
        changed = scenario.override(found, wanted, shelf=self.shelf, bind=self._bind)
        return counting.apart(changed, self.shelf.probes)

    def _source(self, request: Request, source: str) -> Intake:
        folder = self._scenario_folder(source)
        if folder:
            return self._scenario(request, folder)
        if request.scale:
            raise UserError(
                f"--scale {request.scale}: only a scenario has sizes", hint="leave it out"
            )
        if text := self.as_range(request):
            return self._range(request, text)
        if self._is_here(source) or fetch.wanted(source, request.lore):
            return self._series(request)
        raise UserError(
            f"{source}: no such file, scenario, range or branch", hint=self._advice(source)
        )

    def _is_here(self, source: str) -> bool:
        return source == "-" or (self.cwd / source).exists()

    def as_range(self, request: Request) -> str:
        """The range or branch that is named, "" where it is something else."""
        if len(request.sources) != 1 or self._is_here(request.sources[0]):
            return ""
        source = request.sources[0]
        if fetch.wanted(source):
            return ""
        if _is_range(source):
            return source
        if not (request.tree or userrepo.kernel_tree_around(self.cwd)):
            return ""
        opened = self._open(self._tree_spec(request))
        return source if ranges.is_branch(opened, source, scope=self.scope) else ""

    def reader(self, request: Request) -> Reader:
        """What reads a series for this request."""
        return Reader(
            cwd=self.cwd,
            scratch=self.scratch,
            scope=self.scope,
            stdin=request.stdin,
            lore=request.lore,
            version=request.version,
            trailers=request.trailers,
            pick=request.pick,
        )

    def tree_for(self, request: Request) -> Tree | None:
        """The tree that is named, opened; None where none is."""
        return self._open(self._tree_spec(request)) if request.tree else None

    def read_range(self, request: Request, text: str) -> tuple[Tree, Series, str]:
        """As `ranges.read_range`, on the tree that is named or that this is."""
        return ranges.read_range(self._open(self._tree_spec(request)), text, scope=self.scope)

    def _advice(self, source: str) -> str:
        if "://" in source:
            return "an address has to end in a message-id, such as https://lore.kernel.org/all/x@y/"
        close = schema.nearest(Path(source).name, self.shelf.scenarios)
        if close.startswith("did you mean"):
            return close
        return "a revision is --rev REV, a range A..B; `ktrial list` shows the scenarios"

    def _scenario_folder(self, source: str) -> Path | None:
        path = self.cwd / source
        if (path / scenariofile.FILE).is_file():
            return path
        name = source.removeprefix("patches/").rstrip("/")
        return None if path.exists() else self.shelf.scenarios.get(name)

    def _scenario(self, request: Request, folder: Path) -> Intake:
        found = scenariofile.load(folder)
        if request.scale:
            found = scenariofile.scaled(found, request.scale)
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

    def _series(self, request: Request) -> Intake:
        gathered = self.reader(request).gather(request.sources)
        spec = self._tree_spec(request)
        base = KernelPlan(name="base", role=Role.BASE)
        kernels: tuple[KernelPlan, ...] = (base,)
        if gathered.given:
            first = KernelPlan(
                name="prerequisite", role=Role.PREREQUISITE, series=gathered.given.series
            )
            kernels += (first,)
        patched = KernelPlan(
            name="patched",
            role=Role.PATCHED,
            on=kernels[-1].name if gathered.given else None,
            series=gathered.series,
        )
        if spec.debian_version:
            # It has one commit, and is opened where its progress is shown.
            notes = bases.without_history(gathered.series, gathered.given, spec.name)
            taken = self._plain(gathered.series, spec, (*kernels, patched), None)
        else:
            settled = bases.settle(
                self._open(spec),
                gathered.series,
                wished=request.base is not None,
                given=gathered.given,
                log=self.scratch / "apply.log",
                scope=self.scope,
            )
            notes = (f"base: {settled.choice.words}", *settled.problems)
            spec = replace(spec, base=settled.choice.commit)
            taken = self._plain(gathered.series, spec, (*kernels, patched), settled.tree)
        told = (*taken.scenario.notes, *gathered.series.problems, *notes)
        once = tuple(dict.fromkeys(map(visible, told)))
        return replace(taken, scenario=replace(taken.scenario, notes=once))

    def _range(self, request: Request, text: str) -> Intake:
        opened, found, tip = self.read_range(request, text)
        kernels = (
            KernelPlan(name="base", role=Role.BASE),
            KernelPlan(name="patched", role=Role.PATCHED, series=found, commit=tip),
        )
        # Its commits may be anyone's (a fetched branch): only base counts as the user's own.
        spec = replace(self._tree_spec(request), base=opened.base)
        return self._plain(found, spec, kernels, opened, name="range")

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
            title=visible(
                found.patches[-1].subject if found.patches else f"{spec.name} at {spec.base}"
            ),
            tree=spec,
            native=self.native,
        )
        return Intake(scenario=replace(made, notes=found.notes), tree=opened)

    def _tree_spec(self, request: Request) -> TreeSpec:
        around = userrepo.kernel_tree_around(self.cwd)
        name = request.tree or (str(around) if around else "")
        if not name:
            raise UserError(
                "no kernel tree to try it on",
                hint="give --tree PATH or --tree debian:6.12, or start it in a kernel tree",
            )
        return TreeSpec(name=name, base=request.base or "HEAD")

    def _open(self, spec: TreeSpec) -> Tree:
        if not spec.debian_version:
            spec = replace(spec, name=str(self.cwd / spec.name))
        return tree.open_tree(spec, cache=self.cache, scope=self.scope, step=self.step)

    def _bind(self, use: str, label: str, parameters: Mapping[str, Scalar]) -> WorkloadRun:
        spec = catalog.pick("workload", use, self.shelf.workloads)
        return bind(spec, label, parameters)


def check(request: Request) -> None:
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
