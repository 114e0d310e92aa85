"""A build folder with its sources laid out: configuring and compiling in it, and what is kept."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pipeline import buildlog, compiler, configuration, diagnostics, kconfig, recipe
from pipeline import cache as entries
from pipeline.buildkeys import Keys
from pipeline.errors import InfraError
from pipeline.model import BuildFailure, ConfigFailure, Fragment
from pipeline.process import Completed
from pipeline.store import (
    BUILD_LOG,
    METADATA,
    OUTPUT_BYTES,
    TEXT_BYTES,
    WARNINGS,
    Store,
    digest,
    not_own,
    own_file,
)
from pipeline.workbench import Workbench

FRAGMENTS = "fragments"
LOW_BYTES = 256 << 20  # gcc removes what it could not write: some is free again by then


@dataclass(frozen=True, kw_only=True)
class Made:
    """A build in the store: made `now` or, with the same configuration, before."""

    key: str
    now: bool


@dataclass(frozen=True, kw_only=True)
class Making:
    """A build folder to work in. `continued`: its objects are another build's. `started`: on the
    monotonic clock, when the build was asked for."""

    keys: Keys
    store: Store
    bench: Workbench
    continued: bool
    started: float

    def run(self, fragments: Path, *, known: str = "") -> Made | BuildFailure | ConfigFailure:
        """The build that is in the store now, or what went wrong. `fragments`: where they lie.
        `known`: the key of a configuration that is the same for sure."""
        config = self._configure(fragments, known)
        if isinstance(config, ConfigFailure):
            return config
        self._write_reproducer(config)
        key = self.keys.build(config)
        if self.store.build(key).is_dir():
            return Made(key=key, now=False)
        failure = self.compile(config)
        self._note_warnings()
        if failure:
            return failure
        entries.entry(self.store.build(key), lambda folder: self._fill(folder, key))
        return Made(key=key, now=True)

    def compile(self, config: str) -> BuildFailure | None:
        """Have make build the kernel and its modules; None where all went well."""
        log = self.bench.logs / BUILD_LOG
        log.unlink(missing_ok=True)
        symbols = kconfig.parse_config(config)
        compiler.require_host_tools(symbols)
        commands = [self.bench.recipe.compile(symbols)]
        if recipe.wants_modules(symbols):
            commands += self.bench.recipe.pack_modules()
        for command in commands:
            completed = self.bench.run(command, log)
            if not completed.ok:
                return self._build_failure(completed, log)
        return self._bad_products(symbols, log)

    def _bad_products(self, symbols: Mapping[str, str], log: Path) -> BuildFailure | None:
        """What make left must be fit to be read out here."""
        wanted = dict.fromkeys(kept(symbols, self.keys), OUTPUT_BYTES)
        wanted |= dict.fromkeys((".config", RELEASE), TEXT_BYTES)
        for name, most in wanted.items():
            if why := not_own(self.bench.build, name, most=most):
                return self._failure(buildlog.FirstError(error=why), log, ended=False)
        return None

    def _note_warnings(self) -> None:
        """Beside the build folder: what compilers say of all objects in it, those included that
        an earlier build made. Nothing where that is not known of the folder that it started from.
        """
        memory = self.bench.build.parent / WARNINGS
        if self.continued and not memory.is_file():
            return
        before = diagnostics.load(memory.read_text()) if self.continued else {}
        log = self.bench.logs / BUILD_LOG
        now = diagnostics.read(log.read_text(errors="replace"), roots=self.bench.roots)
        source = self.bench.source
        spoken = diagnostics.merge(before, now, exists=lambda path: (source / path).exists())
        memory.write_text(diagnostics.dump(spoken))

    # ------------------------------------------------------------------ configuration

    def _configure(self, fragments: Path, known: str) -> str | ConfigFailure:
        """The final configuration, in the build folder too."""
        with unchanged(self.bench.build / ".config") as target:
            entry = self.store.config(self.keys.config)
            if known and not entry.is_dir():
                same = self.store.config(known)
                with suppress(FileNotFoundError):  # gone meanwhile
                    entries.entry(entry, lambda folder: copy_config(same, folder))
            if entry.is_dir():
                config = (entry / "config").read_text()
                target.write_text(config)
                return config
            chosen = configuration.choose(self.bench, self.keys.request.fragments)
            if isinstance(chosen, ConfigFailure):
                return chosen
            files = write_fragments(chosen.fragments, fragments)
            made = configuration.make(self.bench, chosen, files)
            if isinstance(made, str):
                entries.entry(entry, lambda folder: self._fill_config(folder, made))
            return made

    def _fill_config(self, folder: Path, config: str) -> None:
        (folder / "config").write_text(config)
        shutil.copyfile(self.bench.logs / configuration.LOG, folder / configuration.LOG)

    def _write_reproducer(self, config: str) -> None:
        """Beside the logs, before make runs: a build that breaks is the one to repeat."""
        (self.bench.logs / "config").write_text(config)
        script = recipe.render_script(self.bench.recipe, kconfig.parse_config(config))
        (self.bench.logs / "build.sh").write_text(script)

    # ------------------------------------------------------------------ failures

    def _build_failure(self, completed: Completed, log: Path) -> BuildFailure:
        if why := self.bench.ended(completed):
            first = buildlog.FirstError(error=why)
        else:
            self._check_host(completed, log)
            first = buildlog.first_error(completed.text, roots=self.bench.roots)
        return self._failure(first, log, ended=not self.bench.ended(completed))

    def _failure(self, first: buildlog.FirstError, log: Path, *, ended: bool) -> BuildFailure:
        return BuildFailure(
            kernel=self.bench.kernel,
            architecture=self.keys.request.architecture.name,
            error=first.error,
            file=first.file,
            line=first.line,
            log=log,
            ended=ended,
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

    # ------------------------------------------------------------------ the entry

    def _fill(self, folder: Path, key: str) -> None:
        """Put what is kept of a build into its entry."""
        build = self.bench.build
        made = products(build, self.keys)
        for name, path in made.items():
            shutil.copyfile(path, folder / name)
        config = own_file(build, ".config")
        shutil.copyfile(config, folder / "config")
        shutil.copyfile(self.bench.logs / BUILD_LOG, folder / BUILD_LOG)
        if (build.parent / WARNINGS).is_file():
            shutil.copyfile(build.parent / WARNINGS, folder / WARNINGS)
        symbols = kconfig.parse_config(config.read_text())
        (folder / "build.sh").write_text(recipe.render_script(self.bench.recipe, symbols))
        metadata = self._metadata(key) | {
            "release": own_file(build, RELEASE).read_text().strip(),
            "command": list(self.bench.recipe.compile(symbols)),
            "digest": digest(folder / name for name in made if name not in NOT_BOOTED),
            "seconds": round(time.monotonic() - self.started, 3),
        }
        (folder / METADATA).write_text(json.dumps(metadata, indent=1) + "\n")

    def _metadata(self, key: str) -> dict[str, object]:
        request, found = self.keys.request, self.keys.compiler
        return {
            "key": key,
            "tree_id": request.tree_id,
            "origin": request.origin,
            "architecture": request.architecture.name,
            "image": Path(request.architecture.image_path).name,
            "compiler": found.version,
            "linker": found.linker,
            "toolchain": request.toolchain.name,
            "fragments": [fragment.name for fragment in request.fragments],
            "sandboxed": request.sandboxed,
            "continued": self.continued,
            "environment": dict(recipe.ENVIRONMENT),
        }


def copy_config(same: Path, folder: Path) -> None:
    """The entry of a configuration from that of another tree with the same one."""
    for name in ("config", configuration.LOG):
        shutil.copyfile(same / name, folder / name)


RELEASE = "include/config/kernel.release"
NOT_BOOTED = ("vmlinux", "System.map")


def products(build: Path, keys: Keys) -> dict[str, Path]:
    """What a build came to, by the names that it has in an entry: what a guest boots first (the
    image, then modules where there are any), then vmlinux and System.map."""
    config = kconfig.parse_config(own_file(build, ".config").read_text())
    return {Path(path).name: own_file(build, path) for path in kept(config, keys)}


def kept(config: Mapping[str, str], keys: Keys) -> tuple[str, ...]:
    """The files of a build folder that go into an entry, in that order."""
    image = keys.request.architecture.image_path
    return (image, *((recipe.ARCHIVE,) if recipe.wants_modules(config) else ()), *NOT_BOOTED)


@contextmanager
def unchanged(path: Path) -> Iterator[Path]:
    """A file that keeps its time where it has the same content afterwards.

    make compares .config's: kbuild rebuilds what holds the whole configuration
    (kernel/config_data.gz) and runs syncconfig when it is new.
    """
    if path.is_symlink():  # left by an earlier patch: what is written here would go through it
        path.unlink()
    if not path.is_file():
        yield path
        return
    content, when = path.read_bytes(), path.stat().st_mtime_ns
    yield path
    if path.is_file() and path.read_bytes() == content:
        os.utime(path, ns=(when, when))


def write_fragments(chosen: Sequence[Fragment], folder: Path) -> list[Path]:
    """The fragments as files, in their order; their paths as the sandbox shows them."""
    entries.remove(folder)
    folder.mkdir()
    names = [f"{number:02}-{fragment.name}.config" for number, fragment in enumerate(chosen)]
    for name, fragment in zip(names, chosen, strict=True):
        (folder / name).write_text(kconfig.render_fragment(fragment))
    return [recipe.FRAGMENTS / name for name in names]
