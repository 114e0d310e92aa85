"""Build folders of a run: who starts from which, what others find in them, and clean builds."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import cache as entries
from pipeline import layout, objectcache, ramdisk, settings, tree, verify
from pipeline.catalog import Catalog
from pipeline.errors import InfraError
from pipeline.kernelbuild import Wish
from pipeline.model import Build, Revision, Role, Tree, TreeSpec
from pipeline.progress import Step
from pipeline.scope import Scope
from tests.build_setup import GCC, WISHES, architecture, fragment
from tests.makes import Maker
from tests.minikernel_repo import change, commit, git, make_repository, tree_id


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo")


class Yard(Maker):
    """kernelbuild on a repository of the miniature, with a cache of its own."""

    def __init__(self, folder: Path, repository: Path, scope: Scope, step: Step) -> None:
        self.folder, self.repository, self.scope, self.step = folder, repository, scope, step
        options: dict[str, str | bool | int | None] = {"cache": str(folder / "cache"), "jobs": 2}
        self.settings = settings.read({"HOME": str(folder)}, cwd=folder, options=options)
        self.cache = self.settings.cache
        shelf = Catalog(data=self.settings.data, share=self.settings.share)
        self.shelf = shelf
        # The miniature has no more symbols than these.
        shelf.__dict__["fragments"] = {"base": fragment(WISHES)}
        shelf.__dict__["toolchains"] = {"gcc": GCC}
        self.runs = 0

    def opened(self, repository: Path | None = None) -> Tree:
        spec = TreeSpec(name=str(repository or self.repository), base="v5.10")
        return tree.open_tree(spec, cache=self.cache, scope=self.scope, step=self.step)

    def wish(
        self,
        revision: str,
        *,
        trusted: bool = False,
        below: Build | None = None,
        repository: Path | None = None,
        arch: str = "x86_64",
    ) -> Wish:
        self.runs += 1
        at = repository or self.repository
        commit_id = git(at, "rev-parse", revision)
        base = git(at, "rev-parse", "v5.10")
        return Wish(
            opened=self.opened(at),
            revision=_revision(at, commit_id, f"kernel{self.runs}"),
            base=_revision(at, base, "base"),
            architecture=architecture(arch),
            fragments=(),
            trusted=trusted,
            log_folder=self.folder / f"log{self.runs}",
            below=below,
        )

    def verify(self, wish: Wish, built: Build) -> tuple[str, ...]:
        found = verify.verify(
            wish,
            built,
            shelf=self.shelf,
            settings=self.settings,
            scope=self.scope,
            step=self.step,
        )
        assert found.log
        assert found.log.is_file()
        return found.differing

    def leftovers(self) -> list[Path]:
        places = (self.cache / "work", ramdisk.own())
        return [path for place in places for path in place.glob(".making-*")]


def _revision(repository: Path, commit_id: str, kernel: str) -> Revision:
    tree = tree_id(repository, commit_id)
    return Revision(kernel=kernel, role=Role.PATCHED, commit=commit_id, tree_id=tree)


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place in memory of the test's own; on the disk where the host has none."""
    shared = Path("/dev/shm") if ramdisk.is_memory(Path("/dev/shm")) else None
    with tempfile.TemporaryDirectory(prefix="ktrial-test-", dir=shared) as folder:
        monkeypatch.setattr(ramdisk, "SHARED", Path(folder))
        yield Path(folder)


@pytest.fixture
def yard(tmp_path: Path, repository: Path, scope: Scope, step: Step) -> Yard:
    return Yard(tmp_path, repository, scope, step)


def compiled(built: Build) -> list[str]:
    lines = built.log.read_text().splitlines()
    return [line.split()[1] for line in lines if line.startswith("  CC ")]


def other_file(repository: Path) -> str:
    """A change of a file other than mm/slub.c."""
    path = repository / "lib/clamp.c"
    path.write_text(path.read_text() + "\nint ktrial_note;\n")
    return commit(repository, "lib: note")


