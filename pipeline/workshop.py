"""What is done with kernels before they boot: building them, and all that reads a build."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from pipeline import cache, estimate, kernelbuild, nodes, plan, results
from pipeline.catalog import Catalog
from pipeline.crowd import Crowd
from pipeline.errors import UserError
from pipeline.history import History
from pipeline.model import (
    Build,
    BuildFailure,
    Comparison,
    ConfigFailure,
    KernelPlan,
    Plan,
    Revision,
    Role,
    Target,
    Tree,
)
from pipeline.nodes import Job, Kind
from pipeline.progress import Reporter
from pipeline.results import Folder
from pipeline.scope import Scope
from pipeline.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """The work behind the nodes of a run that are about builds. `values`: what came of the nodes
    so far, by their ids; `stack`: what lasts as long as the run."""

    plan: Plan
    shelf: Catalog
    settings: Settings
    scope: Scope
    reporter: Reporter
    folder: Folder
    history: History
    trusted: bool
    stack: ExitStack
    crowd: Crowd
    values: Mapping[str, object]

    @cached_property
    def work(self) -> Mapping[Kind, Callable[[Job], object]]:
        return {
            Kind.BUILD: self._build,
            Kind.COMPARE: self._compare,
            Kind.EXAMINE: lambda _: None,
            Kind.CHECK: lambda _: None,
            Kind.VERIFY: lambda _: None,
            Kind.PROGRAMS: lambda _: None,
        }

    @cached_property
    def kernels(self) -> Mapping[str, KernelPlan]:
        return {kernel.name: kernel for kernel in self.plan.scenario.kernels}

    # ------------------------------------------------------------------ building

    def _build(self, job: Job) -> Build | BuildFailure | ConfigFailure:
        kernel, target = self.kernels[job.kernel], _target(job)
        opened, revision = self._opened, self._revision(kernel.name)
        with (
            self.crowd.member(),
            self.reporter.step(f"build {kernel.name} for {target.name}") as step,
        ):
            result = kernelbuild.make(
                self._wish(target, kernel),
                shelf=self.shelf,
                settings=self.settings,
                scope=self.scope,
                step=step,
            )
        first = kernel == self.plan.scenario.kernels[0]
        if isinstance(result, ConfigFailure) and result.lost and first:
            raise lost_symbols(result)
        if isinstance(result, Build):
            self.stack.enter_context(cache.using(result.folder))
            results.keep_build(self.folder, result, target.name, opened, revision)
            self._remember(result, target)
        else:
            logs = self.folder.build(target.name, kernel.name)
            results.name_source(logs / "build.sh", opened, revision)
        return result

    @property
    def _opened(self) -> Tree:
        found = self.values["tree"]
        assert isinstance(found, Tree)
        return found

    def _revision(self, kernel: str) -> Revision:
        found = self.values[f"apply.{kernel}"]
        assert isinstance(found, Revision)
        return found

    def _built(self, target: Target, kernel: KernelPlan | None) -> Build | None:
        name = nodes.build_id(target.name, kernel.name) if kernel else ""
        found = self.values.get(name)
        return found if isinstance(found, Build) else None

    def _wish(self, target: Target, kernel: KernelPlan) -> kernelbuild.Wish:
        first = self.values.get(f"apply.{self.plan.scenario.kernels[0].name}")
        return kernelbuild.Wish(
            opened=self._opened,
            revision=self._revision(kernel.name),
            base=first if isinstance(first, Revision) else None,
            architecture=self.shelf.architecture(target.architecture),
            fragments=self._fragments(target),
            trusted=kernel.role is Role.BASE or self.trusted,
            log_folder=self.folder.build(target.name, kernel.name),
        )

    def _fragments(self, target: Target) -> tuple[str, ...]:
        scenario = self.plan.scenario
        probes = [self.shelf.probes[name] for name in scenario.probes]
        return (
            *scenario.fragments,
            *(name for each in probes for name in each.kconfigs),
            *(name for each in scenario.workloads for name in each.spec.kconfigs),
            *plan.configuration(scenario, target.configuration).fragments,
        )

    def _remember(self, result: Build, target: Target) -> None:
        kind = estimate.kind_of(result.how)
        key = estimate.build_key(target=target.name, tree=self.plan.scenario.tree.name, kind=kind)
        self.history.add(key, result.seconds)

    # ------------------------------------------------------------------ reading a build

    def _compare(self, job: Job) -> Comparison | None:
        """A kernel with the one that it is held against; None where that was not built."""
        kernel, target = self.kernels[job.kernel], _target(job)
        below = plan.below(self.plan.scenario, kernel)
        mine, its = self._built(target, kernel), self._built(target, below)
        if mine is None or its is None or below is None:
            return None
        same = mine.digest != "" and mine.digest == its.digest
        return Comparison(below=below.name, identical=same)


def _target(job: Job) -> Target:
    assert job.target is not None
    return job.target


class ConfigurationError(UserError):
    """The tree cannot give the configuration that was asked for; a bisection skips the commit."""

    bisect_code: ClassVar[int] = 125


def lost_symbols(failure: ConfigFailure) -> ConfigurationError:
    """Every lost symbol with its fragment and the reason, in one error."""
    lines = [str(lost) for lost in failure.lost]
    return ConfigurationError(
        "the configuration cannot be had: " + "; ".join(lines),
        hint="mend the fragment, or take a tree that has it",
    )
