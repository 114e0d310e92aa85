"""User trees in every odd state, opened and patched; nothing of theirs is ever written or run."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline import repository
from pipeline.errors import Cancelled, InfraError, UserError
from pipeline.model import ApplyFailure, KernelPlan, Patch, Revision, Role, Series, Tree, TreeSpec
from pipeline.ranges import read_range
from pipeline.scope import Scope
from pipeline.series import read_files
from pipeline.tree import apply, open_tree
from tests.conftest import QuietStep
from tests.minikernel_repo import (
    IDENTITY,
    TAG,
    change,
    commit,
    format_patches,
    git,
    make_repository,
)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    repo = make_repository(tmp_path_factory.mktemp("tree") / "linux")
    git(repo, "checkout", "-q", "-b", "topic")
    for order in (3, 2):
        change(repo, order=order)
    git(repo, "checkout", "-q", "main")
    return repo


@pytest.fixture
def repo(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "my linux", symlinks=True))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def open_path(path: Path, cache: Path, scope: Scope, base: str = TAG) -> Tree:
    return open_tree(
        TreeSpec(name=str(path), base=base), cache=cache, scope=scope, step=QuietStep()
    )


def fingerprint(folder: Path) -> dict[str, tuple[str, int, int]]:
    """Every file below a folder with its content, mode and time."""
    return {
        str(path): (
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
        )
        for path in sorted(folder.rglob("*"))
    }


def fix(repo: Path, tmp_path: Path, revisions: str = f"{TAG}..topic") -> KernelPlan:
    series = read_files(format_patches(repo, revisions, tmp_path / "patches"), name="fix")
    return KernelPlan(name="fix", role=Role.PATCHED, on="base", series=series)


def put(tree: Tree, plan: KernelPlan, tmp_path: Path, scope: Scope) -> Revision | ApplyFailure:
    return apply(tree, plan, on=tree.base, log=tmp_path / "apply.log", scope=scope)


# --------------------------------------------------------------------------- states of a tree


def dirty(repo: Path, _: Path) -> Path:
    (repo / "mm/slub.c").write_text("half done")
    (repo / "new.c").write_text("")
    git(repo, "add", "new.c")
    return repo


def bare(repo: Path, tmp_path: Path) -> Path:
    git(tmp_path, "clone", "-q", "--bare", str(repo), "bare.git")
    return tmp_path / "bare.git"


def shallow(repo: Path, tmp_path: Path) -> Path:
    git(tmp_path, "clone", "-q", "--depth=1", "--branch", TAG, f"file://{repo}", "shallow")
    return tmp_path / "shallow"


def borrowing(repo: Path, tmp_path: Path) -> Path:
    """A clone that itself borrows its objects, by way of another one."""
    git(tmp_path, "clone", "-q", "--shared", str(repo), "one")
    git(tmp_path, "clone", "-q", "--shared", "one", "two")
    return tmp_path / "two"


def bereft(repo: Path, _: Path) -> Path:
    """One that lists a lender of objects which is gone."""
    (repo / ".git/objects/info").mkdir(exist_ok=True)
    (repo / ".git/objects/info/alternates").write_text("/nonexistent/objects\n../gone\n")
    return repo


def linked(repo: Path, tmp_path: Path) -> Path:
    git(repo, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"), TAG)
    return tmp_path / "linked"


def mid_rebase(repo: Path, _: Path) -> Path:
    change(repo, order=5)
    stopped = subprocess.run(["git", "rebase", "topic"], cwd=repo, capture_output=True, check=False)
    assert stopped.returncode
    assert (repo / ".git/rebase-merge").is_dir()
    return repo


def subfolder(repo: Path, _: Path) -> Path:
    return repo / "mm"


def packed(repo: Path, _: Path) -> Path:
    git(repo, "gc", "-q")
    return repo


def sha256(repo: Path, tmp_path: Path) -> Path:
    target = tmp_path / "sha256"
    shutil.copytree(repo, target, ignore=shutil.ignore_patterns(".git"))
    git(target, "init", "-q", "-b", "main", "--object-format=sha256")
    commit(target, "Linux 5.10")
    git(target, "tag", TAG)
    return target


STATES = (dirty, bare, shallow, borrowing, bereft, linked, mid_rebase, subfolder, packed, sha256)


@pytest.mark.parametrize("state", STATES)
def test_a_series_applies_whatever_state_the_tree_is_in(
    state: Callable[[Path, Path], Path], repo: Path, tmp_path: Path, cache: Path, scope: Scope
) -> None:
    plan = fix(repo, tmp_path)
    path = state(repo, tmp_path)
    before = fingerprint(tmp_path / path.relative_to(tmp_path).parts[0]), fingerprint(repo)
    tree = open_path(path, cache, scope)
    done = put(tree, plan, tmp_path, scope)
    assert isinstance(done, Revision), done
    assert done.files_changed == ("mm/slub.c",)
    assert tree.version.startswith("5.10")
    assert before == (
        fingerprint(tmp_path / path.relative_to(tmp_path).parts[0]),
        fingerprint(repo),
    )
    if state is not sha256:
        assert done.tree_id == git(repo, "rev-parse", "topic^{tree}")


HOOKS = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "post-checkout", "post-commit"),
    *("commit-msg", "post-index-change", "reference-transaction"),
)
COMMAND_KEYS = (
    *("core.fsmonitor", "core.sshCommand", "core.editor", "core.pager", "gpg.program"),
    *("core.alternateRefsCommand", "filter.evil.clean", "filter.evil.smudge"),
)


def test_nothing_that_the_tree_configures_is_run(
    repo: Path, tmp_path: Path, cache: Path, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap, sprung = tmp_path / "trap", tmp_path / "sprung"
    trap.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{sprung}'\nexit 1\n")
    trap.chmod(0o755)
    plan = fix(repo, tmp_path)
    (repo / ".git/hooks").mkdir(exist_ok=True)
    for hook in HOOKS:
        shutil.copy(trap, repo / ".git/hooks" / hook)
    for key in COMMAND_KEYS:
        git(repo, "config", key, str(trap))
    git(repo, "config", "commit.gpgSign", "true")
    (repo / ".git/info").mkdir(exist_ok=True)
    (repo / ".git/info/attributes").write_text("* filter=evil\n")
    sprung.unlink(missing_ok=True)
    # as within a hook, or in `git bisect run`
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "elsewhere.index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(tmp_path / "elsewhere.objects"))
    before = fingerprint(repo)
    tree = open_path(repo, cache, scope)
    assert isinstance(put(tree, plan, tmp_path, scope), Revision)
    read_range(tree, "topic", scope=scope)
    assert not sprung.exists(), sprung.read_text()
    assert fingerprint(repo) == before
    assert not list(tmp_path.glob("elsewhere*"))


def test_a_repository_of_somebody_else_can_be_read(repo: Path, cache: Path, scope: Scope) -> None:
    if os.getuid():
        pytest.skip("only root can give files away")
    for path in (repo, *repo.rglob("*")):
        shutil.chown(path, 12345)
    assert open_path(repo, cache, scope).version.startswith("5.10")


def test_a_clone_that_is_deepened_is_followed(
    repo: Path, tmp_path: Path, cache: Path, scope: Scope
) -> None:
    git(tmp_path, "clone", "-q", "--depth=1", "--branch", "topic", f"file://{repo}", "clone")
    clone = tmp_path / "clone"
    first = open_path(clone, cache, scope, base="HEAD")
    with pytest.raises(UserError, match="no revision"):
        read_range(first, "HEAD~2..HEAD", scope=scope)
    git(clone, "fetch", "-q", "--unshallow", f"file://{repo}", "topic")
    again = open_path(clone, cache, scope, base="HEAD")
    assert again.repository == first.repository
    assert len(read_range(again, "HEAD~2..HEAD", scope=scope)[1].patches) == 2


def test_a_partial_clone_that_lacks_files(
    repo: Path, tmp_path: Path, cache: Path, scope: Scope
) -> None:
    git(repo, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", "--no-checkout", f"file://{repo}", "part")
    with pytest.raises(UserError, match="partial clone"):
        open_path(tmp_path / "part", cache, scope)
    git(tmp_path / "part", "checkout", "-q", TAG)
    assert open_path(tmp_path / "part", cache, scope).base == git(repo, "rev-parse", TAG)


# --------------------------------------------------------------------------- bad trees


def test_what_is_no_tree(repo: Path, tmp_path: Path, cache: Path, scope: Scope) -> None:
    (tmp_path / "plain").mkdir()
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    (other / "Makefile").write_text("all:\n")
    commit(other, "no kernel")
    for path, base, message in (
        (tmp_path / "none", "HEAD", "there is no"),
        (tmp_path / "plain", "HEAD", "not a git repository"),
        (other, "HEAD", "not a Linux kernel"),
        (repo, "v5.11", "no revision “v5.11”"),
        (repo, "--all", "no revision"),
        (repo, "", "no revision"),
        (repo, f"{TAG}:Makefile", "no revision"),
    ):
        with pytest.raises(UserError, match=message) as caught:
            open_path(path, cache, scope, base)
        assert caught.value.hint, message
        assert "\n" not in str(caught.value)


def test_the_nearest_revision_is_named(repo: Path, cache: Path, scope: Scope) -> None:
    with pytest.raises(UserError) as caught:
        open_path(repo, cache, scope, base="topik")
    assert "topic" in caught.value.hint


def test_a_debian_version_that_is_none(cache: Path, scope: Scope) -> None:
    with pytest.raises(UserError, match="names no kernel version"):
        open_tree(TreeSpec(name="debian:../x"), cache=cache, scope=scope, step=QuietStep())
    assert not cache.exists()


# --------------------------------------------------------------------------- apply


@pytest.fixture
def tree(repo: Path, cache: Path, scope: Scope) -> Tree:
    return open_path(repo, cache, scope)


def leftovers(tree: Tree) -> list[Path]:
    return list((tree.repository / "ktrial").iterdir())


def test_the_same_series_gives_the_same_commit(
    repo: Path, tree: Tree, tmp_path: Path, cache: Path, scope: Scope
) -> None:
    plan = fix(repo, tmp_path)
    first = put(tree, plan, tmp_path, scope)
    shutil.rmtree(cache)
    assert put(open_path(repo, cache, scope), plan, tmp_path, scope) == first
    assert "Applying: mm: slub: set order 3" in (tmp_path / "apply.log").read_text()


def test_on_top_of_another_kernel(repo: Path, tree: Tree, tmp_path: Path, scope: Scope) -> None:
    one = put(tree, fix(repo, tmp_path, f"{TAG}..topic~1"), tmp_path, scope)
    assert isinstance(one, Revision)
    two = apply(
        tree, fix(repo, tmp_path, "topic~1..topic"), on=one.commit,
        log=tmp_path / "log", scope=scope,
    )  # fmt: skip
    assert isinstance(two, Revision)
    assert two.tree_id == git(repo, "rev-parse", "topic^{tree}")


def test_the_second_of_three_does_not_apply(
    repo: Path, tree: Tree, tmp_path: Path, scope: Scope
) -> None:
    plan = fix(repo, tmp_path)
    assert plan.series
    one, two = plan.series.patches
    wrong = Series(name="x", origin="x", patches=(one, one, two))
    failure = put(
        tree, KernelPlan(name="fix", role=Role.PATCHED, on="base", series=wrong), tmp_path, scope
    )
    assert isinstance(failure, ApplyFailure)
    assert (failure.patch, failure.of, failure.file) == (one, 3, "mm/slub.c")
    assert int(failure.hunk) > 0
    assert "patch does not apply" in failure.words
    assert failure.log
    assert "does not apply" in failure.log.read_text()
    assert leftovers(tree) == []


@pytest.mark.parametrize(
    ("diff", "file"),
    [
        ("diff --git a/no/such.c b/no/such.c\n--- a/no/such.c\n+++ b/no/such.c\n"
         "@@ -1 +1 @@\n-a\n+b\n", "no/such.c"),
        ("diff --git a/../up b/../up\nnew file mode 100644\n--- /dev/null\n+++ b/../up\n"
         "@@ -0,0 +1 @@\n+x\n", "../up"),
        ("diff --git a/mm/slub.c b/mm/slub.c\n--- a/mm/slub.c\n+++ b/mm/slub.c\n"
         "@@ -1,99 +1 @@\n-a\n", ""),
        ("no diff at all\n", ""),
    ],
)  # fmt: skip
def test_odd_patches_are_results(
    tree: Tree, tmp_path: Path, scope: Scope, diff: str, file: str
) -> None:
    head = "From: Ada Example <ada@example.org>\nDate: Mon, 3 Feb 2025 10:00:00 +0100\n"
    mail = f"{head}Subject: [PATCH] odd\n\nwords\n---\n{diff}".encode()
    patch = Patch(number=1, subject="odd", author="Ada", email="ada@example.org", mail=mail)
    series = Series(name="x", origin="x", patches=(patch,))
    plan = KernelPlan(name="fix", role=Role.PATCHED, on="base", series=series)
    failure = put(tree, plan, tmp_path, scope)
    assert isinstance(failure, ApplyFailure)
    assert failure.file == file
    assert failure.words
    assert not (tree.repository / "up").exists()


def test_a_patch_that_lays_a_symlink_and_writes_through_it_is_refused(
    tree: Tree, tmp_path: Path, scope: Scope
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    diff = (
        f"diff --git a/way b/way\nnew file mode 120000\n--- /dev/null\n+++ b/way\n"
        f"@@ -0,0 +1 @@\n+{outside}\n\\ No newline at end of file\n"
        "diff --git a/way/x b/way/x\nnew file mode 100644\n--- /dev/null\n+++ b/way/x\n"
        "@@ -0,0 +1 @@\n+x\n"
    )
    head = "From: Ada Example <ada@example.org>\nDate: Mon, 3 Feb 2025 10:00:00 +0100\n"
    mail = f"{head}Subject: [PATCH] way\n\n---\n{diff}".encode()
    patch = Patch(number=1, subject="way", author="Ada", email="ada@example.org", mail=mail)
    series = Series(name="x", origin="x", patches=(patch,))
    plan = KernelPlan(name="fix", role=Role.PATCHED, on="base", series=series)
    assert isinstance(put(tree, plan, tmp_path, scope), ApplyFailure)
    assert list(outside.iterdir()) == []


def test_several_at_once(repo: Path, tree: Tree, tmp_path: Path, scope: Scope) -> None:
    plan = fix(repo, tmp_path)
    done: list[Revision | ApplyFailure] = []
    threads = [
        threading.Thread(target=lambda: done.append(put(tree, plan, tmp_path, scope)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 4
    assert len({result.commit for result in done if isinstance(result, Revision)}) == 1
    assert leftovers(tree) == []


def test_cancelled_and_out_of_time(repo: Path, tree: Tree, tmp_path: Path) -> None:
    plan = fix(repo, tmp_path)
    cancelled = Scope()
    cancelled.cancel()
    with pytest.raises(Cancelled):
        put(tree, plan, tmp_path, cancelled)
    with pytest.raises(InfraError, match="too long"):
        put(tree, plan, tmp_path, Scope(0))
    assert leftovers(tree) == []


def test_git_is_ended_when_the_run_is_cancelled(tree: Tree) -> None:
    scope = Scope()
    at = repository.Git(git_dir=tree.repository, scope=scope)
    timer = threading.Timer(0.2, scope.cancel)
    timer.start()
    pids: list[int] = []
    with pytest.raises(Cancelled), at.started("cat-file", "--batch") as process:
        pids.append(process.pid)
        scope.sleep(30)
    assert not Path(f"/proc/{pids[0]}").exists()


def test_a_commit_of_the_tree_is_only_resolved(
    repo: Path, tree: Tree, tmp_path: Path, scope: Scope
) -> None:
    tip = git(repo, "rev-parse", "topic")
    done = put(tree, KernelPlan(name="fix", role=Role.PATCHED, commit=tip), tmp_path, scope)
    assert isinstance(done, Revision)
    assert (done.commit, done.files_changed) == (tip, ("mm/slub.c",))
    base = put(tree, KernelPlan(name="base", role=Role.BASE), tmp_path, scope)
    assert isinstance(base, Revision)
    assert (base.commit, base.files_changed) == (tree.base, ())


# --------------------------------------------------------------------------- ranges


@pytest.mark.parametrize("text", [f"{TAG}..topic", "topic", "main..topic", "..topic"])
def test_a_range_is_described(repo: Path, tree: Tree, scope: Scope, text: str) -> None:
    opened, series, tip = read_range(tree, text, scope=scope)
    assert tip == git(repo, "rev-parse", "topic")
    assert opened.base == git(repo, "rev-parse", TAG)
    assert [patch.subject for patch in series.patches] == [
        "mm: slub: set order 3",
        "mm: slub: set order 2",
    ]
    assert series.patches[1].commit == tip
    assert series.patches[0].files == ("mm/slub.c",)


def test_a_range_starts_where_the_branches_part(repo: Path, cache: Path, scope: Scope) -> None:
    (repo / "README").write_text("main went on")
    commit(repo, "main went on")
    tree = open_path(repo, cache, scope, base="main")
    opened, series, _ = read_range(tree, "main..topic", scope=scope)
    assert opened.base == git(repo, "rev-parse", TAG)
    assert len(series.patches) == 2


def test_a_range_with_a_merge(repo: Path, cache: Path, scope: Scope) -> None:
    (repo / "README").write_text("main went on")
    commit(repo, "main went on")
    git(repo, "merge", "-q", "-m", "merge topic", "topic")
    tree = open_path(repo, cache, scope)
    _, series, _ = read_range(tree, f"{TAG}..HEAD", scope=scope)
    merge = series.patches[-1]
    assert (len(series.patches), merge.subject, merge.files) == (4, "merge topic", ("mm/slub.c",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topic..topic", "no commits in"),
        ("topic..main", "no commits in"),
        (TAG, "no commits in"),
        ("main..nothing", "no revision “nothing”"),
        ("main...topic", "not a range"),
        ("--all..topic", "no revision"),
    ],
)
def test_bad_ranges(tree: Tree, scope: Scope, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read_range(tree, text, scope=scope)
    assert caught.value.hint


def test_histories_that_do_not_meet(repo: Path, tree: Tree, scope: Scope) -> None:
    git(repo, "checkout", "-q", "--orphan", "alone")
    commit(repo, "alone")
    with pytest.raises(UserError, match="no common ancestor"):
        read_range(tree, "main..alone", scope=scope)


def test_the_pinned_identity_is_not_what_commits_are_made_with(
    repo: Path, tree: Tree, tmp_path: Path, scope: Scope
) -> None:
    done = put(tree, fix(repo, tmp_path), tmp_path, scope)
    assert isinstance(done, Revision)
    at = repository.Git(git_dir=tree.repository, scope=scope)
    who = at.text("log", "-1", "--format=%an <%ae> / %cn / %at %ct", done.commit)
    author, committer, dates = who.split(" / ")
    assert author == f"{IDENTITY['GIT_AUTHOR_NAME']} <{IDENTITY['GIT_AUTHOR_EMAIL']}>"
    assert committer == repository.NAME
    assert len(set(dates.split())) == 1
