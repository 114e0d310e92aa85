"""Which commit a series is tried on, in real histories."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import bases, blobguess
from pipeline.bases import Given, Settled
from pipeline.model import ApplyFailure, Series, Tree
from pipeline.repository import Git
from pipeline.scope import Scope
from pipeline.series import read_files
from pipeline.tree import Applied
from tests.integration.test_apply import edit, opened, three_ways
from tests.minikernel_repo import TAG, change, commit, format_patches, git, make_repository


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """On `main` two commits after TAG, on `topic` a patch to TAG that does not fit main's end."""
    repo = make_repository(tmp_path / "linux")
    git(repo, "checkout", "-q", "-b", "topic")
    change(repo, order=3)
    git(repo, "checkout", "-q", "main")
    (repo / "README").write_text("main goes on\n")
    commit(repo, "main goes on")
    change(repo, order=7)
    return repo


def topic(repo: Path, tmp_path: Path) -> Series:
    return read_files(format_patches(repo, f"{TAG}..topic", tmp_path / "p"), name="x")


def settle(
    tree: Tree, series: Series, tmp_path: Path, scope: Scope, *, wished: bool = False,
    given: Given | None = None,
) -> Settled:  # fmt: skip
    return bases.settle(tree, series, wished=wished, given=given, log=tmp_path / "log", scope=scope)


def at(repo: Path, revision: str) -> str:
    return git(repo, "rev-parse", revision)


def test_the_base_commit_that_the_series_names(repo: Path, tmp_path: Path, scope: Scope) -> None:
    series = replace(topic(repo, tmp_path), base_commit=at(repo, TAG)[:16])
    done = settle(opened(repo, tmp_path, scope), series, tmp_path, scope)
    assert isinstance(done.result, Applied)
    assert (done.choice.commit, done.choice.rule) == (at(repo, TAG), "base-commit")
    assert done.tree.base == at(repo, TAG)
    assert done.problems == ()


def test_the_newest_commit_that_has_the_blobs(repo: Path, tmp_path: Path, scope: Scope) -> None:
    done = settle(opened(repo, tmp_path, scope), topic(repo, tmp_path), tmp_path, scope)
    assert isinstance(done.result, Applied)
    assert (done.choice.commit, done.choice.rule) == (at(repo, "main~1"), "blobs")
    assert "newest commit that has 1 file" in done.choice.words


def test_a_base_commit_that_is_not_there_is_said(repo: Path, tmp_path: Path, scope: Scope) -> None:
    series = replace(topic(repo, tmp_path), base_commit="1" * 40)
    done = settle(opened(repo, tmp_path, scope), series, tmp_path, scope)
    assert (done.choice.commit, done.choice.rule) == (at(repo, "main~1"), "blobs")
    assert done.problems == (f"base-commit {'1' * 40} is not in the tree",)


def test_where_the_tree_stands_when_nothing_better_is_known(
    repo: Path, tmp_path: Path, scope: Scope
) -> None:
    series = topic(repo, tmp_path)
    (patch,) = series.patches
    lines = patch.mail.split(b"\n")
    bare = b"\n".join(line for line in lines if not line.startswith(b"index "))
    series = replace(series, patches=(replace(patch, mail=bare),))
    done = settle(opened(repo, tmp_path, scope, base=TAG), series, tmp_path, scope)
    assert isinstance(done.result, Applied)
    assert (done.choice.commit, done.choice.rule) == (at(repo, TAG), "tree")
    assert done.choice.words.endswith(", where the tree is")
    failed = settle(opened(repo, tmp_path, scope), series, tmp_path, scope)
    assert isinstance(failed.result, ApplyFailure)
    assert failed.choice.rule == "tree"


def test_what_is_asked_for_comes_first(repo: Path, tmp_path: Path, scope: Scope) -> None:
    tree = opened(repo, tmp_path, scope, base="main~1")
    series = replace(topic(repo, tmp_path), base_commit=at(repo, TAG))
    done = settle(tree, series, tmp_path, scope, wished=True)
    assert (done.choice.commit, done.choice.rule) == (at(repo, "main~1"), "--base")
    (told,) = done.problems
    assert told.startswith(f"tried on {at(repo, 'main~1')[:12]}, as asked with --base, not on")


