"""Programs of our own in a guest: one C file each, compiled for its architecture.

An image that names a program finds it as `programs/NAME.c` beside its image.toml, then below
vm_images/common, then in its packages. They are linked statically and at fixed addresses: a loop
that is timed should not hang on which C library the image has, or on where it was loaded.

The compiler is the host's GCC, whatever builds the kernel. Which version it is is no part of an
image's key, as little as what the mirror serves that day: all boots of a run have one image.
"""

from __future__ import annotations

import hashlib
import platform
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from pipeline import process, sandbox, schema
from pipeline.errors import InfraError
from pipeline.model import Architecture, ImageRecipe, Toolchain
from pipeline.scope import Scope
from pipeline.settings import PACKAGE, shipped_root

FOLDER = "programs"
LOG = "programs.log"
FLAGS = (
    *("-std=gnu11", "-O2", "-Wall"),
    *("-static", "-no-pie", "-fno-pie"),
    *("-s", "-Wl,--build-id=none"),
)


def sources(recipe: ImageRecipe) -> Mapping[str, Path]:
    """The programs of an image that have a C file, by name."""
    places = (
        recipe.folder / FOLDER,
        recipe.folder.parent / "common" / FOLDER,
        shipped_root() / "vm_images" / "common" / FOLDER,
    )
    found = {
        name: next((path for place in places if (path := place / f"{name}.c").is_file()), None)
        for name in recipe.programs
    }
    return {name: path for name, path in found.items() if path}


def key(found: Mapping[str, Path]) -> Iterable[str]:
    """What decides how they come out, a line each; nothing where there are none."""
    for name, path in sorted(found.items()):
        yield f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()} {' '.join(FLAGS)}"


def build(
    found: Mapping[str, Path], architecture: Architecture, *, into: Path, scope: Scope
) -> Mapping[str, Path]:
    """Compile them in the folder `into`, where the log lies besides; some 0.3 s each.

    Raises:
        InfraError: the compiler is not there, or cannot make sense of one.
    """
    if not found:
        return {}
    program, hint = compiler(architecture)
    made: dict[str, Path] = {}
    for name, path in found.items():
        made[name] = into / name
        argv = (program, *FLAGS, "-o", made[name], path.name)
        # Seen from its folder, so that no path of this host gets into it.
        completed = process.run(
            argv, cwd=path.parent, scope=scope, log=into / LOG, env=sandbox.ENVIRONMENT
        )
        process.check(completed, f"{program} for {path}", hint=hint)
    return made


def add(made: Mapping[str, Path], archive: Path) -> None:
    """Append compiled programs to a system as a tar file, among its own programs."""
    with tarfile.open(archive, "a") as system:
        for name, path in made.items():
            entry = tarfile.TarInfo(f"./usr/bin/{name}")
            entry.mode, entry.size = 0o755, path.stat().st_size
            with path.open("rb") as content:
                system.addfile(entry, content)


def compiler(architecture: Architecture, machine: str = "") -> tuple[str, str]:
    """GCC for it on a host whose `uname -m` is `machine`, and what to do where it does not work.

    Raises:
        InfraError: GCC as it is shipped knows no such target.
    """
    toolchain = schema.read(PACKAGE / "data" / "toolchains" / "gcc.toml", Toolchain, name="gcc")
    if (machine or platform.machine()) in architecture.machines:
        return toolchain.probe.get(architecture.name, "gcc"), "sudo apt-get install gcc libc6-dev"
    if architecture.name not in toolchain.compilers:
        raise InfraError(f"there is no compiler for guest programs of {architecture.name}")
    package = toolchain.packages.get(architecture.name, "")
    library = f"libc6-dev-{architecture.debian_arch}-cross"
    return toolchain.compilers[
        architecture.name
    ] + "gcc", f"sudo apt-get install {package} {library}"