def test_folder_of_a_stranger_s_build_lives_as_long_as_the_run(
    repository: Path, yard: Yard
) -> None:
    there = change(repository, order=1)
    yard.make(yard.wish("v5.10", trusted=True))
    with ExitStack() as stack:
        built = yard.make(yard.wish(there), stack)
        assert built.workspace
        assert (built.workspace / "build/vmlinux").read_bytes() == built.vmlinux.read_bytes()
        assert yard.leftovers() == [built.workspace]
    assert not yard.leftovers()


def test_patch_of_a_series_starts_from_the_one_below(repository: Path, yard: Yard) -> None:
    first, second = change(repository, order=1), other_file(repository)
    yard.make(yard.wish("v5.10", trusted=True))
    with ExitStack() as stack:
        one = yard.make(yard.wish(first), stack)
        two = yard.make(yard.wish(second, below=one), stack)
    assert (one.how, two.how) == ("increment on base", f"increment on {one.kernel}")
    assert (compiled(one), compiled(two)) == (["mm/slub.o"], ["lib/clamp.o"])
    alone = Yard(yard.folder / "alone", repository, yard.scope, yard.step)
    assert alone.make(alone.wish(second)).digest == two.digest


def test_trusted_build_starts_from_no_stranger_s(repository: Path, yard: Yard) -> None:
    first, second = change(repository, order=1), other_file(repository)
    yard.make(yard.wish("v5.10", trusted=True))
    with ExitStack() as stack:
        one = yard.make(yard.wish(first), stack)
        two = yard.make(yard.wish(second, below=one, trusted=True), stack)
        assert two.how == "increment on base"
        assert sorted(compiled(two)) == ["lib/clamp.o", "mm/slub.o"]
        assert two.workspace
        assert two.workspace.parent.parent == yard.cache / "work"


def test_nearest_folder_is_chosen(repository: Path, yard: Yard) -> None:
    """Not base's, and not that which was used last."""
    near = change(repository, order=1)
    far = other_file(repository)
    git(repository, "checkout", "-q", near)
    there = change(repository, order=2)
    yard.make(yard.wish("v5.10", trusted=True))
    yard.make(yard.wish(near, trusted=True))
    yard.make(yard.wish(far, trusted=True))
    built = yard.make(yard.wish(there))
    assert compiled(built) == ["mm/slub.o"]


def test_clone_continues_from_the_folder_of_the_original(
    repository: Path, yard: Yard, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(repository), str(clone))
    yard.make(yard.wish("v5.10", trusted=True))
    there = change(clone, order=1)
    built = yard.make(yard.wish(there, repository=clone))
    assert (built.how, compiled(built)) == ("increment on base", ["mm/slub.o"])
    assert built.digest == yard.make(yard.wish(there, repository=clone)).digest


def test_folder_of_a_tree_that_the_repository_lacks_is_not_chosen(
    yard: Yard, tmp_path: Path
) -> None:
    other = make_repository(tmp_path / "other")
    strange = change(other, order=5)
    yard.make(yard.wish(strange, repository=other, trusted=True))
    assert yard.make(yard.wish("v5.10")).how == "clean build"


@pytest.mark.parametrize("copy", [True, False])
def test_bench_of_a_build_of_this_run(repository: Path, yard: Yard, copy: bool) -> None:
    there = change(repository, order=1)
    yard.make(yard.wish("v5.10", trusted=True))
    with ExitStack() as stack:
        wish = yard.wish(there)
        built = yard.make(wish, stack)
        assert built.workspace
        with yard.bench(wish, built, copy=copy) as bench:
            assert (bench.build.parent == built.workspace) is not copy
            assert "1)" in (bench.source / "mm/slub.c").read_text()
            assert bench.run(bench.recipe.single({}, "bzImage"), bench.logs / "x.log").ok
            assert "  CC  " not in (bench.logs / "x.log").read_text()
            (bench.build / "mm/slub.o").unlink()
        again = yard.make(yard.wish(other_file(repository), below=built), stack)
        assert set(compiled(again)) == {"lib/clamp.o", *(() if copy else ("mm/slub.o",))}