def test_the_reason_is_given_where_another_is_taken(
    repo: Path, tmp_path: Path, scope: Scope
) -> None:
    tree = opened(repo, tmp_path, scope)
    series = replace(topic(repo, tmp_path), base_commit=at(repo, TAG))
    done = settle(tree, series, tmp_path, scope, wished=True)
    assert isinstance(done.result, Applied)
    assert (done.choice.commit, done.choice.rule) == (at(repo, TAG), "base-commit")
    (told,) = done.problems
    assert told.startswith(f"not on {at(repo, 'main')[:12]}, as asked with --base: patch 1/1")
    assert "mm/slub.c at line" in told


def test_a_guess_does_not_outrank_what_is_asked_for(
    repo: Path, tmp_path: Path, scope: Scope
) -> None:
    tree = opened(repo, tmp_path, scope)
    done = settle(tree, topic(repo, tmp_path), tmp_path, scope, wished=True)
    assert isinstance(done.result, ApplyFailure)
    assert (done.choice.commit, done.choice.rule) == (at(repo, "main"), "--base")


def test_a_merge_three_ways_on_the_base_that_was_asked_for(
    repo: Path, tmp_path: Path, scope: Scope
) -> None:
    series, main = three_ways(repo, tmp_path)
    done = settle(opened(repo, tmp_path, scope), series, tmp_path, scope, wished=True)
    assert isinstance(done.result, Applied)
    assert done.choice.commit == main
    assert "applied with a three-way merge" in done.problems[0]


def test_the_blobs_of_another_branch(repo: Path, tmp_path: Path, scope: Scope) -> None:
    git(repo, "checkout", "-q", "-b", "side", TAG)
    (repo / "side.c").write_text("int side;\n")
    base = commit(repo, "side")
    (repo / "side.c").write_text("long side;\n")
    commit(repo, "side: long")
    (path,) = format_patches(repo, "side~1..side", tmp_path / "p")
    git(repo, "checkout", "-q", "main")
    done = settle(opened(repo, tmp_path, scope), read_files([path], name="x"), tmp_path, scope)
    assert isinstance(done.result, Applied)
    assert (done.choice.commit, done.choice.rule) == (base, "blobs")


