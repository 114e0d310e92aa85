"""The make command lines of a kernel build, and the script that repeats them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline import kconfig, sandbox
from pipeline.compiler import Compiler
from pipeline.model import Architecture

# Part of every key: raise it when what is made from the same input changes.
VERSION = "3"

# What would differ from one build of the same source to the next.
ENVIRONMENT: Mapping[str, str] = {
    "KBUILD_BUILD_USER": "ktrial",
    "KBUILD_BUILD_HOST": "ktrial",
    "KBUILD_BUILD_VERSION": "1",
    "KBUILD_BUILD_TIMESTAMP": "Sat Jan  1 00:00:00 UTC 2000",
    # Set but empty: no "+" for a tree that is not at a tag.
    "LOCALVERSION": "",
}
# Of what is around a build in the sandbox, what a build on the host needs too: with another PATH
# Kconfig may find programs (rustc, pahole) that change the configuration.
AROUND = {name: sandbox.ENVIRONMENT[name] for name in ("PATH", "LC_ALL", "TZ")}
FRAGMENTS = Path("/fragments")
MODULES = "modules"
LINE_TABLES = "-g1"  # with inlined functions, without variables and types: 40 % of -g
SYNCED = "--output-sync=target"
INSTALLED = ".ktrial-modules"
ARCHIVE = "modules.cpio"
# The archive depends on nothing but what is in the modules: no times, and none of the links that
# modules_install makes to the source and build folders.
PACK = (
    "rm -f lib/modules/*/build lib/modules/*/source && find lib -exec touch -h -d @946684800 {} + "
    "&& find lib/* | LC_ALL=C sort | cpio --quiet --reproducible -R 0:0 -o -H newc "
    f"> ../{ARCHIVE}"
)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How make is called for one architecture, toolchain and pair of paths.

    `flags`: for the compiler, besides the tree's own and line tables.
    """

    architecture: Architecture
    compiler: Compiler
    source: Path
    build: Path
    jobs: int
    flags: tuple[str, ...] = ()

    def make(self, *targets: str) -> tuple[str, ...]:
        return (
            *("make", "-C", str(self.source), f"O={self.build}"),
            f"ARCH={self.architecture.kernel_arch}",
            f"CROSS_COMPILE={self.compiler.prefix}",
            *self.compiler.make,
            *targets,
        )

    def configure(
        self,
        fragments: Sequence[Path],
        *,
        base: str = kconfig.TINY,
        seed: int = 0,
        probability: str = "",
    ) -> tuple[tuple[str, ...], ...]:
        """`base`, the fragments on top by the tree's own script, dependencies solved."""
        config = str(self.build / ".config")
        merge = str(self.source / "scripts/kconfig/merge_config.sh")
        seeds: tuple[str, ...] = (f"KCONFIG_SEED={seed}",) if base == kconfig.RANDOM else ()
        if probability:
            seeds += (f"KCONFIG_PROBABILITY={probability}",)
        made = self.make(*seeds, base)
        if not fragments:
            return (made,)
        return (
            made,
            ("sh", merge, "-m", "-O", str(self.build), config, *map(str, fragments)),
            self.make("olddefconfig"),
        )

    def compile(self, config: Mapping[str, str]) -> tuple[str, ...]:
        """make for the image, and the modules where the configuration has any.

        What a compiler says of an object comes right after that object's own line.
        """
        modules = (MODULES,) if wants_modules(config) else ()
        return self.single(config, self.architecture.image_target, *modules)

    def single(self, config: Mapping[str, str], *targets: str) -> tuple[str, ...]:
        """make for other targets (`mm/slub.i`) in a folder that `compile` has filled: with the same
        flags, so that what is there already is up to date."""
        tables = () if config.get("CONFIG_DEBUG_INFO") == "y" else (LINE_TABLES,)
        flags = " ".join((*tables, *self.flags))
        return self.make(
            f"-j{self.jobs}", SYNCED, *((f"KCFLAGS={flags}",) if flags else ()), *targets
        )

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
        # For vmlinux, whose line tables have both paths. Not -ffile-prefix-map: it would win over
        # the tree's own -fmacro-prefix-map, which cuts the path off from what __FILE__ gives.
        flags=(
            f"-fdebug-prefix-map=$tree={recipe.source}",
            f"-fdebug-prefix-map=$folder={recipe.build}",
        ),
    )
    exports = "".join(
        f"export {name}={shlex.quote(value)}\n" for name, value in {**AROUND, **ENVIRONMENT}.items()
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
config=$(realpath "$(dirname "$0")/config")
cp "$config" "$folder/.config"
unset MAKEFLAGS KCFLAGS KAFLAGS KCPPFLAGS LLVM LLVM_IAS
{exports}{_shell(here.make("olddefconfig"))}
cmp -s "$config" "$folder/.config" ||
	echo "$0: with the programs of this host the configuration comes out otherwise" >&2
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
