"""Ranges and branches of a tree as series: commits that need not be applied."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline import tree as trees
from pipeline.errors import UserError
from pipeline.model import Patch, Series, Tree
from pipeline.repository import Git
from pipeline.scope import Scope

MOST_COMMITS = 1000
MARKER = "--- b4-submit-tracking ---"
"""In the cover letter that `b4 prep` keeps as a commit, before its JSON (b4/ez.py)."""


@dataclass(frozen=True, kw_only=True)
class Cover:
    """The cover commit of a `b4 prep` branch."""

    commit: str
    revision: int
    change_id: str
    prerequisites: tuple[str, ...]
    subject: str


def is_branch(tree: Tree, name: str, *, scope: Scope) -> bool:
    """Whether the tree has a branch, its own or a remote's, of that name."""
    at = trees.names_at(tree, scope)
    return bool(name) and any(
        at.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{prefix}{name}").ok
        for prefix in ("refs/heads/", "refs/remotes/")
    )


def read_range(tree: Tree, text: str, *, scope: Scope | None = None) -> tuple[Tree, Series, str]:
    """The commits `A..B`, or `B` alone for those since the tree's base.

    Of a `b4 prep` branch, B alone is what follows its cover letter. Returns the tree with
    its base set to where B branched off from A, the series that describes the commits
    (oldest first), and B's commit id.

    Raises:
        UserError: an unknown revision, an empty range, histories that do not meet.
    """
    if "..." in text:
        raise UserError(f"“{text}” is not a range", hint="write it with two dots: A..B")
    scope = scope or Scope()
    names = trees.names_at(tree, scope)
    low, dots, high = text.rpartition("..")
    start = trees.resolve(names, low or "HEAD", where=tree.name) if dots else tree.base
    tip = trees.resolve(names, high or "HEAD", where=tree.name)
    at = Git(git_dir=tree.repository, scope=scope)
    cover = None if dots else find_cover(at, tip)
    base = _merge_base(at, start, tip, text)
    if cover and _starts_at(at, cover, base, tip):
        base = at.text("rev-parse", "--verify", f"{cover.commit}^")
    commits = at.text("rev-list", "--reverse", "--topo-order", f"{base}..{tip}").split()
    commits = [each for each in commits if not cover or each != cover.commit]
    if not commits:
        raise UserError(
            f"there are no commits in {text if dots else f'{tree.base[:12]}..{text}'}",
            hint=f"for the one commit, write {high or 'HEAD'}^..{high or 'HEAD'}",
        )
    series = _as_prepared(_describe(at, commits, text, tree), cover, base)
    return trees.at_commit(tree, base, scope=scope), series, tip


def _merge_base(at: Git, start: str, tip: str, text: str) -> str:
    reply = at.run("merge-base", start, tip)
    if reply.ok:
        return reply.text
    shallow = (at.git_dir / "shallow").is_file()
    raise UserError(
        f"the two sides of {text} have no common ancestor",
        hint="the clone is shallow: git fetch --unshallow" if shallow else "check both names",
    )


def _describe(at: Git, commits: Sequence[str], text: str, tree: Tree) -> Series:
    shown = commits[-MOST_COMMITS:]
    listing = at.output(
        "log", "--no-walk=unsorted", "--stdin", "--name-only", "--no-renames", "-m",
        "--first-parent", "-z", "--format=%x01%H%x02%s%x02%an%x02%ae%x02",
        stdin="\n".join(shown).encode(),
    )  # fmt: skip
    patches = read_commits(listing, first=len(commits) - len(shown) + 1)
    left_out = len(commits) - len(shown)
    notes = (f"the first {left_out} commits are not listed",) if left_out else ()
    return Series(
        name=trees.slug(text), origin=f"{text} in {tree.name}", patches=patches, notes=notes
    )


def read_commits(listing: bytes, *, first: int = 1) -> tuple[Patch, ...]:
    """Patches from `git log -z --name-only` with \\1 before each commit and \\2 between fields."""
    patches = []
    records = listing.decode("utf-8", errors="surrogateescape").split("\x01")[1:]
    for number, record in enumerate(records, start=first):
        commit, subject, author, email, rest = record.split("\x02", 4)
        files = tuple(name for name in rest.strip("\n").replace("\n", "\0").split("\0") if name)
        patches.append(
            Patch(
                number=number, subject=subject, author=author, email=email,
                files=files, commit=commit,
            )
        )  # fmt: skip
    return tuple(patches)


# --------------------------------------------------------------------------- b4 prep


def find_cover(at: Git, tip: str) -> Cover | None:
    """The newest cover commit among the last commits of a branch, None where it is no prep branch.

    b4 keeps it as an empty commit before the patches, or behind them.
    """
    listing = at.run(
        "log", f"--max-count={MOST_COMMITS}", "--first-parent", "--no-merges", "--fixed-strings",
        f"--grep={MARKER}", "-z", "--format=%H%x02%B", tip, "--",
    )  # fmt: skip
    for record in listing.text.split("\0") if listing.ok else ():
        commit, _, message = record.partition("\x02")
        if (cover := read_cover(commit, message)) and _is_empty(at, commit):
            return cover
    return None


def _starts_at(at: Git, cover: Cover, base: str, tip: str) -> bool:
    """Whether the series is what follows the cover: not where that is the last commit, nor where
    a base was named between the two."""
    if cover.commit == tip:
        return False
    return base == tip or not at.run("merge-base", "--is-ancestor", cover.commit, base).ok


def _is_empty(at: Git, commit: str) -> bool:
    return at.run("diff-tree", "--quiet", f"{commit}^", commit).ok


def read_cover(commit: str, message: str) -> Cover | None:
    """A cover letter with its tracking data: JSON behind the marker, in comment lines or not."""
    text, _, tracking = message.partition(MARKER)
    plain = re.sub(r"^#.*\n?", "", tracking, flags=re.M)
    try:
        found = json.loads(plain)["series"]
        return Cover(
            commit=commit,
            revision=int(found.get("revision", 1)),
            change_id=str(found.get("change-id", "")),
            prerequisites=tuple(str(each) for each in found.get("prerequisites", ())),
            subject=text.strip().partition("\n")[0],
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _as_prepared(series: Series, cover: Cover | None, base: str) -> Series:
    if cover is None:
        return series
    words = f"a b4 prep branch ({cover.change_id}, v{cover.revision}) on {base[:12]}"
    return replace(
        series,
        version=cover.revision,
        base_commit=base,
        prerequisites=cover.prerequisites,
        notes=(*series.notes, words),
    )
