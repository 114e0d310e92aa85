"""Whether the commits say what the mails say. Pure.

Three witnesses are held against each other: what a mail claims (its diffstat, author and
subject), what its diff does, and what came out in the tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline import diffs
from pipeline.diffs import Change
from pipeline.model import Patch, Series
from pipeline.pathsafety import visible

MOST_FILES = 4  # named in one finding


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A commit as it came out in the tree, listed without renames.

    `lines`: (insertions, deletions) by path; None for a binary file. `modes`: of each file
    after it, "" where it went. `links`: where its symbolic links lead. `blobs`: full ids of
    each file before and after it, of zeros where there is none.
    """

    id: str
    author: str
    email: str
    subject: str
    files: tuple[str, ...] = ()
    lines: Mapping[str, tuple[int, int] | None] = field(default_factory=dict)
    modes: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    blobs: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def compare(series: Series, commits: Sequence[Commit]) -> tuple[str, ...]:
    """What differs between a series' mails and its commits, in words; empty where all agrees."""
    found = []
    if len(commits) != len(series.patches):
        found.append(f"{len(series.patches)} patches gave {len(commits)} commits")
    for patch, commit in zip(series.patches, commits, strict=False):
        found += [f"patch {patch.number}: {words}" for words in _of_one(patch, commit)]
    return tuple(found)


def claims(series: Series) -> tuple[str, ...]:
    """What differs within the mails alone: their diffstats and their diffs."""
    return tuple(
        f"patch {patch.number}: {words}"
        for patch in series.patches
        if patch.mail
        for words in _against_claim(patch, diffs.of_mail(patch.mail))
    )


def _of_one(patch: Patch, commit: Commit) -> Iterator[str]:
    for what, told, got in (
        ("author", patch.author, commit.author),
        ("address", patch.email, commit.email),
        ("subject", patch.subject, commit.subject),
    ):
        if _folded(told) != _folded(got):
            yield f"its {what} is “{visible(told)}”, the commit's “{visible(got)}”"
    if patch.mail:
        yield from _against_diff(diffs.of_mail(patch.mail), commit)


def _folded(text: str) -> str:
    return " ".join(text.split())


def _against_diff(changes: Sequence[Change], commit: Commit) -> Iterator[str]:
    told = {path for change in changes for path in change.paths}
    # A file that a mail changes in two places, or back again, still is one that it changes.
    if lacking := sorted(told - set(commit.files)):
        yield f"its diff has {_named(lacking)}, the commit has not"
    if more := sorted(set(commit.files) - told):
        yield f"the commit changes {_named(more)}, its diff does not"
    for path, counts in _counted(changes).items():
        got = commit.lines.get(path)
        if got is not None and got != counts:
            yield (
                f"its diff has {_signed(counts)} lines in {visible(path)}, "
                f"the commit {_signed(got)}"
            )
    yield from _against_index(changes, commit)


def _against_index(changes: Sequence[Change], commit: Commit) -> Iterator[str]:
    """Hold the files that came out against what the index lines name them.

    A diff that was changed on the way, or by hand, still may apply. Where a file was not as the
    index line says before (a merge, another base) its name after cannot be told; a new text file
    was held against its name when the mail was read.
    """
    times = Counter(change.path for change in changes)
    for change in changes:
        before = commit.blobs.get(change.old, ("", ""))[0]
        after = commit.blobs.get(change.new, ("", ""))[1]
        stood = bool(change.old_blob) and before.startswith(change.old_blob)
        fresh = not change.old and change.binary
        sure = (stood or fresh) and change.new_blob and not change.copied
        if sure and times[change.path] == 1 and not after.startswith(change.new_blob):
            yield (
                f"{visible(change.path)} is not what its index line names: "
                "the diff was changed on the way, or edited by hand"
            )


def _counted(changes: Sequence[Change]) -> dict[str, tuple[int, int]]:
    """Lines of the files of which a diff has all that is changed."""
    unsure = {path for each in changes if not each.exact for path in (each.old, each.new)}
    counts: dict[str, tuple[int, int]] = {}
    for each in changes:
        if each.path not in unsure:
            before = counts.get(each.path, (0, 0))
            counts[each.path] = (before[0] + each.insertions, before[1] + each.deletions)
    return counts


def _against_claim(patch: Patch, changes: Sequence[Change]) -> Iterator[str]:
    claimed = patch.claimed
    if claimed is None:
        return
    # git counts a file once, whatever became of its name.
    files = len(dict.fromkeys(change.path for change in changes))
    lines = (sum(each.insertions for each in changes), sum(each.deletions for each in changes))
    if claimed.files != files:
        yield f"its diffstat says {_count(claimed.files)}, its diff has {files}"
    if (claimed.insertions, claimed.deletions) != lines:
        said = (claimed.insertions, claimed.deletions)
        yield f"its diffstat says {_signed(said)} lines, its diff has {_signed(lines)}"
    counts = _counted(changes)
    for written, changed in claimed.lines.items():
        path = diffs.unquoted(written)
        if path in counts and sum(counts[path]) != changed:
            yield (
                f"its diffstat says {changed} lines in {visible(path)}, "
                f"its diff has {sum(counts[path])}"
            )
        elif path not in counts and not any(path in (c.old, c.new) for c in changes):
            yield f"its diffstat names {visible(path)}, its diff does not"


def _count(files: int) -> str:
    return "1 file" if files == 1 else f"{files} files"


def _signed(counts: tuple[int, int]) -> str:
    return f"+{counts[0]} -{counts[1]}"


def _named(paths: Sequence[str]) -> str:
    shown = ", ".join(visible(path) for path in paths[:MOST_FILES])
    rest = len(paths) - MOST_FILES
    return f"{shown} and {rest} more" if rest > 0 else shown