def test_folder_of_base_comes_back_where_it_is_gone(repository: Path, yard: Yard) -> None:
    there, other = change(repository, order=1), change(repository, order=2)
    base = yard.make(yard.wish("v5.10", trusted=True))
    (yard.cache / "work").rename(yard.folder / "aside")
    first, second = yard.make(yard.wish(there)), yard.make(yard.wish(other))
    assert (first.how, second.how) == ("increment on base", "increment on base")
    (folder,) = (yard.cache / "work").glob("*/*/build")
    assert (folder / "vmlinux").read_bytes() == base.vmlinux.read_bytes()


def test_folder_of_another_version_is_none_of_base(repository: Path, yard: Yard) -> None:
    git(repository, "checkout", "-q", "--orphan", "other")
    for number in range(150):
        (repository / f"include/linux/h{number}.h").write_text("\n")
    other = commit(repository, "another version")
    git(repository, "checkout", "-q", "main")
    yard.make(yard.wish("v5.10", trusted=True))
    (yard.cache / "work").rename(yard.folder / "aside")
    yard.make(yard.wish(other, trusted=True))
    assert yard.make(yard.wish(change(repository, order=1))).how == "increment on base"


def test_bench_of_a_trusted_build_is_a_copy(yard: Yard) -> None:
    with ExitStack() as stack:
        wish = yard.wish("v5.10", trusted=True)
        built = yard.make(wish, stack)
        with yard.bench(wish, built, copy=False) as bench:
            assert bench.build.parent != built.workspace
            (bench.build / "vmlinux").unlink()
        assert built.workspace
        assert (built.workspace / "build/vmlinux").exists()


def test_bench_where_no_folder_is_left(repository: Path, yard: Yard) -> None:
    there = change(repository, order=1)
    yard.make(yard.wish("v5.10", trusted=True))
    yard.make(yard.wish(there))
    wish = yard.wish(there)
    hit = yard.make(wish)
    assert (hit.how, hit.workspace) == ("cached", None)
    with yard.bench(wish, hit) as bench:
        assert (bench.build / "vmlinux").read_bytes() == hit.vmlinux.read_bytes()
        log = bench.logs / "build.log"
        lines = [line for line in log.read_text().splitlines() if line.startswith("  CC ")]
        assert [line.split()[1] for line in lines] == ["mm/slub.o"]
    assert not yard.leftovers()


def test_bench_without_the_sandbox(repository: Path, yard: Yard) -> None:
    yard.settings = replace(yard.settings, sandboxed=False)
    wish = yard.wish(change(repository, order=1))
    built = yard.make(wish)
    with yard.bench(wish, built) as bench:
        assert bench.run(bench.recipe.single({}, "bzImage"), bench.logs / "x.log").ok
        assert "  CC  " not in (bench.logs / "x.log").read_text()
        assert not (bench.logs / "build.log").read_text().count("bwrap")


def test_kernel_that_does_not_build_again_says_so(repository: Path, yard: Yard) -> None:
    wish = yard.wish("v5.10")
    built = yard.make(wish)
    broken = change(repository, order=1)
    path = repository / "mm/slub.c"
    path.write_text(path.read_text().replace(";", "", 1))
    broken = commit(repository, "broken")
    other = replace(wish, revision=_revision(repository, broken, "kernel"))
    with pytest.raises(InfraError, match="does not build again"), yard.bench(other, built):
        pass


def test_folder_that_a_killed_run_left_is_neither_used_nor_kept(
    repository: Path, yard: Yard
) -> None:
    with ExitStack() as stack:
        built = yard.make(yard.wish(change(repository, order=1)), stack)
        assert built.workspace
        dead = built.workspace.with_name(f"{built.workspace.name}-dead")
        shutil.copytree(built.workspace, dead, symlinks=True)
    assert yard.leftovers() == [dead]
    assert yard.make(yard.wish("v5.10")).how == "clean build"
    assert not yard.leftovers()


