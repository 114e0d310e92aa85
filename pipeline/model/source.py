"""Series and trees: what is tried, on what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.model.outcome import Role


@dataclass(frozen=True, kw_only=True)
class Diffstat:
    """What a mail itself says that its patch changes. `lines`: changed lines by path, as far as
    the mail has whole paths (git shortens long ones to "…/end")."""

    files: int
    insertions: int
    deletions: int
    lines: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A mail that was given and not taken, and why."""

    subject: str
    author: str
    message_id: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Patch:
    """One patch: a mail as `git am` takes it (`mail`), or a commit that the tree has already.

    `claimed` is the mail's own diffstat, None where it has none.
    """

    number: int
    subject: str
    author: str
    email: str
    files: tuple[str, ...] = ()
    message_id: str = ""
    mail: bytes = b""
    commit: str = ""
    claimed: Diffstat | None = None


@dataclass(frozen=True, kw_only=True)
class Series:
    """Patches in the order in which they apply. `origin` is what the user named.

    `base_commit` and `prerequisites` ("patch-id: …", "change-id: …", "message-id: …") are the
    trailers of `git format-patch --base` and b4. `problems`: what a reader should know before
    trusting it, none of which keeps it from being tried. `of`: how many the whole series has,
    where these are some of them.
    """

    name: str
    origin: str
    version: int = 1
    patches: tuple[Patch, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    base_commit: str = ""
    prerequisites: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    of: int = 0

    @property
    def whole(self) -> int:
        return self.of or len(self.patches)


@dataclass(frozen=True, kw_only=True)
class TreeSpec:
    """Which tree is meant: `debian:5.10`, or a path to a git repository; and the base revision."""

    name: str
    base: str = "HEAD"

    @property
    def debian_version(self) -> str | None:
        prefix, _, version = self.name.partition(":")
        return version if prefix == "debian" else None


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A kernel tree that ktrial may write to: its own bare repository and the base commit.

    `origin` is a stable id of where it came from (one source folder per origin);
    `version` is the kernel's own (5.10.262).
    """

    name: str
    origin: str
    repository: Path
    base: str
    version: str
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class KernelPlan:
    """One kernel to be compared: base itself, or patches on top of another kernel (`on`).

    With `commit` the kernel is that commit of the tree and `series` only describes it. One that
    does not boot is built and checked alone: a commit in the middle of a series.

    With `of` it is another kernel's source under other conditions, and what follows says which:
    `configuration` (a point of the kconfig axis) in place of the cell's, further kernel arguments,
    `settings` (file in the guest -> what is written there before the workload), a `guest` shape in
    place of the cell's, and the labels of the `events` that it goes through (None: all).
    """

    name: str
    role: Role
    on: str | None = None
    series: Series | None = None
    commit: str | None = None
    boots: bool = True
    of: str | None = None
    configuration: str = ""
    cmdline: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    guest: str = ""
    events: tuple[str, ...] | None = None

    @property
    def source(self) -> str:
        """The kernel whose source this is."""
        return self.of or self.name


@dataclass(frozen=True, kw_only=True)
class Revision:
    """A kernel's source as it lies in the tree's repository. `tree_id` names the content.

    `problems`: in what the commits are not what the mails say, or how they came to apply.
    """

    kernel: str
    role: Role
    commit: str
    tree_id: str
    files_changed: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ApplyFailure:
    """A series that does not apply: which patch, which file and hunk, and git's own words."""

    kernel: str
    patch: Patch
    of: int
    file: str
    hunk: str
    words: str
    log: Path | None = None

    def __str__(self) -> str:
        where = f"{self.file}{f' at line {self.hunk}' if self.hunk else ''}"
        return (
            f"patch {self.patch.number}/{self.of} “{self.patch.subject}” does not apply"
            f"{f': {where}' if self.file else ''}"
        )


@dataclass(frozen=True, kw_only=True)
class FileTimes:
    """The modification times with which a build folder has seen its sources.

    Each file of `tree_id` has the time EPOCH (see `layout`) but for those in `later`
    (path -> ns since the epoch). Kept with the build folder: make trusts times, so a file
    whose content a folder has seen must keep its time there, and any other must be newer.
    `newest`: the latest time of a file in the build folder itself, 0 where that is unknown.
    """

    tree_id: str
    later: Mapping[str, int]
    newest: int = 0


@dataclass(frozen=True, kw_only=True)
class Sources:
    """A source tree laid out on disk, with the times that the build folder is to remember."""

    path: Path
    times: FileTimes
