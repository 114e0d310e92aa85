"""Series applied by real git: the plain way, merged three ways, refused, and what came out."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline.model import ApplyFailure, KernelPlan, Patch, Revision, Role, Series, Tree, TreeSpec
from pipeline.scope import Scope
from pipeline.series import read_files
from pipeline.tree import Applied, apply, open_tree
from tests.conftest import QuietStep
from tests.minikernel_repo import TAG, change, commit, format_patches, git, make_repository

HEAD = "From: Ada Example <ada@example.org>\nDate: Mon, 3 Feb 2025 10:00:00 +0100\n"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "linux")


def put(
    repo: Path, series: Series, tmp_path: Path, scope: Scope, base: str = "HEAD"
) -> Revision | ApplyFailure:
    tree = opened(repo, tmp_path, scope, base)
    plan = KernelPlan(name="patched", role=Role.PATCHED, series=series)
    return apply(tree, plan, on=tree.base, log=tmp_path / "apply.log", scope=scope)


def opened(repo: Path, tmp_path: Path, scope: Scope, base: str = "HEAD") -> Tree:
    spec = TreeSpec(name=str(repo), base=base)
    return open_tree(spec, cache=tmp_path / "cache", scope=scope, step=QuietStep())


def mails(*diffs: str, subject: str = "odd") -> Series:
    return Series(
        name="x",
        origin="x",
        patches=tuple(
            Patch(
                number=number, subject=f"{subject} {number}", author="Ada Example",
                email="ada@example.org",
                mail=f"{HEAD}Subject: [PATCH] {subject} {number}\n\nwords\n---\n{diff}".encode(),
            )
            for number, diff in enumerate(diffs, start=1)
        ),
    )  # fmt: skip


def added(path: str, content: str = "x", mode: str = "100644") -> str:
    quoted = f'"b/{path}"' if "\\" in path else f"b/{path}"
    end = "\n\\ No newline at end of file\n" if mode == "120000" else "\n"
    return (
        f"diff --git {quoted.replace('b/', 'a/', 1)} {quoted}\nnew file mode {mode}\n"
        f"--- /dev/null\n+++ {quoted}\n@@ -0,0 +1 @@\n+{content}{end}"
    )


def edit(repo: Path, path: str, changes: Mapping[str, str]) -> None:
    text = (repo / path).read_text()
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (repo / path).write_text(text)


def three_ways(repo: Path, tmp_path: Path) -> tuple[Series, str]:
    """A series on a tree whose main branch changed a line of its context; main's commit."""
    (repo / "notes").write_text("".join(f"line {n}\n" for n in range(1, 12)))
    commit(repo, "notes")
    git(repo, "checkout", "-q", "-b", "theirs")
    edit(repo, "notes", {"line 5\n": "line five\n"})
    commit(repo, "notes: five")
    patches = format_patches(repo, "main..theirs", tmp_path / "patches")
    git(repo, "checkout", "-q", "main")
    edit(repo, "notes", {"line 3\n": "line three\n"})
    return read_files(patches, name="x"), commit(repo, "notes: three")


# --------------------------------------------------------------------------- what applies


def test_what_came_out_is_listed(repo: Path, tmp_path: Path, scope: Scope) -> None:
    git(repo, "checkout", "-q", "-b", "topic")
    change(repo, order=3)
    git(repo, "mv", "mm/slub.c", "mm/slab.c")
    (repo / "way").symlink_to("mm")
    (repo / "blob").write_bytes(bytes(range(256)))
    commit(repo, "mm: a rename, a link, a binary")
    series = read_files(format_patches(repo, f"{TAG}..topic", tmp_path / "p"), name="x")
    done = put(repo, series, tmp_path, scope, base=TAG)
    assert isinstance(done, Applied), done
    assert (done.problems, done.three_way) == ((), False)
    first, second = done.commits
    assert (first.subject, first.author, first.email) == (
        "mm: slub: set order 3", "Ada Author", "ada@example.org",
    )  # fmt: skip
    assert first.lines == {"mm/slub.c": (1, 1)}
    assert set(second.files) == {"blob", "mm/slab.c", "mm/slub.c", "way"}
    assert second.lines["blob"] is None
    assert second.links == {"way": "mm"}
    assert second.modes["mm/slub.c"] == ""
    assert done.tree_id == git(repo, "rev-parse", "topic^{tree}")