def test_two_builds_at_once_from_one_folder(repository: Path, yard: Yard) -> None:
    """They share the folder that they start from, the source folder and the cache."""
    yard.make(yard.wish("v5.10", trusted=True))
    trees = [change(repository, order=order) for order in (1, 2, 4, 5)]
    wishes = [yard.wish(each) for each in trees]
    with ExitStack() as stack, ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda wish: yard.make(wish, stack), wishes))
    assert {each.how for each in found} == {"increment on base"}
    alone = Yard(yard.folder / "alone", repository, yard.scope, yard.step)
    assert [alone.make(alone.wish(each)).digest for each in trees] == [e.digest for e in found]
    assert len({each.digest for each in found}) == 4


# --------------------------------------------------------------------------- digests


def test_digest_is_of_what_a_guest_boots(repository: Path, yard: Yard) -> None:
    base = yard.make(yard.wish("v5.10", trusted=True))
    (repository / "README.new").write_text("words\n")
    words = yard.make(yard.wish(commit(repository, "doc: words")))
    code = yard.make(yard.wish(change(repository, order=1)))
    assert base.digest == words.digest != code.digest
    assert len(base.digest) == 64
    memory = base.folder / "metadata.json"
    saved = json.loads(memory.read_text())
    memory.write_text(json.dumps({k: v for k, v in saved.items() if k != "digest"}))
    assert yard.make(yard.wish("v5.10", trusted=True)).digest == base.digest


# --------------------------------------------------------------------------- warnings


def unused(repository: Path, name: str) -> str:
    """A patch that brings an unused variable into lib/clamp.c."""
    path = repository / "lib/clamp.c"
    path.write_text(path.read_text() + f"\nvoid {name}(void)\n{{\n\tint {name}_x;\n}}\n")
    return commit(repository, f"lib: {name}")


def test_warnings_are_those_of_the_whole_kernel(repository: Path, yard: Yard) -> None:
    """Of an increment too, whose log has only what was compiled now."""
    base = unused(repository, "old")
    there = change(repository, order=1)
    quiet = unused(repository, "new")
    first = yard.make(yard.wish(base, trusted=True))
    assert first.warnings is not None
    assert [each.function for each in first.warnings] == ["old"]
    with ExitStack() as stack:
        one = yard.make(yard.wish(there), stack)
        assert one.warnings == first.warnings
        assert compiled(one) == ["mm/slub.o"]
        two = yard.make(yard.wish(quiet, below=one), stack)
        assert two.warnings is not None
        assert [each.function for each in two.warnings] == ["old", "new"]
    assert yard.make(yard.wish(quiet)).warnings == two.warnings


def test_warnings_are_unknown_where_the_folder_s_are(repository: Path, yard: Yard) -> None:
    yard.make(yard.wish("v5.10", trusted=True))
    for path in (yard.cache / "work").glob("*/*/warnings.json"):
        path.unlink()
    assert yard.make(yard.wish(change(repository, order=1))).warnings is None


# --------------------------------------------------------------------------- clean builds


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_increments_are_what_clean_builds_are(repository: Path, yard: Yard, arch: str) -> None:
    """Base, patched, base again, another branch."""
    there = change(repository, order=1)
    header = repository / "include/linux/mini.h"
    header.write_text(header.read_text() + "\n#define KTRIAL_NOTE 1\n")
    branch = commit(repository, "header")
    base = yard.wish("v5.10", trusted=True, arch=arch)
    assert yard.verify(base, yard.make(base)) == ()
    for revision in (there, "v5.10", branch):
        (yard.cache / "builds").rename(yard.folder / f"aside{yard.runs}")
        wish = yard.wish(revision, trusted=True, arch=arch)
        built = yard.make(wish)
        assert built.how.startswith("increment")
        assert yard.verify(wish, built) == ()


def test_what_differs_from_a_clean_build_is_named(repository: Path, yard: Yard) -> None:
    """A layout that forgets that a file has changed leaves its old object in the kernel."""
    wish = yard.wish("v5.10", trusted=True)
    yard.make(wish)
    (memory,) = (yard.cache / "work").glob("*/*/times.json")
    there = yard.wish(change(repository, order=1))
    times = json.loads(memory.read_text())
    lying = memory.parent.with_name(there.revision.tree_id)
    memory.parent.rename(lying)
    (lying / "times.json").write_text(json.dumps(times | {"tree_id": there.revision.tree_id}))
    built = yard.make(there)
    assert set(yard.verify(there, built)) >= {"bzImage", "vmlinux"}


