"""Builds, and how they fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Diagnostic:
    """What a compiler or a checker says of a place in the source.

    `kind`: the option or type that it goes by (“-Wunused-variable”, “WARNING:LINE_SPACING”).
    Two are the same where all but `line` is.
    """

    tool: str  # "compiler", or the name of a check
    file: str
    line: int
    function: str
    text: str
    kind: str = ""

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        return self.tool, self.file, self.function, self.kind, self.text

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" + (f" ({self.function})" if self.function else "")
        return f"{where}: {self.text}" + (f" [{self.kind}]" if self.kind else "")


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
    `digest` is of all that a guest boots (image and modules): where two are equal, so are the
    kernels. `warnings`: all of the compiler's for the whole kernel, None where nobody knows.
    `workspace`: the folder that make worked in, as long as the run lasts. `facts`: what a reader of
    times must know of the configuration, by name ("preemption": "full").
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
    digest: str = ""
    warnings: tuple[Diagnostic, ...] | None = None
    workspace: Path | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    programs: Path | None = None  # a cpio archive of programs built from the tree, for workloads


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


class ChangeKind(Enum):
    """What differs between two kernels, from nothing to everything."""

    NOTHING = "nothing"
    LINES = "only line numbers"
    STRINGS = "only strings"
    UNKNOWN = "unknown"  # nothing but lines or strings was seen, and not all was looked at
    CODE = "code or data"


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a series changed in a kernel. `files`, `functions` and `data` (variables and types):
    where, as far as it is known. `left`: objects with changed files that were not looked at."""

    kind: ChangeKind
    files: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    left: int = 0


@dataclass(frozen=True, kw_only=True)
class HiddenLines:
    """Changed lines that the preprocessor dropped. `by`: the condition, as the source has it;
    `options`: settings that would bring them in, such as "CONFIG_NUMA=y"."""

    lines: tuple[int, ...]
    by: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ChangedFile:
    """A file of a series in one target. Lines are those of the patched file.

    `compiled`: changed lines that the compiler saw. `why`: of a file that is not built at all
    ("of another architecture: arm64", "obj-$(CONFIG_X)"), with the `options` that would build it.
    `left`: objects that the file is in too, and that were not looked at.
    """

    path: str
    compiled: tuple[int, ...] = ()
    hidden: tuple[HiddenLines, ...] = ()
    not_built: tuple[int, ...] = ()
    why: str = ""
    options: tuple[str, ...] = ()
    left: int = 0


@dataclass(frozen=True, kw_only=True)
class Examination:
    """What a series comes to in one target: what it changed in the kernel, which of its lines
    were compiled."""

    change: Change
    files: tuple[ChangedFile, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Cover:
    """`symbols`: what a configuration needs that compiles what no target does, "n" for unset.
    `conflicts`: symbols that two places want otherwise, in words: one kernel cannot have both,
    so the first stays. `beyond`: lines that no setting is known for, by file."""

    symbols: Mapping[str, str]
    conflicts: tuple[str, ...] = ()
    beyond: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Covered:
    """What came of a configuration with the lines that no target compiles.

    `lost`: settings that the tree does not give. `examination`: which lines it compiles; None
    where there is no such kernel, and `problem` tells why ("": nothing was to be brought in).
    `seconds`: of its build.
    """

    cover: Cover
    lost: tuple[LostSymbol, ...] = ()
    examination: Examination | None = None
    problem: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Bytes of a kernel in memory: code and constants, what has values to begin with, the rest."""

    text: int
    data: int
    bss: int


@dataclass(frozen=True, kw_only=True)
class Growth:
    """How the size of a kernel changed. `added` and `taken`: bytes of all symbols that grew, and of
    those that shrank, `changed` in number. `symbols`: name, bytes before and after, of those that
    changed by the most."""

    before: Sizes
    after: Sizes
    added: int = 0
    taken: int = 0
    changed: int = 0
    symbols: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A kernel held against the one below it. `identical`: bit for bit, image and modules.

    `growth`: None where nobody knows the sizes.
    """

    below: str
    identical: bool
    growth: Growth | None = None


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What a check says of a kernel that it did not say of the one below (`new`).

    `problem`: why it could not be made here (no such program, no such script in the tree).
    `left_out`: changed files that were not read, or not in full, and why. `read`: how many
    objects or patches were.
    """

    check: str
    new: tuple[Diagnostic, ...] = ()
    old: int = 0  # how many the kernel below has
    problem: str = ""
    log: Path | None = None
    left_out: tuple[str, ...] = ()
    read: int = 0


@dataclass(frozen=True, kw_only=True)
class Verified:
    """Whether an incremental build is, bit for bit, what a clean one of the same commit gives.
    `differing`: files that are not."""

    differing: tuple[str, ...] = ()
    seconds: float = 0.0
    log: Path | None = None
