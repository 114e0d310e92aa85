"""Trees laid out on disk, judged by what a real make rebuilds."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import cache as caches
from pipeline.errors import Cancelled, InfraError
from pipeline.layout import EPOCH, laid_out
from pipeline.model import FileTimes, Sources, Tree, TreeSpec
from pipeline.scope import Scope
from pipeline.tree import open_tree
from tests.conftest import QuietStep
from tests.minikernel_repo import commit, git, tree_id

ROOT = Path(__file__).parents[2]
MAKEFILE = """\
VERSION = 6
PATCHLEVEL = 1
SUBLEVEL = 0
$(O)/all: $(O)/a.o $(O)/b.o ; cat $^ > $@
$(O)/%.o: %.c common.h ; cat $< common.h > $@ ; echo $* >> $(O)/made
"""


class Sample:
    """A tiny tree with a base and a patched revision, and a build folder for it."""

    def __init__(self, folder: Path, scope: Scope) -> None:
        self.scope, self.cache, self.objects = scope, folder / "cache", folder / "o"
        self.objects.mkdir()
        self.repo = folder / "tree"
        self.repo.mkdir()
        git(self.repo, "init", "-q", "-b", "main")
        for name, text in {
            "Makefile": MAKEFILE, "Kconfig": "", "common.h": "h\n", "a.c": "a\n", "b.c": "b\n",
            "sub/deep/x": "x\n", "run.sh": "#!/bin/sh\n",
        }.items():  # fmt: skip
            self.write(name, text)
        (self.repo / "run.sh").chmod(0o755)
        (self.repo / "link").symlink_to("a.c")
        (self.repo / "dangling").symlink_to("/nowhere/at/all")
        self.base = self.commit()
        self.write("a.c", "a changed\n")
        self.patched = self.commit()
        spec = TreeSpec(name=str(self.repo))
        self.tree: Tree = open_tree(spec, cache=self.cache, scope=scope, step=QuietStep())

    def write(self, name: str, text: str) -> None:
        path = self.repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self) -> str:
        commit(self.repo, "change")
        return tree_id(self.repo)

    @property
    def folder(self) -> Path:
        return self.cache / "sources" / self.tree.origin

    def lay_out(self, tree: str, seen: FileTimes | None = None) -> FileTimes:
        with laid_out(self.tree, tree, seen, cache=self.cache, scope=self.scope) as sources:
            self.check(sources.path, tree)
            return sources.times

    def check(self, path: Path, tree: str) -> None:
        """What lies there is the tree and nothing else: git itself writes it again and says so."""
        index = self.cache / "check-index"
        index.unlink(missing_ok=True)
        env = {**os.environ, "GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(path)}
        git_dir = f"--git-dir={self.repo / '.git'}"
        for words in (["add", "-A", "-f", "."], ["write-tree"]):
            done = subprocess.run(
                ["git", git_dir, *words], cwd=path, env=env, capture_output=True, text=True,
                check=True,
            )  # fmt: skip
        assert done.stdout.strip() == tree

    def build(self, tree: str, seen: FileTimes | None) -> tuple[FileTimes, set[str]]:
        """Lay out, make, and tell which objects were made."""
        made = self.objects / "made"
        made.unlink(missing_ok=True)
        with laid_out(self.tree, tree, seen, cache=self.cache, scope=self.scope) as sources:
            subprocess.run(
                ["make", "-s", f"O={self.objects}", f"{self.objects}/all"],
                cwd=sources.path, check=True,
            )  # fmt: skip
        return sources.times, set(made.read_text().split()) if made.exists() else set()

    @property
    def built(self) -> str:
        return (self.objects / "all").read_text()


@pytest.fixture
def sample(tmp_path: Path, scope: Scope) -> Sample:
    return Sample(tmp_path, scope)


def test_make_rebuilds_what_changed_there_and_back(sample: Sample) -> None:
    seen, made = sample.build(sample.base, None)
    assert made == {"a", "b"}
    seen, made = sample.build(sample.base, seen)
    assert made == set()
    seen, made = sample.build(sample.patched, seen)
    assert made == {"a"}
    assert sample.built == "a changed\nh\nb\nh\n"
    seen, made = sample.build(sample.patched, seen)
    assert made == set()
    seen, made = sample.build(sample.base, seen)
    assert made == {"a"}
    assert sample.built == "a\nh\nb\nh\n"
    _, made = sample.build(sample.base, seen)
    assert made == set()


def test_a_link_to_another_folder_rebuilds_what_came_through_it(sample: Sample) -> None:
    """The file that the path leads to is as old as it was: only the link has changed."""
    makefile = MAKEFILE.replace("common.h", "via/common.h")
    for name, text in {"Makefile": makefile, "one/common.h": "1\n", "two/common.h": "2\n"}.items():
        sample.write(name, text)
    (sample.repo / "via").symlink_to("one")
    first = sample.commit()
    (sample.repo / "via").unlink()
    (sample.repo / "via").symlink_to("two")
    second = sample.commit()
    seen, _ = sample.build(first, None)
    seen, made = sample.build(second, seen)
    assert made == {"a", "b"}
    assert sample.built == "a changed\n2\nb\n2\n"
    assert sample.build(second, seen)[1] == set()


def test_objects_of_a_clock_that_went_back_are_not_taken_for_new(sample: Sample) -> None:
    seen, _ = sample.build(sample.base, None)
    ahead = time.time_ns() + 3600 * 10**9
    for path in sample.objects.iterdir():
        os.utime(path, ns=(ahead, ahead))
    _, made = sample.build(sample.patched, replace(seen, newest=ahead))
    assert made == {"a"}


def test_two_build_folders_take_turns(sample: Sample) -> None:
    """Each has its own memory of times; the other's layouts in between change nothing."""
    seen, _ = sample.build(sample.base, None)
    other = sample.objects.with_name("o2")
    shutil.copytree(sample.objects, other)  # with cp -a's times
    subprocess.run(["cp", "-a", f"{sample.objects}/.", str(other)], check=True)
    first, sample.objects = sample.objects, other
    seen_other, made = sample.build(sample.patched, seen)
    assert made == {"a"}
    sample.objects = first
    seen, made = sample.build(sample.base, seen)
    assert made == set()
    sample.objects = other
    seen_other, made = sample.build(sample.patched, seen_other)
    assert made == set()
    _, made = sample.build(sample.base, seen_other)
    assert made == {"a"}


