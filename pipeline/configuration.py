"""Making a kernel's configuration with the tree's own Kconfig, and checking what came of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pipeline import buildlog, kconfig, kconfig_tree
from pipeline.kconfig import Selection
from pipeline.kconfig_tree import Declaration
from pipeline.model import Architecture, ConfigFailure, Fragment
from pipeline.process import Completed
from pipeline.store import TEXT_BYTES, not_own
from pipeline.workbench import Workbench

LOG = "config.log"
VERSION = re.compile(r"^VERSION[ \t]*=[ \t]*(\d+)\s+PATCHLEVEL[ \t]*=[ \t]*(\d+)", re.M)


def choose(bench: Workbench, fragments: Sequence[Fragment]) -> Selection | ConfigFailure:
    """What `fragments` ask of the tree that lies in the bench, or that one is not for it.

    Raises:
        UserError: fragments that contradict each other.
    """
    architecture, version = bench.recipe.architecture, kernel_version(bench.source)
    for each in fragments:
        if why := kconfig.refusal(each, architecture.name, version):
            log = bench.logs / LOG
            log.write_text(f"this is {version}: {why}\n")
            return ConfigFailure(kernel=bench.kernel, lost=(), words=why, log=log, unsupported=True)
    always = {"base", *architecture.fragments}
    return kconfig.select(fragments, always=always, architecture=architecture.name, version=version)


def make(bench: Workbench, chosen: Selection, files: Iterable[Path]) -> str | ConfigFailure:
    """The final .config, or what it lacks. `files`: the fragments as the sandbox shows them."""
    log = bench.logs / LOG
    log.unlink(missing_ok=True)
    bench.step.note("configuring")
    seen = [bench.box.seen(path) for path in files]
    for command in bench.recipe.configure(
        seen, base=chosen.base, seed=chosen.seed, probability=chosen.probability
    ):
        completed = bench.run(command, log)
        if not completed.ok:
            return _broken(bench, completed, log)
    if why := not_own(bench.build, ".config", most=TEXT_BYTES):
        words = f"the configuration {why}"
        return ConfigFailure(kernel=bench.kernel, lost=(), words=words, log=log)
    text = (bench.build / ".config").read_text()
    return _lost(bench, chosen.fragments, kconfig.parse_config(text), log) or text


def kernel_version(source: Path) -> str:
    """“6.12” from the head of a tree's Makefile, "" where it has none."""
    found = VERSION.search(_own_text(source, "Makefile") or "")
    return f"{found[1]}.{found[2]}" if found else ""


def _broken(bench: Workbench, completed: Completed, log: Path) -> ConfigFailure:
    if why := bench.ended(completed):
        words = f"the configuration {why}"
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
    variables = {"SRCARCH": architecture.source_dir, "ARCH": architecture.kernel_arch}
    return kconfig_tree.declarations(
        lambda name: _own_text(source, name), root="Kconfig", variables=variables
    )


def _own_text(source: Path, name: str) -> str | None:
    """A file of the tree, and of the tree only, whatever its Kconfig files name."""
    path = source / name
    try:
        if path.resolve().is_relative_to(source.resolve()):
            return path.read_text(errors="replace")
    except OSError:
        pass
    return None


# ------------------------------------------------------------------- for readers of times

SLOW: Mapping[str, str] = {  # symbol -> as it is called
    "CONFIG_KASAN": "KASAN",
    "CONFIG_KCSAN": "KCSAN",
    "CONFIG_UBSAN": "UBSAN",
    "CONFIG_LOCKDEP": "lockdep",
    "CONFIG_DEBUG_ATOMIC_SLEEP": "atomic sleep",
    "CONFIG_SLUB_DEBUG_ON": "SLUB debugging",
    "CONFIG_SLUB_STATS": "SLUB statistics",
    "CONFIG_PAGE_OWNER": "page owner",
    "CONFIG_DEBUG_PAGEALLOC": "page allocation",
    "CONFIG_GCOV_KERNEL": "gcov",
}


def facts(config_text: str) -> Mapping[str, str]:
    """What a reader of times must know of a configuration, in words."""
    config = kconfig.parse_config(config_text)

    def on(*names: str) -> bool:
        return any(config.get(f"CONFIG_{name}") == "y" for name in names)

    found = {
        "optimisation": "-Os" if on("CC_OPTIMIZE_FOR_SIZE") else "-O2",
        "memcg": _memcg(config) if on("MEMCG") else "off",
        "NR_CPUS": config.get("CONFIG_NR_CPUS", "?") if on("SMP") else "1 (no SMP)",
        "preemption": _preemption(config),
        "timer": f"{config.get('CONFIG_HZ', '?')} Hz",
    }
    slow = [name for symbol, name in SLOW.items() if config.get(symbol) == "y"]
    return found | ({"debugging": ", ".join(slow)} if slow else {})


def _memcg(config: Mapping[str, str]) -> str:
    """Before 6.10 accounting of kernel memory could be left out (it is not where there is SLOB)."""
    kmem = config.get("CONFIG_MEMCG_KMEM", "n")
    return "on" if kmem == "y" or "CONFIG_MEMCG_V1" in config else "on, not of kernel memory"


def _preemption(config: Mapping[str, str]) -> str:
    models = ("NONE", "VOLUNTARY", "LAZY", "RT", "")
    names = ("none", "voluntary", "lazy", "real-time", "full")
    for model, name in zip(models, names, strict=True):
        if config.get(f"CONFIG_PREEMPT_{model}".rstrip("_")) == "y":
            dynamic = config.get("CONFIG_PREEMPT_DYNAMIC") == "y"
            return f"{name}, to be changed at boot (PREEMPT_DYNAMIC)" if dynamic else name
    return "none"
