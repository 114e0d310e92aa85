"""Building with the real make, on the miniature kernel tree."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.build import BuildRequest, LayOut, build_kernel, job
from pipeline.cache import using
from pipeline.errors import Cancelled, InfraError
from pipeline.model import Build, BuildFailure, ConfigFailure
from pipeline.progress import Step
from pipeline.scope import Scope
from tests.build_setup import WISHES, Plain, architecture, request
from tests.minikernel_repo import break_it, change, commit, git, make_repository


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo")


class Builder:
    """build_kernel with a cache and logs of its own."""

    def __init__(self, folder: Path, scope: Scope, step: Step) -> None:
        self.cache = folder / "cache"
        self.folder, self.scope, self.step = folder, scope, step
        self.runs = 0

    def __call__(
        self, wanted: BuildRequest, lay_out: LayOut, *, scope: Scope | None = None
    ) -> Build | BuildFailure | ConfigFailure:
        self.runs += 1
        return build_kernel(
            job(
                wanted,
                lay_out,
                cache=self.cache,
                scope=scope or self.scope,
                step=self.step,
                log_folder=self.folder / f"log{self.runs}",
            )
        )

    def built(self, wanted: BuildRequest, lay_out: LayOut) -> Build:
        result = self(wanted, lay_out)
        assert isinstance(result, Build), result
        return result

    def leftovers(self) -> list[Path]:
        return [path for path in self.cache.rglob("*") if path.name.startswith(".making-")]


@pytest.fixture
def builder(tmp_path: Path, scope: Scope, step: Step) -> Builder:
    return Builder(tmp_path, scope, step)


@pytest.fixture
def plain(repository: Path, tmp_path: Path) -> Plain:
    return Plain(repository, tmp_path / "sources")


def test_clean_build_leaves_a_whole_entry(repository: Path, builder: Builder, plain: Plain) -> None:
    built = builder.built(request(repository), plain.of("HEAD"))
    assert built.how == "clean build"
    assert built.sandboxed
    assert built.release == "5.10.0"
    assert built.modules is None
    assert built.image.name == "bzImage"
    assert b"ktrial@ktrial #1 Sat Jan  1" in built.image.read_bytes()
    assert "CONFIG_NR_CPUS=64" in built.config.read_text()
    assert "bwrap" in built.log.read_text().splitlines()[0]
    assert {path.name for path in built.folder.iterdir()} == {
        *("bzImage", "vmlinux", "System.map", "config"),
        *("build.log", "build.sh", "metadata.json", "warnings.json"),
    }
    assert json.loads((built.folder / "metadata.json").read_text())["release"] == "5.10.0"
    assert not builder.leftovers()


def test_second_build_is_a_hit_that_needs_no_sources(
    repository: Path, builder: Builder, plain: Plain
) -> None:
    first = builder.built(request(repository), plain.of("HEAD"))
    second = builder.built(request(repository), plain.of("HEAD"))
    assert (second.how, second.key, plain.layouts) == ("cached", first.key, 1)


@pytest.mark.parametrize("name", ["bzImage", "metadata.json"])
def test_an_entry_that_was_cut_short_is_built_again(
    repository: Path, builder: Builder, plain: Plain, name: str
) -> None:
    """Else a guest would not boot, and the patch be charged with it."""
    first = builder.built(request(repository), plain.of("HEAD"))
    content = first.image.read_bytes()
    os.truncate(first.folder / name, (first.folder / name).stat().st_size // 2)
    second = builder.built(request(repository), plain.of("HEAD"))
    assert second.how != "cached"
    assert (second.key, second.image.read_bytes()) == (first.key, content)
    assert builder.built(request(repository), plain.of("HEAD")).how == "cached"


def test_a_damaged_entry_in_use_is_nobodys_fault_but_the_hosts(
    repository: Path, builder: Builder, plain: Plain
) -> None:
    first = builder.built(request(repository), plain.of("HEAD"))
    os.truncate(first.image, 10)
    with using(first.folder), pytest.raises(InfraError, match="is damaged"):
        builder.built(request(repository), plain.of("HEAD"))


def test_builds_are_reproducible(repository: Path, builder: Builder, plain: Plain) -> None:
    there = change(repository, order=1)
    base = builder.built(request(repository, "v5.10"), plain.of("v5.10"))
    increment = builder.built(request(repository, there, base="v5.10"), plain.of(there))
    assert increment.how == "increment on base"
    assert increment.image.read_bytes() != base.image.read_bytes()
    other = Builder(builder.folder / "other", builder.scope, builder.step)
    clean = other.built(request(repository, there), plain.of(there))
    assert clean.how == "clean build"
    assert clean.key == increment.key
    assert clean.image.read_bytes() == increment.image.read_bytes()
    assert clean.vmlinux.read_bytes() == increment.vmlinux.read_bytes()


def test_increment_compiles_only_what_changed(
    repository: Path, builder: Builder, plain: Plain
) -> None:
    there = change(repository, order=1)
    builder.built(request(repository, "v5.10"), plain.of("v5.10"))
    built = builder.built(request(repository, there, base="v5.10", trusted=False), plain.of(there))
    compiled = [line for line in built.log.read_text().splitlines() if "  CC " in line]
    assert [line.split()[1] for line in compiled] == ["mm/slub.o"]


def test_a_bisection_goes_on_from_a_build_that_broke(
    repository: Path, builder: Builder, plain: Plain
) -> None:
    broken = break_it(repository, "syntax-error")
    git(repository, "reset", "-q", "--hard", "v5.10")
    good = change(repository, order=1)
    assert isinstance(builder(request(repository, broken), plain.of(broken)), BuildFailure)
    built = builder.built(request(repository, good), plain.of(good))
    assert built.how == "increment"
    other = Builder(builder.folder / "other", builder.scope, builder.step)
    clean = other.built(request(repository, good), plain.of(good))
    assert clean.image.read_bytes() == built.image.read_bytes()
    # Once there is a whole one, the broken one is not chosen any more.
    last = builder.built(request(repository, "v5.10"), plain.of("v5.10"))
    compiled = [line for line in last.log.read_text().splitlines() if "  CC " in line]
    assert [line.split()[1] for line in compiled] == ["mm/slub.o"]


def test_nothing_continues_from_an_untrusted_build(
    repository: Path, builder: Builder, plain: Plain
) -> None:
    evil, base = change(repository, order=1), "v5.10"
    assert builder.built(request(repository, evil, trusted=False), plain.of(evil)).how == (
        "clean build"
    )
    assert builder.built(request(repository, base), plain.of(base)).how == "clean build"
    folders = [path.parent.name for path in (builder.cache / "work").glob("*/*/times.json")]
    assert folders == [request(repository, base).tree_id]


def test_there_and_back_gives_the_same_kernel(
    repository: Path, builder: Builder, plain: Plain
) -> None:
    """Back to base from a folder that holds the change's objects, which are newer than base."""
    there, back = change(repository, order=1), change(repository, order=0)
    builder.built(request(repository, there), plain.of(there))
    first = builder.built(request(repository, back, base=there), plain.of(back))
    again = change(repository, order=1, subject="and back")
    assert request(repository, again).tree_id == request(repository, there).tree_id
    (builder.cache / "builds").rename(builder.folder / "aside")
    second = builder.built(request(repository, again, base=back), plain.of(again))
    assert first.how == second.how == "increment on base"
    was = builder.folder / "aside" / second.key / "bzImage"
    assert second.image.read_bytes() == was.read_bytes()


