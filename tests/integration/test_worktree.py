"""The user's files as they lie, as a commit of ours; nothing over there is written."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from pipeline import worktree
from pipeline.errors import UserError
from pipeline.model import Tree, TreeSpec
from pipeline.repository import Git
from pipeline.scope import Scope
from pipeline.tree import open_tree
from tests.conftest import QuietStep
from tests.integration.test_tree import fingerprint
from tests.minikernel_repo import git, make_repository


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory.mktemp("tree") / "linux")


@pytest.fixture
def repo(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "linux", symlinks=True))


def opened(path: Path, tmp_path: Path, scope: Scope) -> Tree:
    spec = TreeSpec(name=str(path), base="HEAD")
    return open_tree(spec, cache=tmp_path / "cache", scope=scope, step=QuietStep())


def content(tree: Tree, commit: str, path: str) -> str:
    return Git(git_dir=tree.repository, scope=Scope(60)).text(
        "cat-file", "blob", f"{commit}:{path}"
    )


def test_files_without_a_change_are_the_commit_itself(
    repo: Path, tmp_path: Path, scope: Scope
) -> None:
    tree = opened(repo, tmp_path, scope)
    found = worktree.as_it_lies(tree, scope=scope)
    assert (found.commit, found.files_changed) == (tree.base, ())


def edit(repo: Path) -> None:
    """Changed, removed, staged, staged and changed again, and what git does not know."""
    (repo / "mm/slub.c").write_text("changed\n")
    (repo / "lib/clamp.c").unlink()
    (repo / "new.c").write_text("staged\n")
    git(repo, "add", "-f", "new.c")
    (repo / "new.c").write_text("staged, then changed\n")
    (repo / "untracked.c").write_text("")
    (repo / "init/main.c").chmod(0o755)


def test_all_that_git_tracks_is_taken_as_it_lies(repo: Path, tmp_path: Path, scope: Scope) -> None:
    edit(repo)
    before = fingerprint(repo)
    tree = opened(repo, tmp_path, scope)
    found = worktree.as_it_lies(tree, scope=scope)
    assert set(found.files_changed) == {"mm/slub.c", "lib/clamp.c", "new.c", "init/main.c"}
    assert content(tree, found.commit, "mm/slub.c") == "changed"
    assert content(tree, found.commit, "new.c") == "staged, then changed"
    assert fingerprint(repo) == before
    again = worktree.as_it_lies(tree, scope=scope)
    assert again == found
    at = Git(git_dir=tree.repository, scope=scope)
    assert at.text("rev-parse", f"{found.commit}^") == tree.base


def test_a_change_that_keeps_size_and_time_is_seen(
    repo: Path, tmp_path: Path, scope: Scope
) -> None:
    path = repo / "mm/slub.c"
    git(repo, "update-index", "--refresh")
    text, times = path.read_text(), path.stat()
    # Only the time of the inode's change tells, of which git looks at the seconds alone.
    time.sleep(max(0.0, int(times.st_ctime) + 1.05 - time.time()))
    path.write_text(text.replace("s", "t", 1))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    found = worktree.as_it_lies(opened(repo, tmp_path, scope), scope=scope)
    assert found.files_changed == ("mm/slub.c",)


def test_an_index_that_lies_in_two_files_is_done_without(
    repo: Path, tmp_path: Path, scope: Scope
) -> None:
    git(repo, "update-index", "--split-index")
    (repo / "mm/slub.c").write_text("changed\n")
    found = worktree.as_it_lies(opened(repo, tmp_path, scope), scope=scope)
    assert found.files_changed == ("mm/slub.c",)


def test_a_linked_worktree_has_files_and_an_index_of_its_own(
    repo: Path, tmp_path: Path, scope: Scope
) -> None:
    git(repo, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    (tmp_path / "linked/mm/slub.c").write_text("there\n")
    (repo / "mm/slub.c").write_text("here\n")
    tree = opened(tmp_path / "linked", tmp_path, scope)
    found = worktree.as_it_lies(tree, scope=scope)
    assert content(tree, found.commit, "mm/slub.c") == "there"


def test_a_bare_repository_has_no_files(repo: Path, tmp_path: Path, scope: Scope) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repo), "bare.git")
    with pytest.raises(UserError, match="bare repository"):
        worktree.as_it_lies(opened(tmp_path / "bare.git", tmp_path, scope), scope=scope)