def test_times_modes_and_links(sample: Sample) -> None:
    target = sample.repo / "a.c"
    before = target.stat().st_mtime_ns
    with laid_out(sample.tree, sample.base, None, cache=sample.cache, scope=sample.scope) as at:
        for path in at.path.rglob("*"):
            if not path.is_dir():
                assert path.lstat().st_mtime_ns == EPOCH, path
        assert os.access(at.path / "run.sh", os.X_OK)
        assert not os.access(at.path / "a.c", os.X_OK)
        assert (at.path / "link").readlink() == Path("a.c")
    assert target.stat().st_mtime_ns == before


def test_files_folders_and_links_in_each_others_place(sample: Sample) -> None:
    sample.lay_out(sample.base)
    git(sample.repo, "rm", "-q", "-r", "sub", "a.c", "link", "run.sh")
    sample.write("sub", "a file now\n")
    sample.write("a.c/inside", "a folder now\n")
    sample.write("link/inside", "a folder now\n")
    (sample.repo / "run.sh").symlink_to("Makefile")
    turned = sample.commit()
    seen = sample.lay_out(turned, FileTimes(tree_id=sample.base, later={}))
    assert "a.c/inside" in seen.later
    assert "a.c" not in seen.later
    seen = sample.lay_out(sample.base, seen)
    assert "sub/deep/x" in seen.later


