"""A repository of the user's: found and read as git does, without running git in it."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Source:
    """A repository of the user: `git_dir` knows HEAD, `common_dir` objects and branches.

    They differ in a linked worktree. `work_tree`: where its files lie, None for a bare one.
    """

    git_dir: Path
    common_dir: Path
    work_tree: Path | None = None

    @property
    def objects(self) -> Path:
        return self.common_dir / "objects"


def find(path: Path) -> Source | None:
    """The repository at or above `path`, found as git does but without running it."""
    start = path.resolve()
    for folder in (start, *start.parents):
        for candidate in (folder / ".git", folder):
            git_dir = _follow(candidate)
            if git_dir and (source := _as_source(git_dir)):
                inside = candidate.name == ".git" and candidate != folder
                return replace(source, work_tree=folder if inside else None)
    return None


def kernel_tree_around(folder: Path) -> Path | None:
    """The kernel tree that a folder lies in; None where it lies in none."""
    for each in (folder, *folder.parents):
        if (each / "Kconfig").is_file() and (each / ".git").exists():
            return each
    return None


def _follow(candidate: Path) -> Path | None:
    """The git folder that `.git` is or, as a file in a linked worktree or submodule, names."""
    if candidate.is_dir():
        return candidate
    if candidate.name != ".git" or not candidate.is_file():
        return None
    key, _, target = candidate.read_text(errors="surrogateescape").rstrip("\n").partition(": ")
    return (candidate.parent / target).resolve() if key == "gitdir" and target else None


def _as_source(git_dir: Path) -> Source | None:
    common = git_dir
    with suppress(FileNotFoundError, NotADirectoryError):
        text = (git_dir / "commondir").read_text(errors="surrogateescape").rstrip("\n")
        common = (git_dir / text).resolve()
    whole = (git_dir / "HEAD").is_file() or (git_dir / "HEAD").is_symlink()
    if not whole or not (common / "objects").is_dir():
        return None
    return Source(git_dir=git_dir.resolve(), common_dir=common)


def object_folders(objects: Path, depth: int = 5) -> tuple[Path, ...]:
    """An object folder and those it borrows from itself, as absolute paths, each once."""
    found = [objects]
    with suppress(FileNotFoundError):
        text = (objects / "info" / "alternates").read_text(errors="surrogateescape")
        for line in text.splitlines() if depth else ():
            if line and not line.startswith("#"):
                lender = Path(os.path.normpath(objects / line))
                # git only warns of a lender that is gone (link_alt_odb_entry() in object-file.c).
                lenders = object_folders(lender, depth - 1) if lender.is_dir() else ()
                found += [folder for folder in lenders if folder not in found]
    return tuple(found)


def is_partial(source: Source) -> bool:
    """Whether it is a partial clone, whose missing objects only its remote has."""
    return any(
        next(folder.glob("pack/*.promisor"), None) for folder in object_folders(source.objects)
    )