def test_arm64_is_cross_built(repository: Path, builder: Builder, plain: Plain) -> None:
    built = builder.built(request(repository, arch="aarch64"), plain.of("HEAD"))
    assert built.image.name == "Image"
    assert built.vmlinux.read_bytes()[18:20] == b"\xb7\x00"  # e_machine: EM_AARCH64


def test_modules_come_as_an_archive(repository: Path, builder: Builder, plain: Plain) -> None:
    built = builder.built(request(repository, symbols=MODULAR), plain.of("HEAD"))
    assert built.modules
    names = names_in(built.modules)
    assert names[0] == "lib/modules"
    assert "lib/modules/5.10.0/kernel/virtio_blk.ko" in names


def test_archive_of_modules_tells_nothing_of_when_and_where(
    repository: Path, builder: Builder, plain: Plain
) -> None:
    """So that a kernel with modules is what it was where nothing in it has changed."""
    (repository / "README.new").write_text("words\n")
    words = commit(repository, "doc: words")
    base = builder.built(request(repository, "v5.10", symbols=MODULAR), plain.of("v5.10"))
    assert base.modules
    heads = re.findall(rb"070701([0-9A-Fa-f]{104})", base.modules.read_bytes())
    assert {int(head[40:48], 16) for head in heads[:-1]} == {946684800}
    assert not [name for name in names_in(base.modules) if name.endswith(("/build", "/source"))]
    time.sleep(1.1)  # its times are in seconds
    built = builder.built(request(repository, words, symbols=MODULAR), plain.of(words))
    assert built.key != base.key
    assert built.digest == base.digest


