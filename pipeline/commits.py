"""Commits of a repository, listed with what they change; renames are not looked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pipeline.diffs import SYMLINK, Change
from pipeline.faithful import Commit
from pipeline.repository import Git

FORMAT = "%x01%H%x02%s%x02%an%x02%ae%x02"
GONE = "000000"


def between(at: Git, on: str, tip: str) -> tuple[Commit, ...]:
    """The commits of `on..tip`, oldest first, with their lines, modes and symbolic links."""
    listing = at.output(
        "log", "--reverse", "--topo-order", "--raw", "--numstat", "--no-abbrev", "--no-renames",
        "--no-textconv", "--no-ext-diff", "-m", "--first-parent", "-z", f"--format={FORMAT}",
        f"{on}..{tip}", "--",
    )  # fmt: skip
    return tuple(_with_links(at, *read) for read in read_listing(listing))


def read_listing(listing: bytes) -> Iterator[tuple[Commit, dict[str, str]]]:
    """The commits of `git log -z --raw --numstat`, and the blobs of their symbolic links."""
    text = listing.decode("utf-8", errors="surrogateescape")
    for record in text.split("\x01")[1:]:
        commit, subject, author, email, rest = record.split("\x02", 4)
        lines: dict[str, tuple[int, int] | None] = {}
        modes: dict[str, str] = {}
        links: dict[str, str] = {}
        blobs: dict[str, tuple[str, str]] = {}
        words = iter(rest.split("\0"))
        for raw in words:
            word = raw.lstrip("\n")
            if word.startswith(":"):
                _, mode, old, blob, _ = word[1:].split(" ")
                path = next(words)
                blobs[path] = (old, blob)
                modes[path] = "" if mode == GONE else mode
                if mode == SYMLINK:
                    links[path] = blob
            elif word.count("\t") >= 2:
                added, gone, path = word.split("\t", 2)
                lines[path] = None if added == "-" else (int(added), int(gone))
        yield (
            Commit(
                id=commit, author=author, email=email, subject=subject,
                files=tuple(modes), lines=lines, modes=modes, blobs=blobs,
            ),
            links,
        )  # fmt: skip


def _with_links(at: Git, commit: Commit, blobs: dict[str, str]) -> Commit:
    targets = {
        path: at.output("cat-file", "blob", blob).decode("utf-8", errors="surrogateescape")
        for path, blob in blobs.items()
    }
    return replace(commit, links=targets)


def as_changes(commits: Sequence[Commit]) -> tuple[tuple[int, tuple[Change, ...]], ...]:
    """What the commits do to each file, by their number, from git's listing of them."""
    return tuple(
        (
            number,
            tuple(
                Change(
                    old="" if mode else path,
                    new=path if mode else "",
                    new_mode=mode,
                    content=commit.links.get(path, ""),
                )
                for path, mode in commit.modes.items()
            ),
        )
        for number, commit in enumerate(commits, start=1)
    )
