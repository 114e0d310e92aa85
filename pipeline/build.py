"""Building a kernel: configuration, compilation, and the cache in front of both."""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pipeline import buildlog, compiler, configuration, kconfig, objectcache, recipe, sandbox
from pipeline import cache as entries
from pipeline.errors import InfraError
from pipeline.model import (
    Architecture,
    Build,
    BuildFailure,
    ConfigFailure,
    FileTimes,
    Fragment,
    Sources,
    Toolchain,
)
from pipeline.objectcache import ObjectCache
from pipeline.process import Completed
from pipeline.progress import Step
from pipeline.sandbox import Sandbox
from pipeline.scope import Scope
from pipeline.store import Store, Workspace, key_of, own_file
from pipeline.workbench import DEADLINE, Workbench

LayOut = Callable[[FileTimes | None], AbstractContextManager[Sources]]

BUILD_LOG = "build.log"
FRAGMENTS = "fragments"
LOW_BYTES = 256 << 20  # gcc removes what it could not write: some is free again by then


@dataclass(frozen=True, kw_only=True)
class BuildRequest:
    """What is to be built. `tree_id` names the source's content, `origin` where it comes from.

    `trusted`: the source is the user's own or the distribution's, not what is on trial;
    later builds may then continue from this one's folder. `base_tree_id` is the tree whose
    folder is the best to continue from. `deadline`: seconds for configuration and
    compilation together; a tree that takes longer is a failure of that tree.
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


def build_kernel(
    request: BuildRequest,
    lay_out: LayOut,
    *,
    cache: Path,
    scope: Scope,
    step: Step,
    log_folder: Path,
) -> Build | BuildFailure | ConfigFailure:
    """Have the kernel that `request` describes: from the cache, or built now.

    `lay_out` puts the sources on disk for a build folder that has seen the given times;
    it is not called on a hit. `log_folder` gets config.log and build.log of what was done.

    Raises:
        InfraError: compiler, host tools, sandbox or disk space are missing, or the deadline
            passed; the message names what and the hint how to get it.
    """
    found = compiler.find(
        request.toolchain, request.architecture, machine=platform.machine(), scope=scope
    )
    log_folder.mkdir(parents=True, exist_ok=True)
    job = _Job(
        request=request,
        compiler=found,
        lay_out=lay_out,
        store=Store(cache=cache),
        scope=scope,
        step=step,
        log_folder=log_folder,
        started=time.monotonic(),
    )
    if built := job.cached():
        return built
    lock = job.store.lock(job.config_key)
    with entries.locked(lock, scope=scope, on_wait=lambda: step.note("another run builds it")):
        return job.cached() or job.make()


@dataclass(frozen=True, kw_only=True)
class _Job:
    """One request with all that serves it."""

    request: BuildRequest
    compiler: compiler.Compiler
    lay_out: LayOut
    store: Store
    scope: Scope
    step: Step
    log_folder: Path
    started: float

    # ------------------------------------------------------------------ keys

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
        return tuple(kconfig.wish(fragment) for fragment in self.request.fragments)

    @property
    def config_key(self) -> str:
        return key_of("config", self.request.tree_id, self._wishes, *self._common)

    @property
    def group(self) -> str:
        return key_of("group", self.request.origin, self._wishes, *self._common)

    def build_key(self, config: str) -> str:
        # With the wishes, though the configuration tells all: a hit that another group has
        # made would leave this one without a folder of its base to continue from.
        return key_of("build", self.request.tree_id, config, self._wishes, *self._common)

    # ------------------------------------------------------------------ hit

    def cached(self) -> Build | None:
        made = self.store.config(self.config_key)
        try:
            key = self.build_key((made / "config").read_text())
        except FileNotFoundError:
            return None
        if not self.store.build(key).is_dir():
            return None
        self.store.touch(made, self.store.build(key))
        return self._build(key, "cached")

    def _build(self, key: str, how: str) -> Build:
        folder = self.store.build(key)
        metadata = json.loads((folder / "metadata.json").read_text())
        modules = folder / recipe.ARCHIVE
        return Build(
            kernel=self.request.kernel,
            architecture=self.request.architecture.name,
            key=key,
            folder=folder,
            image=folder / metadata["image"],
            vmlinux=folder / "vmlinux",
            config=folder / "config",
            modules=modules if modules.exists() else None,
            log=folder / BUILD_LOG,
            release=metadata["release"],
            compiler=metadata["compiler"],
            sandboxed=metadata["sandboxed"],
            seconds=time.monotonic() - self.started,
            how=how,
            slower=kconfig.slower(self.request.fragments),
            cmdline=tuple(word for each in self.request.fragments for word in each.cmdline),
            reserves=sum(each.reserves for each in self.request.fragments),
        )

    # ------------------------------------------------------------------ miss

    def make(self) -> Build | BuildFailure | ConfigFailure:
        in_place = not self.request.sandboxed
        compiler.require_host_tools()
        self.step.note("making the build folder")
        with self.store.workspace(
            self.group, self.request.base_tree_id, in_place=in_place, scope=self.scope
        ) as workspace:
            (workspace.folder / FRAGMENTS).mkdir(exist_ok=True)
            with self.lay_out(workspace.seen) as sources:
                bench = self._bench(workspace, sources)
                sandbox.require(bench.box, scope=self.scope)
                making = _Making(job=self, bench=bench, continued=workspace.seen is not None)
                outcome = making.run(workspace.folder / FRAGMENTS)
            if not isinstance(outcome, _Made):
                if self._is_worth_keeping(outcome) and not in_place:
                    self.store.keep(
                        workspace, sources.times, self.group, in_place=False, whole=False
                    )
                return outcome
            if not outcome.now:  # the folder has nothing but a configuration
                return self._build(outcome.key, "cached")
            built = self._build(outcome.key, self._how(workspace.seen))
            if self.request.trusted:
                self.store.keep(workspace, sources.times, self.group, in_place=in_place)
            return built

    def _is_worth_keeping(self, outcome: BuildFailure | ConfigFailure) -> bool:
        """Whether the folder of a build that broke can be continued: a bisection often meets one,
        and its objects are as good as any. A make that was killed may leave half an object."""
        return self.request.trusted and isinstance(outcome, BuildFailure) and outcome.ended

    def _bench(self, workspace: Workspace, sources: Sources) -> Workbench:
        box = Sandbox(
            source=sources.path,
            build=workspace.build,
            extra={recipe.FRAGMENTS: workspace.folder / FRAGMENTS, **self.objects.readable},
            writable=self.objects.writable,
            enabled=self.request.sandboxed,
        )
        return Workbench(
            kernel=self.request.kernel,
            recipe=recipe.Recipe(
                architecture=self.request.architecture,
                compiler=self.compiler,
                source=box.seen_source,
                build=box.seen_build,
                jobs=self.request.jobs,
            ),
            box=box,
            scope=self.scope,
            step=self.step,
            logs=self.log_folder,
            deadline=self.request.deadline,
            environment={**recipe.ENVIRONMENT, **self.objects.environment},
        )

    @cached_property
    def objects(self) -> ObjectCache:
        """ccache, where there is one to be had."""
        return objectcache.find(
            self.store.cache,
            identity=self.compiler.identity,
            trusted=self.request.trusted,
            sandboxed=self.request.sandboxed,
        )

    def _how(self, seen: FileTimes | None) -> str:
        if seen is None:
            return "clean build"
        return "increment on base" if seen.tree_id == self.request.base_tree_id else "increment"


@dataclass(frozen=True, kw_only=True)
class _Made:
    """A build in the store: made `now` or, with the same configuration, before."""

    key: str
    now: bool


@dataclass(frozen=True, kw_only=True)
class _Making:
    """A job with a build folder and sources to work on."""

    job: _Job
    bench: Workbench
    continued: bool

    def run(self, fragments: Path) -> _Made | BuildFailure | ConfigFailure:
        """The build that is in the store now, or what went wrong. `fragments`: where they lie."""
        config = self._configure(fragments)
        if isinstance(config, ConfigFailure):
            return config
        self._write_reproducer(config)
        key = self.job.build_key(config)
        if self.job.store.build(key).is_dir():
            return _Made(key=key, now=False)
        if failure := self._compile(kconfig.parse_config(config)):
            return failure
        entries.entry(self.job.store.build(key), lambda folder: self._fill(folder, key))
        return _Made(key=key, now=True)

    def _configure(self, fragments: Path) -> str | ConfigFailure:
        """The final configuration; in the build folder it keeps its time where it is unchanged.

        make compares that time: kbuild rebuilds what holds the whole configuration
        (kernel/config_data.gz) and runs syncconfig when .config is new.
        """
        target, before = self.bench.build / ".config", None
        if target.is_file():
            before = (target.read_text(), target.stat().st_mtime_ns)
        entry = self.job.store.config(self.job.config_key)
        if entry.is_dir():
            config = (entry / "config").read_text()
            target.write_text(config)
        else:
            chosen = configuration.choose(self.bench, self.job.request.fragments)
            if isinstance(chosen, ConfigFailure):
                return chosen
            files = write_fragments(chosen.fragments, fragments)
            made = configuration.make(self.bench, chosen, files)
            if isinstance(made, ConfigFailure):
                return made
            config = made
            entries.entry(entry, lambda folder: self._fill_config(folder, config))
        if before and config == before[0]:
            os.utime(target, ns=(before[1], before[1]))
        return config

    def _write_reproducer(self, config: str) -> None:
        """Beside the logs, before make runs: a build that breaks is the one to repeat."""
        (self.bench.logs / "config").write_text(config)
        script = recipe.render_script(self.bench.recipe, kconfig.parse_config(config))
        (self.bench.logs / "build.sh").write_text(script)

    def _fill_config(self, folder: Path, config: str) -> None:
        (folder / "config").write_text(config)
        shutil.copyfile(self.bench.logs / configuration.LOG, folder / configuration.LOG)

    def _compile(self, config: dict[str, str]) -> BuildFailure | None:
        log = self.bench.logs / BUILD_LOG
        log.unlink(missing_ok=True)
        compiler.require_host_tools(config)
        commands = [self.bench.recipe.compile(config)]
        if recipe.wants_modules(config):
            commands += self.bench.recipe.pack_modules()
        for command in commands:
            completed = self.bench.run(command, log)
            if not completed.ok:
                return self._build_failure(completed, log)
        return None

    def _build_failure(self, completed: Completed, log: Path) -> BuildFailure:
        if completed.timed_out:
            first = buildlog.FirstError(error=self.bench.too_long)
        else:
            self._check_host(completed, log)
            first = buildlog.first_error(completed.text, roots=self.bench.roots)
        return BuildFailure(
            kernel=self.bench.kernel,
            architecture=self.job.request.architecture.name,
            error=first.error,
            file=first.file,
            line=first.line,
            log=log,
            ended=not completed.timed_out,
        )

    def _check_host(self, completed: Completed, log: Path) -> None:
        """Raise InfraError where the host, not the tree, is why a build broke.

        A tree can print what it likes, so a full disk must be seen to be full.
        """
        fault = buildlog.host_fault(completed.text)
        full = entries.free_bytes(self.bench.build) < LOW_BYTES
        if fault and (full or not buildlog.is_about_disk(fault)):
            raise InfraError(
                f"the build of {self.bench.kernel} broke for want of disk or memory: {fault}",
                hint=f"the log is {log}; fewer --jobs need less memory",
            )

    def _fill(self, folder: Path, key: str) -> None:
        """Put what is kept of a build into its entry."""
        build, request = self.bench.build, self.job.request
        image = request.architecture.image_path
        for name in (image, "vmlinux", "System.map"):
            shutil.copyfile(own_file(build, name), folder / Path(name).name)
        config = own_file(build, ".config")
        shutil.copyfile(config, folder / "config")
        shutil.copyfile(self.bench.logs / BUILD_LOG, folder / BUILD_LOG)
        symbols = kconfig.parse_config(config.read_text())
        if recipe.wants_modules(symbols):
            shutil.copyfile(own_file(build, recipe.ARCHIVE), folder / recipe.ARCHIVE)
        (folder / "build.sh").write_text(recipe.render_script(self.bench.recipe, symbols))
        metadata = {
            "key": key,
            "tree_id": request.tree_id,
            "origin": request.origin,
            "architecture": request.architecture.name,
            "image": Path(image).name,
            "release": own_file(build, "include/config/kernel.release").read_text().strip(),
            "compiler": self.job.compiler.version,
            "linker": self.job.compiler.linker,
            "toolchain": request.toolchain.name,
            "fragments": [fragment.name for fragment in request.fragments],
            "sandboxed": request.sandboxed,
            "continued": self.continued,
            "command": list(self.bench.recipe.compile(symbols)),
            "environment": dict(recipe.ENVIRONMENT),
            "seconds": round(time.monotonic() - self.job.started, 3),
        }
        (folder / "metadata.json").write_text(json.dumps(metadata, indent=1) + "\n")


def write_fragments(chosen: Sequence[Fragment], folder: Path) -> list[Path]:
    """The fragments as files, in their order; their paths as the sandbox shows them."""
    entries.remove(folder)
    folder.mkdir()
    names = [f"{number:02}-{fragment.name}.config" for number, fragment in enumerate(chosen)]
    for name, fragment in zip(names, chosen, strict=True):
        (folder / name).write_text(kconfig.render_fragment(fragment))
    return [recipe.FRAGMENTS / name for name in names]
