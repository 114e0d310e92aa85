"""The make command lines of a kernel build, and the script that repeats them. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline import kconfig
from pipeline.compiler import Compiler
from pipeline.model import Architecture

# Part of every key: raise it when what is made from the same input changes.
VERSION = "2"

# What would differ from one build of the same source to the next.
ENVIRONMENT: Mapping[str, str] = {
    "KBUILD_BUILD_USER": "ktrial",
    "KBUILD_BUILD_HOST": "ktrial",
    "KBUILD_BUILD_VERSION": "1",
    "KBUILD_BUILD_TIMESTAMP": "Sat Jan  1 00:00:00 UTC 2000",
    # Set but empty: no "+" for a tree that is not at a tag.
    "LOCALVERSION": "",
}
FRAGMENTS = Path("/fragments")
MODULES = "modules"
LINE_TABLES = "-g1"  # with inlined functions, without variables and types: 40 % of -g
INSTALLED = ".ktrial-modules"
ARCHIVE = "modules.cpio"
PACK = f"find lib/* | LC_ALL=C sort | cpio --quiet --reproducible -R 0:0 -o -H newc > ../{ARCHIVE}"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How make is called for one architecture, toolchain and pair of paths."""

    architecture: Architecture
    compiler: Compiler
    source: Path
    build: Path
    jobs: int

    def make(self, *targets: str) -> tuple[str, ...]:
        return (
            *("make", "-C", str(self.source), f"O={self.build}"),
            f"ARCH={self.architecture.kernel_arch}",
            f"CROSS_COMPILE={self.compiler.prefix}",
            *self.compiler.make,
            *targets,
        )

    def configure(
        self, fragments: Sequence[Path], *, base: str = kconfig.TINY, seed: int = 0
    ) -> tuple[tuple[str, ...], ...]:
        """`base`, the fragments on top by the tree's own script, dependencies solved."""
        config = str(self.build / ".config")
        merge = str(self.source / "scripts/kconfig/merge_config.sh")
        seeds = (f"KCONFIG_SEED={seed}",) if base == kconfig.RANDOM else ()
        made = self.make(*seeds, base)
        if not fragments:
            return (made,)
        return (
            made,
            ("sh", merge, "-m", "-O", str(self.build), config, *map(str, fragments)),
            self.make("olddefconfig"),
        )

    def compile(self, config: Mapping[str, str]) -> tuple[str, ...]:
        """make for the image, and the modules where the configuration has any."""
        targets = (self.architecture.image_target, *((MODULES,) if wants_modules(config) else ()))
        return self.make(f"-j{self.jobs}", *_flags(config), *targets)

    def pack_modules(self) -> tuple[tuple[str, ...], ...]:
        """Install the modules and make a cpio archive of them.

        Without an entry for `lib` itself: where that is a link in the guest's image, an
        entry of another type would replace it (clean_path() in init/initramfs.c).
        """
        root = self.build / INSTALLED
        return (
            ("rm", "-rf", str(root)),
            self.make(f"INSTALL_MOD_PATH={root}", "modules_install"),
            ("sh", "-c", f"cd {shlex.quote(str(root))} && {PACK}"),
        )


def _flags(config: Mapping[str, str]) -> tuple[str, ...]:
    """Line tables for the names of files and lines in a report; they change no instruction."""
    return () if config.get("CONFIG_DEBUG_INFO") == "y" else (f"KCFLAGS={LINE_TABLES}",)


def wants_modules(config: Mapping[str, str]) -> bool:
    """Whether a configuration has anything that is built as a module."""
    return config.get("CONFIG_MODULES") == "y" and "m" in config.values()


def render_script(recipe: Recipe, config: Mapping[str, str]) -> str:
    """build.sh: the same build with nothing but the tree, the config beside it, and make."""
    here = Recipe(
        architecture=recipe.architecture,
        compiler=recipe.compiler,
        source=Path("$tree"),
        build=Path("$folder"),
        jobs=recipe.jobs,
    )
    exports = "".join(
        f"export {name}={shlex.quote(value)}\n" for name, value in ENVIRONMENT.items()
    )
    return f"""#!/bin/sh
# Builds this kernel again: sh build.sh TREE [FOLDER]
# It runs the Makefiles of TREE on this host, as you, without the sandbox that ktrial builds
# in: only for a tree, with its patches, that you trust.
# Compiler then: {recipe.compiler.version}
set -eu
tree=$(realpath "${{1:?the kernel tree}}")
folder=$(realpath -m "${{2:-build}}")
mkdir -p "$folder"
cp "$(dirname "$0")/config" "$folder/.config"
{exports}{_shell(here.make("olddefconfig"))}
{_shell(here.compile(config))}
{_pack(here) if wants_modules(config) else ""}echo "$folder/{recipe.architecture.image_path}"
"""


def _pack(here: Recipe) -> str:
    remove, install, _ = here.pack_modules()
    root = here.build / INSTALLED
    return f'{_shell(remove)}\n{_shell(install)}\n(cd "{root}" && {PACK})\n'


def _shell(words: Sequence[str]) -> str:
    """A command line in which only $tree and $folder are left to the shell."""
    return " ".join(f'"{word}"' if "$" in word else shlex.quote(word) for word in words)
