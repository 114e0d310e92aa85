"""What is done with kernels before they boot: building them, and all that reads a build."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from pipeline import (
    cache,
    changedlines,
    cover,
    coverage,
    estimate,
    examine,
    imagesize,
    kconfig,
    kernelbuild,
    nodes,
    plan,
    programs,
    results,
    verify,
)
from pipeline.catalog import Catalog
from pipeline.checking import Checker, Side
from pipeline.crowd import Crowd
from pipeline.errors import InfraError, UserError
from pipeline.history import History
from pipeline.model import (
    Build,
    BuildFailure,
    Checked,
    Comparison,
    ConfigFailure,
    Covered,
    Examination,
    Fragment,
    Growth,
    KernelPlan,
    Plan,
    Revision,
    Role,
    Target,
    Tree,
    Verified,
)
from pipeline.nodes import Job, Kind
from pipeline.progress import Reporter, Step
from pipeline.repository import Git
from pipeline.results import Folder
from pipeline.scope import Scope
from pipeline.settings import Settings
from pipeline.workbench import Workbench


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
            Kind.EXAMINE: self._examine,
            Kind.COVER: self._cover,
            Kind.CHECK: self._check,
            Kind.VERIFY: self._verify,
            Kind.PROGRAMS: self._programs,
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
                stack=self.stack,
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
            below=self._built(target, plan.directly_below(self.plan.scenario, kernel)),
        )

    def _fragments(self, target: Target) -> tuple[str, ...]:
        return plan.fragments(self.plan.scenario, target.configuration, self.shelf.probes)

    def _remember(self, result: Build, target: Target) -> None:
        key = estimate.build_key(
            architecture=target.architecture,
            fragments=self._fragments(target),
            tree=self.plan.scenario.tree.name,
            kind=estimate.kind_of(result.how),
        )
        self.history.add(key, result.seconds)

    # ------------------------------------------------------------------ reading a build

    def _compare(self, job: Job) -> Comparison | None:
        """A kernel with the one that it is held against; None where that was not built."""
        target = _target(job)
        mine = self._built(target, self.kernels[job.kernel])
        its = self._built(target, self.kernels[job.below])
        if mine is None or its is None:
            return None
        same = _same(mine, its)
        growth = None if same else _growth(its, mine)
        return Comparison(below=job.below, identical=same, growth=growth)

    def _bench(
        self, target: Target, kernel: KernelPlan, step: Step, *, copy: bool
    ) -> AbstractContextManager[Workbench]:
        built = self._built(target, kernel)
        assert built is not None
        return kernelbuild.bench(
            self._wish(target, kernel),
            built,
            copy=copy,
            shelf=self.shelf,
            settings=self.settings,
            scope=self.scope,
            step=step,
        )

    def _examine(self, job: Job) -> Examination:
        """What a series changed, and which of its lines were compiled; known from the last time
        where both kernels are the same as then."""
        target, kernel, below = _target(job), self.kernels[job.kernel], self.kernels[job.below]
        mine, its = self._built(target, kernel), self._built(target, below)
        assert mine is not None and its is not None
        kept = self.settings.cache / "examinations" / f"{its.key}-{mine.key}.json"
        with suppress(OSError, ValueError, KeyError, TypeError):
            return examine.from_json(kept.read_text(encoding="utf-8"))
        with (
            self.crowd.member(),
            self.reporter.step(f"what {kernel.name} changes for {target.name}") as step,
        ):
            found = examine.examine(
                lambda: self._bench(target, below, step, copy=True),
                lambda: self._bench(target, kernel, step, copy=False),
                changed=self._changed(job),
                identical=_same(mine, its),
                source_dir=self.shelf.architecture(target.architecture).source_dir,
                config=kconfig.parse_config(mine.config.read_text(encoding="utf-8")),
            )
        kept.parent.mkdir(parents=True, exist_ok=True)
        results.write(kept, examine.to_json(found))
        return found

    def _changed(self, job: Job) -> Mapping[str, tuple[int, ...]]:
        """The lines that a kernel changes, by file."""
        at = Git(git_dir=self._opened.repository, scope=self.scope)
        ends = self._revision(job.below).commit, self._revision(job.kernel).commit
        return changedlines.read(at.text(*changedlines.DIFF, *ends))

    def _cover(self, job: Job) -> Covered:
        """The first configuration's fragments, and on top what those lines need that no
        configuration compiles. What is wrong with the host ends no run here: all cases are told."""
        target, kernel = _target(job), self.kernels[job.kernel]
        wanted = coverage.bring_in(*self._examined(job))
        with (
            self.crowd.member(),
            self.reporter.step(f"{kernel.name} with what nothing compiles so far") as step,
        ):
            try:
                return cover.cover(
                    wanted,
                    make=lambda extra: self._make_cover(target, kernel, extra, step),
                    examine=lambda built, extra: self._look_at_cover(job, built, extra, step),
                )
            except InfraError as error:
                return Covered(cover=wanted, problem=str(error))

    def _examined(self, job: Job) -> tuple[list[Examination], list[Examination]]:
        """What is known of a kernel for the job's architecture, and for others."""
        here: list[Examination] = []
        others: list[Examination] = []
        for target, kernel in plan.to_build(self.plan):
            found = self.values.get(nodes.node_id(Kind.EXAMINE, target.name, kernel.name))
            if kernel.name == job.kernel and isinstance(found, Examination):
                (here if target.architecture == job.architecture else others).append(found)
            node = nodes.node_id(Kind.COVER, target.architecture, job.kernel)
            before = self.values.get(node)
            if isinstance(before, Covered) and before.examination:
                others.append(before.examination)
        return here, others

    def _cover_wish(self, target: Target, kernel: KernelPlan, extra: Fragment) -> kernelbuild.Wish:
        logs = self.folder.build(_cover_target(target).name, kernel.name)
        mine = self._built(target, kernel)  # with other settings, but kbuild tells what they change
        return replace(
            self._wish(target, kernel), extra=(extra,), below=mine, across=True, log_folder=logs
        )

    def _make_cover(
        self, target: Target, kernel: KernelPlan, extra: Fragment, step: Step
    ) -> Build | BuildFailure | ConfigFailure:
        result = kernelbuild.make(
            self._cover_wish(target, kernel, extra),
            shelf=self.shelf,
            settings=self.settings,
            scope=self.scope,
            step=step,
            stack=self.stack,
        )
        if isinstance(result, Build):
            self.stack.enter_context(cache.using(result.folder))
            place, revision = _cover_target(target).name, self._revision(kernel.name)
            results.keep_build(self.folder, result, place, self._opened, revision)
        return result

    def _look_at_cover(self, job: Job, built: Build, extra: Fragment, step: Step) -> Examination:
        target, kernel = _target(job), self.kernels[job.kernel]

        def bench() -> AbstractContextManager[Workbench]:
            return kernelbuild.bench(
                self._cover_wish(target, kernel, extra),
                built,
                copy=False,
                shelf=self.shelf,
                settings=self.settings,
                scope=self.scope,
                step=step,
            )

        return examine.examine(
            bench,
            bench,
            changed=self._changed(job),
            identical=True,  # what changed is known of the others: here it is which lines are in
            source_dir=self.shelf.architecture(target.architecture).source_dir,
            config=kconfig.parse_config(built.config.read_text(encoding="utf-8")),
        )

    def _check(self, job: Job) -> Checked:
        kernel = self.kernels[job.kernel]
        spec = self.shelf.checks[job.name]
        place = f" for {job.target.name}" if job.target else ""
        name = ".".join((*((job.target.name,) if job.target else ()), job.kernel))
        with self.crowd.member(), self.reporter.step(f"{job.name} on {job.kernel}{place}") as step:
            checker = Checker(
                shelf=self.shelf,
                settings=self.settings,
                scope=self.scope,
                step=step,
                log_folder=results.made(self.folder.root / "checks" / name),
            )
            if job.target is None:
                assert kernel.series is not None
                base = self._revision(self.plan.scenario.kernels[0].name)
                return checker.on_patches(spec, self._opened, base, kernel.series)
            sides = (self._side(job.target, each) for each in (self.kernels[job.below], kernel))
            return checker.by_make(spec, *sides)

    def _side(self, target: Target, kernel: KernelPlan) -> Side:
        built = self._built(target, kernel)
        assert built is not None
        return Side(wish=self._wish(target, kernel), built=built)

    def _verify(self, job: Job) -> Verified:
        side = self._side(_target(job), self.kernels[job.kernel])
        with (
            self.crowd.member(),
            self.reporter.step(f"building {job.kernel} for {_target(job).name} once more") as step,
        ):
            return verify.verify(
                side.wish,
                side.built,
                shelf=self.shelf,
                settings=self.settings,
                scope=self.scope,
                step=step,
            )

    def _programs(self, job: Job) -> Path | BuildFailure:
        """What a workload runs in the guest, of the kernel's own tree."""
        kernel, target = self.kernels[job.kernel], _target(job)
        run = next(each for each in self.plan.scenario.workloads if each.label == job.name)
        assert run.spec.programs is not None
        with (
            self.crowd.member(),
            self.reporter.step(f"programs of {kernel.name} for {job.name}") as step,
            self._bench(target, kernel, step, copy=True) as bench,
        ):
            return programs.build(bench, run.spec.programs, run.parameters, name=job.name)


def _growth(below: Build, kernel: Build) -> Growth | None:
    """None where a vmlinux is not there any more, or cannot be read."""
    try:
        before, after = (imagesize.read(each.vmlinux.read_bytes()) for each in (below, kernel))
    except (OSError, ValueError):
        return None
    return imagesize.growth(before, after)


def _same(one: Build, other: Build) -> bool:
    return one.digest != "" and one.digest == other.digest


def _cover_target(target: Target) -> Target:
    return replace(target, configuration=coverage.COVER)


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
