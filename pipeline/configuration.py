"""Making a kernel's configuration with the tree's own Kconfig, and checking what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pipeline import buildlog, kconfig, kconfig_tree
from pipeline.kconfig_tree import Declaration
from pipeline.model import Architecture, ConfigFailure, Fragment
from pipeline.process import Completed
from pipeline.store import own_file
from pipeline.workbench import Workbench

LOG = "config.log"


def make(
    bench: Workbench, fragments: Sequence[Fragment], files: Iterable[Path]
) -> str | ConfigFailure:
    """The final .config, or what it lacks. `files`: the fragments as the sandbox shows them."""
    log = bench.logs / LOG
    log.unlink(missing_ok=True)
    bench.step.note("configuring")
    for command in bench.recipe.configure([bench.box.seen(path) for path in files]):
        completed = bench.run(command, log)
        if not completed.ok:
            return _broken(bench, completed, log)
    text = own_file(bench.build, ".config").read_text()
    return _lost(bench, fragments, kconfig.parse_config(text), log) or text


def _broken(bench: Workbench, completed: Completed, log: Path) -> ConfigFailure:
    if completed.timed_out:
        words = f"the configuration {bench.too_long}"
    else:
        first = buildlog.first_error(completed.text, roots=bench.roots)
        words = f"{first.file}:{first.line}: {first.error}" if first.line else first.error
    return ConfigFailure(kernel=bench.kernel, lost=(), words=words, log=log)


def _lost(
    bench: Workbench, fragments: Sequence[Fragment], config: dict[str, str], log: Path
) -> ConfigFailure | None:
    declared: list[Declaration] = []

    def reason_of(symbol: str, wanted: str) -> str:
        if not declared:  # only now: reading all Kconfig files of a tree takes 1.4 s
            declared.extend(_declarations(bench.source, bench.recipe.architecture))
        return kconfig_tree.reason(symbol, wanted, declared, config)

    lost = kconfig.lost_symbols(fragments, config, reason_of)
    if not lost:
        return None
    with log.open("a") as sink:
        sink.writelines(f"lost: {symbol}\n" for symbol in lost)
    words = f"{len(lost)} requested symbols are not in the final configuration"
    return ConfigFailure(kernel=bench.kernel, lost=lost, words=words, log=log)


def _declarations(source: Path, architecture: Architecture) -> list[Declaration]:
    def read(name: str) -> str | None:
        """A file of the tree, and of the tree only, whatever its Kconfig files name."""
        path = source / name
        try:
            if path.resolve().is_relative_to(source.resolve()):
                return path.read_text(errors="replace")
        except OSError:
            pass
        return None

    variables = {"SRCARCH": architecture.source_dir, "ARCH": architecture.kernel_arch}
    return kconfig_tree.declarations(read, root="Kconfig", variables=variables)