def test_nothing_is_touched_through_a_symlink(sample: Sample, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "deep").mkdir()
    victim = outside / "deep" / "x"
    victim.write_text("mine")
    before = victim.stat()
    git(sample.repo, "rm", "-q", "-r", "sub")
    (sample.repo / "sub").symlink_to(outside)
    evil = sample.commit()
    seen = sample.lay_out(sample.base)
    for tree in (evil, sample.base, evil, sample.patched):
        seen = sample.lay_out(tree, seen)
    after = victim.stat()
    assert (victim.read_text(), after.st_mtime_ns, after.st_ino) == (
        "mine", before.st_mtime_ns, before.st_ino,
    )  # fmt: skip


def test_a_submodule_s_empty_folder_goes_with_it(sample: Sample) -> None:
    commit_id = git(sample.repo, "rev-parse", "HEAD")
    git(sample.repo, "update-index", "--add", "--cacheinfo", f"160000,{commit_id},lib/module")
    git(sample.repo, "commit", "-q", "-m", "a submodule")
    seen = FileTimes(tree_id=sample.base, later={})
    with laid_out(
        sample.tree, tree_id(sample.repo), seen, cache=sample.cache, scope=sample.scope
    ) as sources:
        assert (sources.path / "lib/module").is_dir()
    sample.lay_out(sample.base)
    assert not (sample.folder / "src" / "lib").exists()


def test_contents_come_as_they_are_whatever_the_attributes(sample: Sample) -> None:
    sample.write(".gitattributes", "*.txt text eol=crlf\n*.id ident\n")
    sample.write("x.txt", "one\n")
    sample.write("x.id", "$Id$\n")
    tree = sample.commit()
    with laid_out(sample.tree, tree, None, cache=sample.cache, scope=sample.scope) as at:
        assert (at.path / "x.txt").read_bytes() == b"one\n"
        assert (at.path / "x.id").read_bytes() == b"$Id$\n"


def test_a_layout_cut_short_is_mended(sample: Sample) -> None:
    seen = sample.lay_out(sample.base)
    state = sample.folder / "state.json"
    halfway = {"trees": [sample.base, sample.patched], "later": {"a.c": 7}}
    for damage in ("half writ", None):
        state.write_text(json.dumps(halfway))
        path = sample.folder / "src" / "a.c"
        path.unlink()
        if damage:
            path.write_text(damage)
        (sample.folder / "index.lock").write_text("")
        assert sample.lay_out(sample.base, seen) == seen
        assert (sample.folder / "src" / "a.c").stat().st_mtime_ns == EPOCH


UNKNOWN = json.dumps({"trees": ["0" * 40], "later": {}})


@pytest.mark.parametrize("text", ["", "{", "[]", UNKNOWN])
def test_where_it_is_unknown_what_lies_there_it_starts_afresh(sample: Sample, text: str) -> None:
    sample.lay_out(sample.base)
    (sample.folder / "src" / "stray").write_text("")
    (sample.folder / "state.json").write_text(text)
    sample.lay_out(sample.base)


def test_a_build_folder_that_saw_a_tree_nobody_knows_gets_all_files_new(sample: Sample) -> None:
    seen = sample.lay_out(sample.base, FileTimes(tree_id="0" * 40, later={}))
    assert set(seen.later) >= {"a.c", "b.c", "common.h", "sub/deep/x"}


def lose_subtree(sample: Sample, tree: str) -> None:
    """Delete a folder's object in the user's repository, as gc does; the tree itself stays."""
    lost = git(sample.repo, "rev-parse", f"{tree}:sub")
    (sample.repo / ".git" / "objects" / lost[:2] / lost[2:]).unlink()


def test_a_tree_that_gc_took_a_part_of_is_unknown(sample: Sample) -> None:
    sample.write("sub/deep/x", "other\n")
    other = sample.commit()
    sample.lay_out(other)
    lose_subtree(sample, other)
    seen = sample.lay_out(sample.base, FileTimes(tree_id=other, later={}))
    assert set(seen.later) >= {"a.c", "b.c", "sub/deep/x"}


