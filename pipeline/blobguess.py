"""The newest commit that has every file as a series' patches have it before them, as b4 guesses
a base: by the blobs that the index lines of the diffs name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline import diffs, tree
from pipeline.model import Series, Tree
from pipeline.pathsafety import visible
from pipeline.repository import Git, GitError

SEARCH_SECONDS = 20.0  # for all questions to the history
STEPS = (20, 500)  # commits that touch the files, first few and then many


def before(series: Series) -> dict[str, str]:
    """The blob (shortened) of each file that the series finds, before its first patch to it.

    Empty where an index line is missing: then nothing can be said.
    """
    found: dict[str, str] = {}
    made: set[str] = set()
    for patch in series.patches:
        for change in diffs.of_mail(patch.mail):
            fresh = change.old and change.old not in found and change.old not in made
            if fresh and change.old_blob:
                found[change.old] = change.old_blob
            elif fresh and not change.renamed and not _mode_only(change):
                return {}
            made.add(change.path)
    return found


def _mode_only(change: diffs.Change) -> bool:
    return not (change.insertions or change.deletions or change.binary)


@dataclass(frozen=True, kw_only=True)
class Guess:
    """A commit, "" where there is none: then `why` tells."""

    commit: str = ""
    why: str = ""


def newest_with(at: Git, opened: Tree, wanted: Mapping[str, str]) -> Guess:
    """The newest commit of the tree's history, else of its other branches, with these blobs."""
    scope = at.scope.child(SEARCH_SECONDS)
    try:
        return _searched(replace(at, scope=scope), opened, wanted)
    except GitError:
        if scope.expired and not at.scope.expired:
            return Guess(why=f"the history was searched for {SEARCH_SECONDS:.0f} s in vain")
        raise


def _searched(at: Git, opened: Tree, wanted: Mapping[str, str]) -> Guess:
    if _having(at, [opened.base], wanted):
        return Guess(commit=opened.base)
    if unknown := _unknown(at, wanted):
        return Guess(why=f"the tree never had {unknown} as the patches have it before them")
    for tips in ((opened.base,), _tips(opened, at)):
        for most in STEPS:
            if found := _having(at, _touching(at, tips, wanted, most), wanted):
                return Guess(commit=found)
    return Guess(why="no commit has all files as the patches have them before them")


def _unknown(at: Git, wanted: Mapping[str, str]) -> str:
    """A file whose blob the repository does not have; of a stranger's it most often has none."""
    listing = "\n".join(wanted.values()).encode() + b"\n"
    answers = at.text("cat-file", "--batch-check", stdin=listing).splitlines()
    pairs = zip(wanted, answers, strict=True)
    return next((visible(path) for path, answer in pairs if answer.endswith(" missing")), "")


def _tips(opened: Tree, at: Git) -> tuple[str, ...]:
    names = tree.names_at(opened, at.scope)
    listing = names.run("for-each-ref", "--format=%(objectname)", "refs/heads", "refs/remotes")
    known = [each for each in dict.fromkeys(listing.text.split()) if each != opened.base]
    return tuple(each for each in known if at.run("cat-file", "-e", each).ok)


def _touching(at: Git, tips: Sequence[str], wanted: Mapping[str, str], most: int) -> list[str]:
    """Commits that change the files, each with its parents, newest first.

    The newest commit with given contents is a parent of one that changes them, or a tip.
    """
    if not tips:
        return []
    listing = at.text(
        "log", "--full-history", f"--max-count={most}", "--format=%H %P", *tips, "--",
        *(f":(literal){path}" for path in wanted),
    )  # fmt: skip
    return list(dict.fromkeys([*tips, *listing.split()]))


def _having(at: Git, commits: Sequence[str], wanted: Mapping[str, str]) -> str:
    """The first of the commits that has all these blobs."""
    questions = [f"{commit}:{path}" for commit in commits for path in wanted]
    if any("\n" in question for question in questions):
        return ""
    asked = "\n".join(questions).encode("utf-8", errors="surrogateescape") + b"\n"
    answers = at.text("cat-file", "--batch-check=%(objectname)", stdin=asked).splitlines()
    size, blobs = len(wanted), list(wanted.values())
    for number, commit in enumerate(commits):
        its = answers[number * size : (number + 1) * size]
        if all(got.startswith(blob) for got, blob in zip(its, blobs, strict=True)):
            return commit
    return ""
