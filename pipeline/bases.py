"""On which commit of a tree a series is tried: what was asked for, what its trailers say, or the
newest commit that has every file as the patches have it before them (as `b4` guesses)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline import blobguess, diffs, tree
from pipeline.model import ApplyFailure, KernelPlan, Role, Series, Tree
from pipeline.pathsafety import visible
from pipeline.repository import Git
from pipeline.scope import Scope
from pipeline.tree import Applied

MOST_BETWEEN = 500  # commits whose patch-ids are made
OBJECT = re.compile(r"[0-9a-f]{7,64}")
CHANGE_ID = re.compile(rb"^change-id:\s*(\S+)\s*$", re.M | re.I)
MAILS = ("message-id", "change-id")

WISHED, TRAILER, ON_TOP, BLOBS, HEAD = "--base", "base-commit", "prerequisites", "blobs", "tree"


@dataclass(frozen=True, kw_only=True)
class BaseChoice:
    """A commit on which a series may be tried, and the rule that chose it.

    `rule`: "--base", "base-commit", "prerequisites" (the base-commit with prerequisites that the
    tree has), "blobs", or "tree" (where the tree stands). `words` tell the rule with its
    commit; `missing` what a better rule wanted and did not find.
    """

    commit: str
    rule: str
    words: str
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Given:
    """Prerequisites that were handed over with a series, and the names they have (`names_of`)."""

    series: Series
    names: frozenset[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Settled:
    """A series on the base that was taken; `result` is on the first one where none will do.

    `tree` stands at that base, `on` is what the series was applied on: the base, with the
    given prerequisites on top. `problems`: what was passed over, what was missing.
    """

    choice: BaseChoice
    tree: Tree
    on: str
    result: Applied | ApplyFailure
    problems: tuple[str, ...]


def prerequisites(series: Series) -> tuple[tuple[str, str], ...]:
    """(kind, value) of each, such as ("patch-id", "5f3c…") or ("change-id", "name:v2")."""
    pairs = (each.partition(":") for each in series.prerequisites)
    return tuple((kind.strip().lower(), value.strip()) for kind, _, value in pairs)


def choices(
    opened: Tree, series: Series, *, wished: bool, given: Given | None = None, scope: Scope
) -> tuple[BaseChoice, ...]:
    """The commits on which to try a series, the first that applies to be taken.

    `wished`: the tree's base is what the user asked for with --base. That comes first, and
    after it only what the sender names: a guess does not outrank the user.
    `given`: prerequisites that were handed over with the series.
    """
    at = Git(git_dir=opened.repository, scope=scope)
    stands = BaseChoice(
        commit=opened.base,
        rule=WISHED if wished else HEAD,
        words=f"{opened.base[:12]}, {'as asked with --base' if wished else 'where the tree is'}",
    )
    named = _named(at, series, opened.base, given)
    found = [named] if named.commit else []
    if wished:
        found.insert(0, stands)
    else:
        guess, why = _guessed(at, opened, series)
        words = f"{stands.words}; {why}" if why else stands.words
        found += [*([guess] if guess else []), replace(stands, words=words)]
    once = {choice.commit: choice for choice in reversed(found)}
    unique = [choice for choice in found if once[choice.commit] is choice]
    return (replace(unique[0], missing=named.missing), *unique[1:])


def without_history(series: Series, given: Given | None, name: str) -> tuple[str, ...]:
    """What a series' trailers ask for that a tree of one commit cannot have."""
    wanted = prerequisites(series)
    handed = asked_for(wanted, given.names) if given else frozenset()
    base = f"base-commit {visible(series.base_commit)} is not in {name}"
    return (
        *((base,) if series.base_commit else ()),
        *(
            f"prerequisite {kind} {visible(value)} is neither in {name} nor among what was given"
            for kind, value in wanted
            if (kind, value) not in handed
        ),
    )


# --------------------------------------------------------------------------- trailers


def _named(at: Git, series: Series, tip: str, given: Given | None) -> BaseChoice:
    """What the trailers say; without a commit where the tree does not have it."""
    wanted = prerequisites(series)
    base = _commit(at, series.base_commit)
    missing = []
    if series.base_commit and not base:
        missing.append(f"base-commit {visible(series.base_commit)} is not in the tree")
    found = _in_tree(at, wanted, base, tip) if wanted else {}
    handed = asked_for(wanted, given.names) if given else frozenset()
    for pair in wanted:
        if pair not in found and pair not in handed:
            words = f"prerequisite {pair[0]} {visible(pair[1])}"
            missing.append(f"{words} is neither in the tree nor among what was given")
    if found:
        last = next(commit for commit in _newest_first(at, tip) if commit in found.values())
        words = f"{last[:12]}, the last of {len(found)} prerequisites that the tree has"
        return BaseChoice(commit=last, rule=ON_TOP, words=words, missing=tuple(missing))
    words = f"{base[:12]}, the series' base-commit"
    return BaseChoice(commit=base, rule=TRAILER, words=words, missing=tuple(missing))


def _commit(at: Git, name: str) -> str:
    """The full id of a commit that a trailer names by its id, "" where there is none."""
    if not OBJECT.fullmatch(name):
        return ""
    reply = at.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    return reply.text if reply.ok else ""


def _newest_first(at: Git, tip: str) -> list[str]:
    return at.text("rev-list", "--topo-order", f"--max-count={MOST_BETWEEN}", tip).split()


