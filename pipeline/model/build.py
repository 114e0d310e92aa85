"""Builds, and how they fail."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class LostSymbol:
    """A requested kconfig symbol that the final .config does not have as asked for."""

    symbol: str
    wanted: str
    got: str
    fragment: str
    reason: str  # the unmet dependency, or that the tree does not know the symbol

    def __str__(self) -> str:
        return (
            f"{self.symbol}={self.wanted} (fragment {self.fragment}) is {self.got}: {self.reason}"
        )


@dataclass(frozen=True, kw_only=True)
class ConfigFailure:
    """The configuration of this tree could not be made or lost symbols.

    `unsupported`: a fragment says itself that it is not for such a tree.
    """

    kernel: str
    lost: tuple[LostSymbol, ...]
    words: str
    log: Path
    unsupported: bool = False

    @property
    def what(self) -> str:
        """The lost symbols with their reasons, or the words of what went wrong."""
        return "; ".join(map(str, self.lost)) or self.words

    def __str__(self) -> str:
        return f"{self.kernel} cannot be configured: {self.what}"


@dataclass(frozen=True, kw_only=True)
class Build:
    """A built kernel. `folder` is its cache entry; `image` and `config` lie in it.

    `modules` is a cpio archive (newc, uncompressed) with /lib/modules, None where there are
    none. `how` tells in words what was done: "cached", "clean build", "increment on base".
    `slower`, `cmdline` and `reserves`: how many times as long a guest may take, the kernel
    arguments that it takes, and the share of its memory that is gone, by what the fragments say.
    """

    kernel: str
    architecture: str
    key: str
    folder: Path
    image: Path
    vmlinux: Path
    config: Path
    modules: Path | None
    log: Path
    release: str
    compiler: str
    sandboxed: bool
    seconds: float
    how: str
    slower: float = 1.0
    cmdline: tuple[str, ...] = ()
    reserves: float = 0.0


@dataclass(frozen=True, kw_only=True)
class BuildFailure:
    """The first error of a build that broke, where it is, and the log."""

    kernel: str
    architecture: str
    error: str
    file: str
    line: int | None
    log: Path
    ended: bool = True  # make came to its end; False where it was cut at its deadline

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.line else f"{self.file}: " if self.file else ""
        return f"{self.kernel} does not build for {self.architecture}: {where}{self.error}"