def many_kinds(repo: Path) -> None:
    """Three commits with renames, modes, binaries, odd names, a link, an empty file."""
    git(repo, "checkout", "-q", "-b", "kinds")
    deep = repo / "/".join(["drivers", *(f"a-long-name-{n}" for n in range(8))])
    deep.mkdir(parents=True)
    (deep / "file.c").write_text("a\nb\nc\n" * 20)
    (repo / "blob").write_bytes(bytes(range(256)) * 10)
    (repo / "é ü.c").write_text("x\n")
    (repo / "sp ace.c").write_text("no newline at the end")
    commit(repo, "add files")
    git(repo, "mv", f"{deep}/file.c", f"{deep}/moved.c")
    (deep / "moved.c").write_text("a\nb\nc\n" * 20 + "d\n")
    git(repo, "mv", "mm/slub.c", "slab.c")
    (repo / "sp ace.c").chmod(0o755)
    (repo / "blob").write_bytes(bytes(range(255, -1, -1)) * 10)
    commit(repo, "move and change them")
    git(repo, "rm", "-q", "blob", "é ü.c")
    (repo / "empty").write_text("")
    (repo / "sp ace.c").unlink()
    (repo / "sp ace.c").symlink_to("mm")
    commit(repo, "take some away")


@pytest.mark.parametrize(
    "option", ["-M", "--find-copies-harder", "--no-renames", "-B", "--no-stat"]
)
def test_mails_of_git_are_never_at_odds_with_their_commits(
    repo: Path, tmp_path: Path, scope: Scope, option: str
) -> None:
    many_kinds(repo)
    out = git(repo, "format-patch", option, "-o", str(tmp_path / "p"), f"{TAG}..kinds")
    series = read_files([Path(line) for line in out.splitlines()], name="x")
    assert all((patch.claimed is None) is (option == "--no-stat") for patch in series.patches)
    done = put(repo, series, tmp_path, scope, base=TAG)
    assert isinstance(done, Applied), done
    assert done.problems == ()
    assert done.tree_id == git(repo, "rev-parse", "kinds^{tree}")


def test_a_diffstat_of_another_patch_is_a_finding(repo: Path, tmp_path: Path, scope: Scope) -> None:
    git(repo, "checkout", "-q", "-b", "topic")
    change(repo, order=3)
    (path,) = format_patches(repo, f"{TAG}..topic", tmp_path / "p")
    text = path.read_text()
    path.write_text(text.replace("1 insertion(+)", "2 insertions(+)"))
    assert path.read_text() != text
    done = put(repo, read_files([path], name="x"), tmp_path, scope, base=TAG)
    assert isinstance(done, Applied), done
    assert done.problems == ("patch 1: its diffstat says +2 -1 lines, its diff has +1 -1",)


def test_only_a_three_way_merge_does_it(repo: Path, tmp_path: Path, scope: Scope) -> None:
    series, _ = three_ways(repo, tmp_path)
    done = put(repo, series, tmp_path, scope)
    assert isinstance(done, Applied), done
    assert done.three_way
    assert done.problems == (
        "applied with a three-way merge: notes is not as the patches have it before them",
    )
    git(repo, "merge", "-q", "theirs")
    assert done.tree_id == git(repo, "rev-parse", "HEAD^{tree}")
    assert done == put(repo, series, tmp_path, scope, base="HEAD~1")


def test_a_merge_driver_of_the_tree_has_no_say(repo: Path, tmp_path: Path, scope: Scope) -> None:
    """With “union” a conflict would come out as both lines, and nobody would know."""
    (repo / ".gitattributes").write_text("* merge=union\n")
    commit(repo, "attributes")
    series, _ = three_ways(repo, tmp_path)
    edit(repo, "notes", {"line 5\n": "line V\n"})
    commit(repo, "notes: V")
    failure = put(repo, series, tmp_path, scope)
    assert isinstance(failure, ApplyFailure), failure
    assert "three-way merge does not help: CONFLICT" in failure.words


def test_nothing_of_the_user_runs_in_a_merge_either(
    repo: Path, tmp_path: Path, scope: Scope
) -> None:
    sprung, trap = tmp_path / "sprung", tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{sprung}'\nexit 1\n")
    trap.chmod(0o755)
    (repo / ".gitattributes").write_text("* merge=evil diff=evil filter=evil\n")
    commit(repo, "attributes")
    series, _ = three_ways(repo, tmp_path)
    for key in ("merge.evil.driver", "diff.evil.command", "diff.evil.textconv",
                "filter.evil.smudge", "filter.evil.clean"):  # fmt: skip
        git(repo, "config", key, str(trap))
    for hook in ("post-merge", "pre-merge-commit", "applypatch-msg", "pre-applypatch",
                 "post-applypatch", "post-checkout", "post-index-change"):  # fmt: skip
        (repo / ".git/hooks").mkdir(exist_ok=True)
        shutil.copy(trap, repo / ".git/hooks" / hook)
    sprung.unlink(missing_ok=True)
    done = put(repo, series, tmp_path, scope)
    assert isinstance(done, Applied), done
    assert done.three_way
    assert not sprung.exists(), sprung.read_text()