def names_in(archive: Path) -> list[str]:
    done = subprocess.run(
        ("cpio", "-t", "--quiet"), input=archive.read_bytes(), capture_output=True, check=True
    )
    return done.stdout.decode().splitlines()


BROKEN = {
    "syntax-error": ("mm/slub.c", 6, "expected"),
    "link-error": ("mm/slub.c", None, "undefined reference to `not_there'"),
    "missing-file": ("", None, "No rule to make target"),
    "makefile-error": ("mm/Makefile", 3, "missing separator"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_broken_build_tells_where(
    repository: Path, builder: Builder, plain: Plain, fault: str
) -> None:
    file, line, words = BROKEN[fault]
    broken = break_it(repository, fault)
    failure = builder(request(repository, broken), plain.of(broken))
    assert isinstance(failure, BuildFailure), failure
    assert (failure.file, failure.line) == (file, line)
    assert words in failure.error
    assert failure.error.split("\n")[0] in failure.log.read_text()
    assert not builder.leftovers()
    assert not list(builder.cache.glob("builds/*"))
    assert all((path / "broken").exists() for path in builder.cache.glob("work/*/*"))


def test_lost_symbol_is_named_with_its_unmet_dependency(
    repository: Path, builder: Builder, plain: Plain
) -> None:
    broken = break_it(repository, "lost-symbol")
    failure = builder(request(repository, broken), plain.of(broken))
    assert isinstance(failure, ConfigFailure)
    assert [str(symbol) for symbol in failure.lost] == [
        "CONFIG_SLUB_DEBUG=y (fragment base) is not set: "
        "unmet dependency: BROKEN (n) (mm/Kconfig:5)"
    ]
    assert "CONFIG_SLUB_DEBUG" in failure.log.read_text()
    assert not list(builder.cache.glob("configs/*"))


def test_lost_symbol_behind_a_menu(repository: Path, builder: Builder, plain: Plain) -> None:
    symbols = {**WISHES, "CONFIG_VIRTIO_NET": "y", "CONFIG_NONSENSE": "y"}
    failure = builder(request(repository, symbols=symbols), plain.of("HEAD"))
    assert isinstance(failure, ConfigFailure)
    reasons = {symbol.symbol: symbol.reason for symbol in failure.lost}
    assert "VIRTIO_MENU (n)" in reasons["CONFIG_VIRTIO_NET"]
    assert "no such symbol" in reasons["CONFIG_NONSENSE"]


def test_kconfig_that_cannot_be_read(repository: Path, builder: Builder, plain: Plain) -> None:
    broken = break_it(repository, "kconfig-error")
    failure = builder(request(repository, broken), plain.of(broken))
    assert isinstance(failure, ConfigFailure)
    assert failure.words.startswith("mm/Kconfig:")
    assert failure.lost == ()


def test_patch_that_changes_kconfig_is_an_increment(
    repository: Path, builder: Builder, plain: Plain
) -> None:
    builder.built(request(repository, "v5.10"), plain.of("v5.10"))
    with (repository / "mm/Kconfig").open("a") as sink:
        sink.write('\nconfig BRAND_NEW\n\tbool "New"\n\tdefault y\n')
    there = change(repository, order=1)
    built = builder.built(request(repository, there, base="v5.10"), plain.of(there))
    assert built.how == "increment on base"
    assert "CONFIG_BRAND_NEW=y" in built.config.read_text()


def test_without_sandbox_increments_work_too(
    repository: Path, builder: Builder, plain: Plain
) -> None:
    there = change(repository, order=1)
    base = builder.built(request(repository, "v5.10", sandboxed=False), plain.of("v5.10"))
    built = builder.built(request(repository, there, sandboxed=False), plain.of(there))
    assert (base.how, built.how, built.sandboxed) == ("clean build", "increment", False)
    assert "bwrap" not in built.log.read_text()
    compiled = [line for line in built.log.read_text().splitlines() if "  CC " in line]
    assert [line.split()[1] for line in compiled] == ["mm/slub.o"]


MODULAR = {
    **WISHES,
    **{"CONFIG_MODULES": "y", "CONFIG_VIRTIO_MENU": "y"},
    **{"CONFIG_64BIT": "y", "CONFIG_VIRTIO_BLK": "m"},
}


def test_without_sandbox_a_trusted_build_continues_no_untrusted_one(
    repository: Path, builder: Builder, plain: Plain
) -> None:
    evil = change(repository, order=1)
    wanted = request(repository, "v5.10", sandboxed=False)
    builder.built(wanted, plain.of("v5.10"))
    on_trial = request(repository, evil, sandboxed=False, trusted=False)
    assert builder.built(on_trial, plain.of(evil)).how == "increment"
    (folder,) = (builder.cache / "work").glob("*-host")
    (folder / "build" / "planted.o").write_text("")
    (builder.cache / "builds").rename(builder.folder / "aside")
    assert builder.built(wanted, plain.of("v5.10")).how == "clean build"
    assert not (folder / "build" / "planted.o").exists()


def test_hit_sets_the_times_that_clean_goes_by(
    repository: Path, builder: Builder, plain: Plain
) -> None:
    built = builder.built(request(repository), plain.of("HEAD"))
    (config,) = (builder.cache / "configs").iterdir()
    for folder in (built.folder, config):
        os.utime(folder, (1, 1))
    assert builder.built(request(repository), plain.of("HEAD")).how == "cached"
    assert min(built.folder.stat().st_mtime, config.stat().st_mtime) > 1


def test_other_wishes_with_the_same_configuration_have_a_base_of_their_own(
    repository: Path, builder: Builder, plain: Plain
) -> None:
    """No folder is kept in which nothing was compiled, and none is missing either."""
    there, more = change(repository, order=1), {**WISHES, "CONFIG_MODULES": "n"}
    first = builder.built(request(repository, "v5.10"), plain.of("v5.10"))
    second = builder.built(request(repository, "v5.10", symbols=more), plain.of("v5.10"))
    assert first.config.read_text() == second.config.read_text()
    wanted = request(repository, there, base="v5.10", symbols=more, trusted=False)
    built = builder.built(wanted, plain.of(there))
    assert built.how == "increment on base"
    assert "CC      init/main.o" not in built.log.read_text()


def test_folder_in_which_nothing_was_compiled_is_not_kept(
    repository: Path, builder: Builder, plain: Plain
) -> None:
    """As where `clean` took the configuration away and left the build."""
    builder.built(request(repository), plain.of("HEAD"))
    for name in ("configs", "work"):
        (builder.cache / name).rename(builder.folder / f"aside-{name}")
    assert builder.built(request(repository), plain.of("HEAD")).how == "cached"
    assert not list((builder.cache / "work").glob("*/*/times.json"))


@pytest.mark.parametrize("sandboxed", [True, False])
def test_folder_of_a_clock_that_has_gone_back_is_not_continued(
    repository: Path, builder: Builder, plain: Plain, sandboxed: bool
) -> None:
    there = change(repository, order=1)
    builder.built(request(repository, "v5.10", sandboxed=sandboxed), plain.of("v5.10"))
    (memory,) = (builder.cache / "work").rglob("times.json")
    times = json.loads(memory.read_text())
    made = (memory.parent / "build/vmlinux").stat().st_mtime_ns
    assert made <= times["newest"] <= time.time_ns()
    memory.write_text(json.dumps({**times, "newest": time.time_ns() + 10**12}))
    wanted = request(repository, there, base="v5.10", sandboxed=sandboxed)
    assert builder.built(wanted, plain.of(there)).how == "clean build"


def test_build_sh_repeats_the_build_with_its_modules(
    repository: Path, builder: Builder, plain: Plain, tmp_path: Path
) -> None:
    built = builder.built(request(repository, symbols=MODULAR), plain.of("HEAD"))
    subprocess.run(
        ("sh", built.folder / "build.sh", repository, tmp_path / "again"),
        check=True,
        capture_output=True,
    )
    again = tmp_path / "again" / "arch/x86/boot/bzImage"
    assert again.read_bytes() == built.image.read_bytes()
    assert (tmp_path / "again" / "vmlinux").read_bytes() == built.vmlinux.read_bytes()
    assert built.modules
    assert (tmp_path / "again" / "modules.cpio").read_bytes() == built.modules.read_bytes()


# --------------------------------------------------------------------------- hostile trees


def commit_rule(repository: Path, rule: str) -> str:
    """Run shell words in the tree's build, after vmlinux is linked."""
    path = repository / "scripts/build.mk"
    path.write_text(
        path.read_text().replace(
            "\t@$(NM) -n $@ >", f"\t@{rule.replace('$', '$$')}\n\t@$(NM) -n $@ >"
        )
    )
    return commit(repository, "rule")


def test_tree_cannot_write_its_source_or_see_the_host(
    repository: Path, builder: Builder, plain: Plain, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("s3cret")
    revision = commit_rule(
        repository,
        f"! touch /src/x 2>&1; ! cat {tmp_path}/secret; ! ls /home /root /var; "
        "env | sort; ls / ; ls /proc | grep -c '^[0-9]'; cat /proc/net/dev | wc -l",
    )
    built = builder.built(request(repository, revision), plain.of(revision))
    log = built.log.read_text()
    assert "s3cret" not in log
    assert "Read-only file system" in log
    assert "KTRIAL" not in log
    assert f"HOME={os.environ.get('HOME', '/root')}\n" not in log


def test_link_in_place_of_the_image_is_refused(
    repository: Path, builder: Builder, plain: Plain, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("s3cret")
    path = repository / "scripts/build.mk"
    listing = "$(NM) -n $@ > $(objtree)/System.map"
    text = path.read_text()
    assert listing in text
    path.write_text(text.replace(listing, f"ln -sf {tmp_path}/secret $(objtree)/System.map"))
    revision = commit(repository, "link")
    failure = builder(request(repository, revision), plain.of(revision))
    assert isinstance(failure, BuildFailure)
    assert failure.error == "left a link out of its folder in place of System.map"
    assert not list(builder.cache.glob("builds/*"))


def test_nobody_else_may_enter_the_build_folders(
    repository: Path, builder: Builder, plain: Plain
) -> None:
    builder.built(request(repository), plain.of("HEAD"))
    assert stat.S_IMODE((builder.cache / "work").stat().st_mode) == 0o700


# --------------------------------------------------------------------------- host faults


def test_no_compiler_names_its_package(repository: Path, builder: Builder, plain: Plain) -> None:
    wanted = request(repository)
    odd = replace(
        wanted,
        architecture=replace(architecture("x86_64"), name="riscv64", machines=("riscv64",)),
        toolchain=replace(
            wanted.toolchain,
            compilers={"riscv64": "no-such-cpu-"},
            packages={"riscv64": "gcc-no-such-cpu"},
        ),
    )
    with pytest.raises(InfraError, match="no-such-cpu-gcc") as caught:
        builder(odd, plain.of("HEAD"))
    assert "gcc-no-such-cpu" in caught.value.hint
    assert plain.layouts == 0


def test_full_disk_is_found_before_the_build(
    repository: Path, builder: Builder, plain: Plain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.workspaces.CLEAN_BYTES", 1 << 62)
    with pytest.raises(InfraError, match="too full"):
        builder(request(repository), plain.of("HEAD"))
    assert plain.layouts == 0
    assert not builder.leftovers()


def test_cancelled_build_leaves_nothing(repository: Path, builder: Builder, plain: Plain) -> None:
    revision = commit_rule(repository, "touch /build/WAITING; sleep 4321")
    with pytest.raises(Cancelled):
        cancelled_when_waiting(builder, request(repository, revision), plain.of(revision))
    assert not builder.leftovers()
    assert not running("4321")


def cancelled_when_waiting(builder: Builder, wanted: BuildRequest, lay_out: LayOut) -> None:
    scope = Scope(60)

    def watch() -> None:
        if eventually(lambda: is_waiting(builder)):
            scope.cancel()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        builder(wanted, lay_out, scope=scope)
    finally:
        watcher.join()


def is_waiting(builder: Builder) -> bool:
    """Whether a rule of the tree has said so: make shows what it prints when it has ended."""
    return any((builder.cache / "work").glob(".making-*/build/WAITING"))


def test_deadline_is_the_harness_s_fault(repository: Path, builder: Builder, plain: Plain) -> None:
    revision = commit_rule(repository, "sleep 4322")
    with pytest.raises(InfraError, match="deadline"):
        builder(request(repository, revision), plain.of(revision), scope=Scope(1.5))
    assert not running("4322")


def test_build_without_end_is_the_tree_s_fault(
    repository: Path, builder: Builder, plain: Plain
) -> None:
    revision = commit_rule(repository, "touch /build/WAITING; sleep 4324")
    with pytest.raises(Cancelled):  # with that the configuration is there
        cancelled_when_waiting(builder, request(repository, revision), plain.of(revision))
    failure = builder(replace(request(repository, revision), deadline=1.5), plain.of(revision))
    assert isinstance(failure, BuildFailure), failure
    assert failure.error == "did not end in 1.5 s"
    assert not running("4324")


def test_configuration_without_end_is_the_tree_s_fault(
    repository: Path, builder: Builder, plain: Plain
) -> None:
    script = repository / "scripts/kconfig/conf.sh"
    script.write_text("#!/bin/sh\nsleep 4325\n")
    revision = commit(repository, "forever")
    failure = builder(replace(request(repository, revision), deadline=0.5), plain.of(revision))
    assert isinstance(failure, ConfigFailure), failure
    assert failure.words == "the configuration did not end in 0.5 s"


NO_SPACE = "cc1: fatal error: /tmp/x.s: No space left on device"


def test_full_disk_is_believed_where_it_is_full(
    repository: Path, builder: Builder, plain: Plain, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = commit_rule(repository, f"echo {NO_SPACE}; false")
    failure = builder(request(repository, revision), plain.of(revision))
    assert isinstance(failure, BuildFailure)
    monkeypatch.setattr("pipeline.compiling.LOW_BYTES", 1 << 62)
    with pytest.raises(InfraError, match="No space left"):
        builder(request(repository, revision), plain.of(revision))


BUILD_IT = """
import sys
from pathlib import Path
from pipeline.build import build_kernel, job
from pipeline.scope import Scope
from tests.build_setup import Plain, request
from tests.conftest import QuietStep
folder, revision = Path(sys.argv[1]), sys.argv[2]
build_kernel(
    job(
        request(folder / "repo", revision),
        Plain(folder / "repo", folder / "sources").of(revision),
        cache=folder / "cache",
        scope=Scope(60),
        step=QuietStep(),
        log_folder=folder / "log",
    )
)
"""


def test_kill_9_leaves_no_process_and_the_next_build_clears_up(
    repository: Path, builder: Builder, plain: Plain
) -> None:
    revision = commit_rule(repository, "touch /build/WAITING; setsid sleep 4323 & sleep 4323")
    run = subprocess.Popen(
        (sys.executable, "-c", BUILD_IT, builder.folder, revision), cwd=Path(__file__).parents[2]
    )
    assert eventually(lambda: is_waiting(builder))
    assert running("4323")
    run.kill()
    run.wait()
    assert eventually(lambda: not running("4323"))
    assert builder.leftovers()
    assert builder.built(request(repository, "v5.10"), plain.of("v5.10")).how == "clean build"
    assert not builder.leftovers()


def eventually(condition: Callable[[], bool], seconds: float = 30) -> bool:
    """Wait until a condition holds; False where it never did."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def running(word: str) -> bool:
    """Whether any process has `word` as an argument."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False


def test_two_at_once_build_once(repository: Path, builder: Builder, plain: Plain) -> None:
    results: list[object] = []

    def one() -> None:
        results.append(builder(request(repository), plain.of("HEAD")))

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(result.how for result in results if isinstance(result, Build)) == [
        "cached",
        "clean build",
    ]
    assert plain.layouts == 1