HOLD = """
import sys
from pathlib import Path
from pipeline import cache, repository
from pipeline.scope import Scope
with cache.locked(Path(sys.argv[1]), scope=Scope(60)) as lock:
    at = repository.Git(git_dir=Path(sys.argv[2]), scope=Scope(60), held=(lock,))
    with at.started("cat-file", "--batch") as process:
        print(process.pid, flush=True)
        process.wait()
"""


def test_git_ends_with_a_killed_run_and_holds_the_lock_until_then(
    sample: Sample, tmp_path: Path
) -> None:
    lock, held = tmp_path / "lock", sample.repo / ".git"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, lock, held], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout
        child = int(run.stdout.readline())
        until(lambda: Path(f"/proc/{child}/cmdline").read_bytes().startswith(b"git\0"))
        assert lock.stat().st_ino in inodes(child)
        os.kill(child, signal.SIGSTOP)  # a stopped git does not end by reading nothing
        run.kill()
    until(lambda: not inodes(child))
    with caches.locked(lock, scope=sample.scope):
        pass


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def inodes(pid: int) -> set[int]:
    """The files that a process has open; none where it is gone or a zombie."""
    found = set()
    with suppress(OSError):
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                found.add(path.stat().st_ino)
    return found


def test_cancelled_in_the_middle_and_done_again(sample: Sample) -> None:
    """Whenever the cancel comes, the next layout is whole (`lay_out` checks)."""
    for delay in (0.0, 0.005, 0.01, 0.02, 0.04):
        for tree in (sample.patched, sample.base):
            scope = Scope()
            timer = threading.Timer(delay, scope.cancel)
            timer.start()
            try:
                with laid_out(sample.tree, tree, None, cache=sample.cache, scope=scope):
                    pass
            except Cancelled:
                pass
            timer.join()
            sample.lay_out(tree)


def test_who_would_wait_long_gets_a_folder_of_its_own(sample: Sample) -> None:
    def placed(tree: str, patience: float | None = 0.0) -> AbstractContextManager[Sources]:
        at = {"cache": sample.cache, "scope": Scope(0.2)}
        return laid_out(sample.tree, tree, None, patience=patience, **at)  # type: ignore[arg-type]

    with placed(sample.base) as one, placed(sample.patched) as other:
        assert (one.path.parent, other.path.parent.name) == (
            sample.folder,
            f"{sample.folder.name}+1",
        )
        sample.check(one.path, sample.base)
        sample.check(other.path, sample.patched)
        with pytest.raises(InfraError, match="other runs hold"), placed(sample.base, 9.0):
            pass
        with pytest.raises(InfraError, match="another run holds"), placed(sample.base, None):
            pass
        with placed(sample.base) as third:  # and no fourth
            with pytest.raises(InfraError, match="other runs hold"), placed(sample.base):
                pass
            assert third.path.parent.name == f"{sample.folder.name}+2"
    with placed(sample.patched) as again:  # where it lies already
        assert again.path == other.path


def test_without_room_for_another_folder_it_waits(
    sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample.lay_out(sample.base)
    monkeypatch.setattr("pipeline.layout.SPARE_BYTES", 1 << 60)
    at = {"cache": sample.cache, "patience": 0.0}
    with (
        laid_out(sample.tree, sample.base, None, scope=Scope(1), **at),  # type: ignore[arg-type]
        pytest.raises(InfraError, match="other runs hold"),
        laid_out(sample.tree, sample.base, None, scope=Scope(0.1), **at),  # type: ignore[arg-type]
    ):
        pass


def test_it_is_for_one_at_a_time(sample: Sample) -> None:
    with (
        laid_out(sample.tree, sample.base, None, cache=sample.cache, scope=sample.scope),
        pytest.raises(InfraError, match="other runs"),
        laid_out(sample.tree, sample.patched, None, cache=sample.cache, scope=Scope(0.1)),
    ):
        pass


def test_a_disk_too_full_is_said_before(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.cache.free_bytes", lambda _: 10**9)
    with pytest.raises(InfraError, match="GB free") as caught:
        sample.lay_out(sample.base)
    assert "ktrial clean" in caught.value.hint