# --------------------------------------------------------------------------- what does not


def test_what_the_tree_has_already(repo: Path, tmp_path: Path, scope: Scope) -> None:
    """`git am -3` passes over a patch that is there and calls it a success."""
    change(repo, order=3)
    series = read_files(format_patches(repo, f"{TAG}..main", tmp_path / "p"), name="x")
    failure = put(repo, series, tmp_path, scope)
    assert isinstance(failure, ApplyFailure)
    assert (failure.patch.number, failure.of, failure.file) == (1, 1, "mm/slub.c")
    assert "the tree has some of them already" in failure.words


def test_white_space_damage_is_told_from_a_conflict(
    repo: Path, tmp_path: Path, scope: Scope
) -> None:
    change(repo, order=3)
    (path,) = format_patches(repo, f"{TAG}..main", tmp_path / "p")
    whole = path.read_text()
    damaged = whole.replace("\t", "        ")
    assert damaged != whole
    for text, is_damage in (
        (damaged, True),
        (whole.replace("return clamp", "return klamp"), False),
    ):
        path.write_text(text)
        failure = put(repo, read_files([path], name="x"), tmp_path, scope, base=TAG)
        assert isinstance(failure, ApplyFailure), failure
        assert ("white space is damaged" in failure.words) is is_damage
        assert ("git send-email" in failure.words) is is_damage


@pytest.mark.parametrize(
    ("diffs", "path", "number"),
    [
        ((added("../up"),), "../up", 1),
        ((added("/etc/up"),), "/etc/up", 1),
        ((added("fine"), added(".git/hooks/pre-commit")), ".git/hooks/pre-commit", 2),
        ((added("sub/.GiT/config"),), "sub/.GiT/config", 1),
        ((added("git~1/config"),), "git~1/config", 1),
        ((added("link", "/etc", "120000"),), "link", 1),
        ((added("a/link", "../../b", "120000"),), "a/link", 1),
        ((added("way", "mm", "120000"), added("way/x")), "way/x", 2),
        ((added("sub", "Subproject commit " + "1" * 40, "160000"),), "sub", 1),
    ],
)
def test_paths_that_are_not_safe_are_refused_by_name(
    repo: Path, tmp_path: Path, diffs: tuple[str, ...], path: str, number: int
) -> None:
    scope = Scope(60)
    failure = put(repo, mails(*diffs), tmp_path, scope)
    assert isinstance(failure, ApplyFailure), failure
    assert (failure.file, failure.patch.number) == (path, number)
    assert failure.words.startswith(f"refused: patch {number}: {path} ")
    assert not list(tmp_path.rglob("up"))


def test_a_link_of_the_tree_is_not_gone_through(repo: Path, tmp_path: Path, scope: Scope) -> None:
    (repo / "way").symlink_to("mm")
    commit(repo, "way")
    failure = put(repo, mails(added("way/x")), tmp_path, scope)
    assert isinstance(failure, ApplyFailure)
    assert failure.file == "way/x"


def test_attributes_modules_and_hooks_are_flagged_by_name(
    repo: Path, tmp_path: Path, scope: Scope
) -> None:
    done = put(
        repo,
        mails(
            added(".gitattributes", "*.c filter=evil diff=evil"),
            added(".gitmodules", "[submodule]"),
            added(".githooks/pre-commit", "#!/bin/sh"),
        ),
        tmp_path,
        scope,
    )
    assert isinstance(done, Applied), done
    told = "\n".join(done.problems)
    assert "patch 1: .gitattributes says how git treats files (diff=evil, filter=evil)" in told
    assert "patch 2: .gitmodules names repositories" in told
    assert "patch 3: .githooks/pre-commit is or may be a hook" in told


def test_a_mail_whose_author_git_reads_otherwise(repo: Path, tmp_path: Path, scope: Scope) -> None:
    """git takes an author from the body; where the record says another, that is a finding."""
    series = mails("words\n")
    patch = series.patches[0]
    mail = (
        f"{HEAD}Subject: [PATCH] odd 1\n\nFrom: Eve <eve@example.org>\n\nwords\n---\n{added('n')}"
    )
    sly = Series(name="x", origin="x", patches=(Patch(**(vars(patch) | {"mail": mail.encode()})),))
    done = put(repo, sly, tmp_path, scope)
    assert isinstance(done, Applied), done
    assert done.problems[0] == "patch 1: its author is “Ada Example”, the commit's “Eve”"