def test_why_nothing_was_guessed(
    repo: Path, tmp_path: Path, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = topic(repo, tmp_path)
    (patch,) = series.patches
    strange = replace(patch, mail=re.sub(rb"index [0-9a-f]+", b"index 1234567890", patch.mail))
    tree = opened(repo, tmp_path, scope, base=TAG)
    done = settle(tree, replace(series, patches=(strange,)), tmp_path, scope)
    assert isinstance(done.result, Applied)
    assert "; the tree never had mm/slub.c as the patches have it" in done.choice.words
    monkeypatch.setattr(blobguess, "SEARCH_SECONDS", 0.0)
    late = settle(opened(repo, tmp_path, scope), series, tmp_path, scope)
    assert late.choice.words.endswith("; the history was searched for 0 s in vain")


# --------------------------------------------------------------------------- prerequisites


def on_top(repo: Path, tmp_path: Path) -> tuple[Series, Series]:
    """A series, and the one on which it stands; both on TAG."""
    git(repo, "checkout", "-q", "-b", "stack", TAG)
    (repo / "one").write_text("one\n")
    commit(repo, "one")
    edit(repo, "one", {"one\n": "two\n"})
    commit(repo, "two")
    first, second = format_patches(repo, f"{TAG}..stack", tmp_path / "stack")
    git(repo, "checkout", "-q", "main")
    return read_files([second], name="two"), read_files([first], name="one")


def patch_id(series: Series, at_: Git) -> str:
    return at_.text("patch-id", "--stable", stdin=series.patches[0].mail).split()[0]


def test_prerequisites_that_the_tree_has(repo: Path, tmp_path: Path, scope: Scope) -> None:
    series, needed = on_top(repo, tmp_path)
    (repo / "one").write_text("one\n")
    has = commit(repo, "one, as picked onto main")
    (repo / "later").write_text("later\n")
    commit(repo, "later")
    git(repo, "branch", "-D", "-q", "stack")
    tree = opened(repo, tmp_path, scope)
    wanted = patch_id(needed, Git(git_dir=tree.repository, scope=scope))
    asks = replace(series, base_commit=at(repo, TAG), prerequisites=(f"patch-id: {wanted}",))
    done = settle(tree, asks, tmp_path, scope)
    assert isinstance(done.result, Applied), done
    assert (done.choice.commit, done.choice.rule, done.problems) == (has, "prerequisites", ())
    assert "last of 1 prerequisites" in done.choice.words


@pytest.mark.parametrize("by", ["patch-id", "message-id", "change-id"])
def test_prerequisites_that_were_given(repo: Path, tmp_path: Path, scope: Scope, by: str) -> None:
    series, needed = on_top(repo, tmp_path)
    tree = opened(repo, tmp_path, scope)
    mail = Git(git_dir=tree.repository, scope=scope)
    first = replace(needed, patches=(replace(needed.patches[0], message_id="one@example.org"),))
    text = first.patches[0].mail + b"change-id: 20250101-one-abc\n"
    given = Given(series=first, names=bases.names_of(first, [text], at=mail))
    value = {
        "patch-id": patch_id(needed, mail),
        "message-id": "<one@example.org>",
        "change-id": "20250101-one-abc:v1",
    }[by]
    asks = replace(series, base_commit=at(repo, TAG), prerequisites=(f"{by}: {value}",))
    done = settle(tree, asks, tmp_path, scope, given=given)
    assert isinstance(done.result, Applied), done
    assert (done.choice.commit, done.problems) == (at(repo, TAG), ())
    assert git(repo, "rev-parse", f"{TAG}^{{tree}}") != done.on
    assert len(done.result.commits) == 1


def test_a_prerequisite_named_by_a_link_in_a_commit(
    repo: Path, tmp_path: Path, scope: Scope
) -> None:
    series, _ = on_top(repo, tmp_path)
    (repo / "one").write_text("one\n")
    has = commit(repo, "one\n\nLink: https://lore.kernel.org/r/one@example.org")
    asks = replace(series, prerequisites=("message-id: one@example.org",))
    done = settle(opened(repo, tmp_path, scope), asks, tmp_path, scope)
    assert (done.choice.commit, done.choice.rule) == (has, "prerequisites")


def test_a_prerequisite_that_nobody_has_is_named(repo: Path, tmp_path: Path, scope: Scope) -> None:
    series, _ = on_top(repo, tmp_path)
    git(repo, "branch", "-D", "-q", "stack")
    asks = replace(series, base_commit=at(repo, TAG), prerequisites=("patch-id: " + "5" * 40,))
    done = settle(opened(repo, tmp_path, scope), asks, tmp_path, scope)
    assert f"prerequisite patch-id {'5' * 40} is neither in the tree" in done.problems[0]


# --------------------------------------------------------------------------- size


def test_a_long_history_is_searched_quickly(repo: Path, tmp_path: Path, scope: Scope) -> None:
    """3,000 commits of which every tenth touches the file: the base lies far back."""
    stream = ["blob\nmark :1\ndata 4\nold\n", "reset refs/heads/long\n", f"from {at(repo, TAG)}\n"]
    for number in range(3000):
        stream.append(
            f"commit refs/heads/long\ncommitter C <c@x> {1700000000 + number} +0000\n"
            f"data 2\nc\nM 100644 inline {'hot' if number % 10 == 0 else 'cold'}\n"
            f"data {len(str(number)) + 1}\n{number}\n"
        )
    (tmp_path / "stream").write_text("".join(stream))
    import subprocess  # noqa: PLC0415

    with (tmp_path / "stream").open() as source:
        subprocess.run(["git", "fast-import", "--quiet"], cwd=repo, stdin=source, check=True)
    tree = opened(repo, tmp_path, scope, base="long")
    blob = git(repo, "rev-parse", "long~2000:hot")
    started = time.monotonic()
    at_ = Git(git_dir=tree.repository, scope=scope)
    found = blobguess.newest_with(at_, tree, {"hot": blob}).commit
    assert time.monotonic() - started < 10
    assert git(repo, "rev-parse", f"{found}:hot") == blob
    later = git(repo, "rev-list", "--ancestry-path", f"{found}..long").split()[-1]
    assert git(repo, "rev-parse", f"{later}:hot") != blob