def test_clean_build_takes_nothing_from_ccache(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    wish = yard.wish("v5.10", trusted=True)
    built = yard.make(wish)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("the cache of objects was asked for")

    monkeypatch.setattr("pipeline.objectcache.find", never)
    assert yard.verify(wish, built) == ()


def configured(wish: Wish) -> bool:
    """Whether Kconfig ran for it."""
    return (wish.log_folder / "config.log").exists()


def test_kconfig_runs_only_where_the_configuration_may_be_another(
    repository: Path, yard: Yard
) -> None:
    there = change(repository, order=1)
    menu = repository / "mm/Kconfig"
    menu.write_text(menu.read_text() + "\nconfig KTRIAL_NEW\n\tbool\n\tdefault y\n")
    other = commit(repository, "mm: another symbol")
    base = yard.wish("v5.10", trusted=True)
    yard.make(base)
    assert configured(base)
    same, new = yard.wish(there), yard.wish(other)
    one, two = yard.make(same), yard.make(new)
    assert (configured(same), configured(new)) == (False, True)
    assert "CONFIG_KTRIAL_NEW=y" in two.config.read_text()
    assert one.config.read_text() == yard.make(base).config.read_text()
    alone = Yard(yard.folder / "alone", repository, yard.scope, yard.step)
    wish = alone.wish(there)
    assert (alone.make(wish).digest, alone.make(wish).key) == (one.digest, one.key)
    assert configured(wish)


def test_increment_of_a_stranger_lies_in_memory_where_there_is_plenty(
    repository: Path, yard: Yard, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not ramdisk.place(1):
        pytest.skip("no tmpfs with enough room")
    yard.make(yard.wish("v5.10", trusted=True))
    there, own = change(repository, order=1), other_file(repository)
    with ExitStack() as stack:
        built = yard.make(yard.wish(there), stack)
        assert built.workspace
        assert built.workspace.is_relative_to(memory)
        trusted = yard.make(yard.wish(own, trusted=True), stack)  # others start from that later
        assert trusted.workspace
        assert trusted.workspace.is_relative_to(yard.cache)
    assert not yard.leftovers()
    monkeypatch.setattr(ramdisk, "MOST", 0)
    with ExitStack() as stack:
        on_disk = yard.make(yard.wish(change(repository, order=2)), stack)
        assert on_disk.workspace
        assert on_disk.workspace.is_relative_to(yard.cache)


def test_what_a_killed_run_left_in_memory_goes_with_the_next(yard: Yard) -> None:
    place = ramdisk.place(1)
    if place is None:
        pytest.skip("no tmpfs with enough room")
    yard.make(yard.wish("v5.10", trusted=True))
    with entries.making(place, "group") as alive:  # which sweeps too
        (place / ".making-group-dead").mkdir()
        assert yard.make(yard.wish("v5.10", trusted=True)).how == "cached"
        assert yard.leftovers() == [alive]


def test_what_a_patch_has_compiled_anew_does_not_go_through_ccache(
    repository: Path, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    find = objectcache.find

    def counted(*words: object, trusted: bool, **more: object) -> objectcache.ObjectCache:
        asked.append(trusted)
        return find(*words, trusted=trusted, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("pipeline.objectcache.find", counted)
    yard.make(yard.wish("v5.10", trusted=True))
    built = yard.make(yard.wish(change(repository, order=1)))
    assert (built.how, asked) == ("increment on base", [True])
    alone = Yard(yard.folder / "alone", repository, yard.scope, yard.step)
    assert alone.make(alone.wish("HEAD")).how == "clean build"
    assert asked == [True, False]


def test_layout_tells_how_far_trees_are(repository: Path, yard: Yard) -> None:
    there = change(repository, order=1)
    opened, old = yard.opened(), tree_id(repository, "v5.10")
    paths = layout.differing(opened, old, tree_id(repository, there), yard.scope)
    assert paths == ("mm/slub.c",)
    assert layout.differing(opened, "1" * 40, old, yard.scope) is None
