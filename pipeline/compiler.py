"""Which compiler builds for an architecture on this host, and which one exactly it is."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline import process, sandbox
from pipeline.errors import InfraError, UserError
from pipeline.model import Architecture, Toolchain
from pipeline.scope import Scope


@dataclass(frozen=True, kw_only=True)
class Compiler:
    """A toolchain as found on this host. `prefix` is make's CROSS_COMPILE ("" when native)."""

    program: str
    prefix: str
    version: str  # from `--version`, with the distribution's revision where it tells
    linker: str
    make: tuple[str, ...]
    others: tuple[str, ...] = ()  # versions of the toolchain's further programs

    @property
    def identity(self) -> str:
        """What makes two compilers the same to a build."""
        return "\n".join((self.program, self.version, self.linker, *self.make, *self.others))


# What a kernel build runs or includes on the host: (symbol that asks for it, path, package).
NEEDS: tuple[tuple[str, str, str], ...] = (
    ("", "/usr/bin/make", "make"),
    ("", "/usr/bin/flex", "flex"),
    ("", "/usr/bin/bison", "bison"),
    ("CONFIG_64BIT", "/usr/bin/bc", "bc"),
    ("CONFIG_KERNEL_LZ4", "/usr/bin/lz4", "lz4"),
    ("CONFIG_KERNEL_ZSTD", "/usr/bin/zstd", "zstd"),
    ("CONFIG_KERNEL_XZ", "/usr/bin/xz", "xz-utils"),
    ("CONFIG_KERNEL_LZMA", "/usr/bin/xz", "xz-utils"),
    ("CONFIG_KERNEL_LZO", "/usr/bin/lzop", "lzop"),
    ("CONFIG_KERNEL_BZIP2", "/usr/bin/bzip2", "bzip2"),
    ("CONFIG_DEBUG_INFO_BTF", "/usr/bin/pahole", "pahole"),
    ("CONFIG_UNWINDER_ORC", "/usr/include/gelf.h", "libelf-dev"),
    ("CONFIG_OBJTOOL", "/usr/include/gelf.h", "libelf-dev"),
    ("CONFIG_SYSTEM_TRUSTED_KEYRING", "/usr/include/openssl/ssl.h", "libssl-dev"),
    ("CONFIG_MODULE_SIG", "/usr/include/openssl/ssl.h", "libssl-dev"),
    ("CONFIG_MODULES", "/usr/bin/cpio", "cpio"),
)


def prefix_of(toolchain: Toolchain, architecture: Architecture, machine: str) -> str:
    """CROSS_COMPILE for `architecture` on a host whose `uname -m` is `machine`.

    Raises:
        UserError: the toolchain does not know the architecture.
    """
    if machine in architecture.machines:
        return ""
    for key in (f"{architecture.name}-on-{machine}", architecture.name):
        if key in toolchain.compilers:
            return toolchain.compilers[key]
    raise UserError(
        f"toolchain {toolchain.name} has no compiler for {architecture.name}",
        hint=f"it has {', '.join(sorted(toolchain.compilers)) or 'none'}",
    )


def find(
    toolchain: Toolchain, architecture: Architecture, *, machine: str, scope: Scope
) -> Compiler:
    """The compiler that builds `architecture` on this host. Takes about 10 ms a program.

    Raises:
        InfraError: it is not installed; the hint names the Debian packages.
    """
    prefix = prefix_of(toolchain, architecture, machine)
    named = prefix if toolchain.prefixed else ""
    program = named + toolchain.probe.get(architecture.name, "gcc")
    package = toolchain.packages.get(architecture.name if prefix else "native", "")

    def there(name: str) -> str:
        path = shutil.which(name, path=sandbox.PATH)
        if path is None:
            raise InfraError(
                f"no compiler for {architecture.name}: {name} is not there"
                if name == program
                else f"toolchain {toolchain.name} for {architecture.name}: {name} is not there",
                hint=f"sudo apt-get install {package}" if package else "install it",
            )
        return path

    return Compiler(
        program=program,
        prefix=prefix,
        version=_version(there(program), scope),
        linker=_version(there(named + toolchain.linker), scope),
        make=toolchain.make,
        others=tuple(_version(there(named + name), scope) for name in toolchain.programs),
    )


def _version(path: str, scope: Scope) -> str:
    completed = process.run((path, "--version"), scope=scope, env=sandbox.ENVIRONMENT)
    process.check(completed, path)
    lines = [line.strip() for line in completed.text.splitlines()]
    # LLVM's name what they are compatible with first, and their version in the second line.
    return next((line for line in lines if re.search(r"\d", line)), "")


def require_host_tools(config: Mapping[str, str] | None = None) -> None:
    """Raise InfraError naming the packages whose programs and headers a build would miss.

    With `config` those too that only its symbols ask for.
    """
    missing = dict.fromkeys(
        package
        for symbol, path, package in NEEDS
        if (not symbol or (config or {}).get(symbol, "n") != "n") and not Path(path).exists()
    )
    if missing:
        raise InfraError(
            f"a kernel build needs {', '.join(missing)} on this host",
            hint=f"sudo apt-get install {' '.join(missing)}",
        )