def _in_tree(
    at: Git, wanted: Sequence[tuple[str, str]], base: str, tip: str
) -> dict[tuple[str, str], str]:
    """The commits since `base` that are prerequisites, among the last MOST_BETWEEN up to `tip`."""
    since = (f"^{base}",) if base else ()
    found: dict[tuple[str, str], str] = {}
    if any(kind == "patch-id" for kind, _ in wanted):
        ids = _patch_ids_of(at, tip, since)
        found |= {pair: ids[pair[1]] for pair in wanted if pair[1] in ids}
    for pair in wanted:
        if pair[0] in MAILS and (commit := _mentioning(at, _plain(pair)[1], tip, since)):
            found[pair] = commit
    return found


def _patch_ids_of(at: Git, tip: str, since: Sequence[str]) -> Mapping[str, str]:
    """Commits by their patch-id."""
    shown = at.output(
        "log", "--patch", "--no-merges", "--no-ext-diff", "--no-textconv", "--no-color",
        f"--max-count={MOST_BETWEEN}", tip, *since, "--",
    )  # fmt: skip
    lines = at.text("patch-id", "--stable", stdin=shown).splitlines()
    return {patch_id: commit for patch_id, _, commit in (line.partition(" ") for line in lines)}


def _mentioning(at: Git, name: str, tip: str, since: Sequence[str]) -> str:
    """The newest commit with the link of a mail, or of a change, in its message."""
    reply = at.run(
        "log", "--fixed-strings", f"--grep={name}", f"--max-count={MOST_BETWEEN}",
        "--format=%H", tip, *since, "--",
    )  # fmt: skip
    return reply.text.partition("\n")[0] if reply.ok else ""


def names_of(series: Series, texts: Sequence[bytes], *, at: Git) -> frozenset[tuple[str, str]]:
    """What a series can be asked for by as a prerequisite: the patch-ids and message-ids of its
    patches, and its change-id out of `texts`, the files that it was read from."""
    shown = [diffs.body(patch.mail) for patch in series.patches]
    ids = [
        at.text("patch-id", "--stable", stdin=text.encode(errors="surrogateescape")).split()
        for text in shown
    ]
    changes = {found[1].decode() for text in texts for found in CHANGE_ID.finditer(text)}
    return frozenset(
        (
            *(("message-id", patch.message_id.strip("<>")) for patch in series.patches),
            *(("patch-id", found[0]) for found in ids if found),
            *(("change-id", change) for change in changes),
        )
    )


def asked_for(
    wanted: Sequence[tuple[str, str]], names: frozenset[tuple[str, str]]
) -> frozenset[tuple[str, str]]:
    """Which of the prerequisites a series is, that has these names."""
    return frozenset(pair for pair in wanted if _plain(pair) in names)


def _plain(pair: tuple[str, str]) -> tuple[str, str]:
    """A prerequisite without brackets and without the version that b4 puts behind a change-id."""
    kind, value = pair
    return kind, re.sub(r":v\d+$", "", value).strip("<>") if kind in MAILS else value


def _guessed(at: Git, opened: Tree, series: Series) -> tuple[BaseChoice | None, str]:
    """The choice by blobs, or why there is none."""
    wanted = blobguess.before(series)
    if not wanted:
        return None, ""
    found = blobguess.newest_with(at, opened, wanted)
    if not found.commit:
        return None, found.why
    files = "file" if len(wanted) == 1 else "files"
    words = (
        f"{found.commit[:12]}, the newest commit that has {len(wanted)} {files} as the patches do"
    )
    return BaseChoice(commit=found.commit, rule=BLOBS, words=words), ""


# --------------------------------------------------------------------------- trying


def settle(
    opened: Tree, series: Series, *, wished: bool, given: Given | None, log: Path, scope: Scope
) -> Settled:
    """Try a series on one commit after another, and say why one was passed over.

    Raises:
        UserError: a commit that the series names is not a kernel.
    """
    found = choices(opened, series, wished=wished, given=given, scope=scope)
    told: list[str] = list(found[0].missing)
    first: tuple[str, ApplyFailure] | None = None
    for choice in found:
        on, result = _try(opened, choice, series, given, log=log, scope=scope)
        if isinstance(result, Applied):
            told += _differs(choice, found)
            return Settled(
                choice=choice,
                tree=tree.at_commit(opened, choice.commit, scope=scope),
                on=on,
                result=result,
                problems=(*told, *result.problems),
            )
        told.append(f"not on {choice.words}: {result}")
        first = first or (on, result)
    assert first is not None
    return Settled(
        choice=found[0],
        tree=tree.at_commit(opened, found[0].commit, scope=scope),
        on=first[0],
        result=first[1],
        problems=tuple(told),
    )


def _differs(taken: BaseChoice, found: Sequence[BaseChoice]) -> tuple[str, ...]:
    named = next((each for each in found if each.rule in (TRAILER, ON_TOP)), None)
    if taken.rule == WISHED and named is not None:
        return (f"tried on {taken.words}, not on {named.words}",)
    return ()


def _try(
    opened: Tree,
    choice: BaseChoice,
    series: Series,
    given: Given | None,
    *,
    log: Path,
    scope: Scope,
) -> tuple[str, Applied | ApplyFailure]:
    """The commit on which the series was tried, and what came of it."""
    on = choice.commit
    for name, each in (("prerequisite", given.series if given else None), ("patched", series)):
        if each is None:
            continue
        plan = KernelPlan(name=name, role=Role.PATCHED, series=each)
        done = tree.apply(opened, plan, on=on, log=log, scope=scope)
        if isinstance(done, ApplyFailure) or each is series:
            assert isinstance(done, Applied | ApplyFailure)
            return on, done
        on = done.commit
    raise AssertionError("a series was tried")
