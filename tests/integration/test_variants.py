"""Fragments that are not for every tree, other bases than tinyconfig, other toolchains."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import build, compiler, compiling, configuration, kconfig, layout, recipe, tree
from pipeline.build import BuildRequest
from pipeline.catalog import Catalog
from pipeline.errors import InfraError
from pipeline.model import Build, BuildFailure, ConfigFailure, Fragment, TreeSpec
from pipeline.progress import Step
from pipeline.sandbox import Sandbox
from pipeline.scope import Scope
from pipeline.workbench import Workbench
from tests.build_setup import Plain, fragment, request
from tests.conftest import QuietStep
from tests.e2e.conftest import CACHE
from tests.minikernel_repo import break_it, commit, git, make_repository

ROOT = Path(__file__).parents[2]
SHELF = Catalog(data=ROOT / "pipeline" / "data", share=(ROOT,))
CLANG = SHELF.toolchains["clang"]
needs_clang = pytest.mark.skipif(
    not all(map(shutil.which, ("clang", CLANG.linker, *CLANG.programs))),
    reason=f"no {CLANG.packages['native']} on this host",
)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo")


class Builder:
    def __init__(self, repository: Path, folder: Path, scope: Scope, step: Step) -> None:
        self.plain = Plain(repository, folder / "sources")
        self.cache, self.logs = folder / "cache", folder / "log"
        self.scope, self.step = scope, step

    def __call__(
        self, wanted: BuildRequest, revision: str = "HEAD"
    ) -> Build | BuildFailure | ConfigFailure:
        return build.build_kernel(
            build.job(
                wanted,
                self.plain.of(revision),
                cache=self.cache,
                scope=self.scope,
                step=self.step,
                log_folder=self.logs,
            )
        )

    def config(self, wanted: BuildRequest, revision: str = "HEAD") -> dict[str, str]:
        built = self(wanted, revision)
        assert isinstance(built, Build), built
        return kconfig.parse_config(built.config.read_text())


@pytest.fixture
def builder(repository: Path, tmp_path: Path, scope: Scope, step: Step) -> Builder:
    return Builder(repository, tmp_path, scope, step)


def own(text: str, name: str = "odd") -> Fragment:
    return kconfig.read_fragment(text, path=Path(f"{name}.config"))


def with_more(repository: Path, *more: Fragment, revision: str = "HEAD") -> BuildRequest:
    wanted = request(repository, revision)
    return replace(wanted, fragments=(*wanted.fragments, *more))


# --------------------------------------------------------------------------- fragments


def test_a_later_fragment_overrides_base_and_what_it_overrides_is_not_lost(
    repository: Path, builder: Builder
) -> None:
    nosmp = fragment({"CONFIG_SMP": "n", "CONFIG_NUMA": "n", "CONFIG_NR_CPUS": "1"}, "nosmp")
    config = builder.config(with_more(repository, nosmp))
    assert (config.get("CONFIG_SMP", "n"), config.get("CONFIG_SLUB")) == ("n", "y")


def test_a_build_tells_what_its_fragments_ask_of_a_guest(
    repository: Path, builder: Builder
) -> None:
    slow = own("# ktrial-slower: 4\n# ktrial-cmdline: page_owner=on\n# ktrial-reserves: 0.1\n")
    wanted = with_more(repository, slow, own("# ktrial-slower: 1.5\n", "more"))
    for how in ("clean build", "cached"):
        built = builder(wanted)
        assert isinstance(built, Build), built
        assert (built.how, built.slower, built.cmdline) == (how, 6, ("page_owner=on",))
        assert built.reserves == 0.1


def test_a_tree_is_not_asked_for_what_it_does_not_claim(repository: Path, builder: Builder) -> None:
    odd = own("# ktrial-only: CONFIG_NONSENSE from 6.1: it came then\nCONFIG_NONSENSE=y\n")
    assert "CONFIG_NONSENSE" not in builder.config(with_more(repository, odd))
    makefile = repository / "Makefile"
    makefile.write_text(
        makefile.read_text()
        .replace("VERSION = 5", "VERSION = 6")
        .replace("PATCHLEVEL = 10", "PATCHLEVEL = 1")
    )
    newer = commit(repository, "Linux 6.1 (miniature)")
    failure = builder(with_more(repository, odd, revision=newer), newer)
    assert isinstance(failure, ConfigFailure)
    assert [lost.symbol for lost in failure.lost] == ["CONFIG_NONSENSE"]
    assert not failure.unsupported


def test_a_fragment_that_is_not_for_the_tree_is_no_fault_of_the_tree(
    repository: Path, builder: Builder
) -> None:
    odd = own("# ktrial-only: on x86_64 from 5.17: it came then\nCONFIG_SMP=n\n")
    failure = builder(with_more(repository, odd))
    assert isinstance(failure, ConfigFailure)
    assert failure.unsupported
    assert failure.words == "kconfig fragment odd is only for x86_64 from 5.17 on: it came then"
    assert "this is 5.10" in failure.log.read_text()
    assert not list(builder.cache.glob("configs/*"))


def test_another_base_takes_the_place_of_what_every_kernel_has(
    repository: Path, builder: Builder
) -> None:
    odd = own("# ktrial-base: defconfig\nCONFIG_SLUB_DEBUG=n\n")
    wanted = request(repository)
    many = replace(wanted, fragments=(fragment({"CONFIG_NONSENSE": "y"}), odd))
    config = builder.config(many)  # base asks for what there is not, but it is not asked
    assert config["CONFIG_SLUB_DEBUG"] == "n"
    assert builder(many).how == "cached"  # type: ignore[union-attr]
    assert not isinstance(builder(replace(many, fragments=many.fragments[:1])), Build)


# --------------------------------------------------------------------------- toolchains


@needs_clang
@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_clang_builds(repository: Path, builder: Builder, arch: str) -> None:
    wanted = request(repository, arch=arch)
    by_gcc, built = builder(wanted), builder(replace(wanted, toolchain=CLANG))
    assert isinstance(by_gcc, Build)
    assert isinstance(built, Build), built
    assert "clang version" in built.compiler
    assert b"clang version" in built.vmlinux.read_bytes()  # .comment
    assert built.key != by_gcc.key
    assert "LLVM=1" in (built.folder / "build.sh").read_text()


@needs_clang
@pytest.mark.parametrize(
    ("fault", "line", "words"),
    [("syntax-error", 6, "expected"), ("link-error", None, "undefined symbol: not_there")],
)
def test_clang_and_lld_tell_where(
    repository: Path, builder: Builder, fault: str, line: int | None, words: str
) -> None:
    broken = break_it(repository, fault)
    failure = builder(replace(request(repository, broken), toolchain=CLANG), broken)
    assert isinstance(failure, BuildFailure), failure
    assert (failure.file, failure.line) == ("mm/slub.c", line)
    assert words in failure.error


def test_a_program_that_a_toolchain_lacks_names_its_packages(
    repository: Path, builder: Builder
) -> None:
    lacking = replace(
        CLANG, probe={"x86_64": "gcc"}, linker="ld", programs=("llvm-no-such-program",)
    )
    with pytest.raises(InfraError, match="llvm-no-such-program is not there") as caught:
        builder(replace(request(repository), toolchain=lacking))
    assert caught.value.hint == "sudo apt-get install clang lld llvm"


# --------------------------------------------------------------------------- the real trees


class Bench:
    """The configuration step alone on a real tree: some seconds each, nothing is compiled."""

    def __init__(self, bench: Workbench, fragments: Path) -> None:
        self._bench, self._folder = bench, fragments

    @property
    def bench(self) -> Workbench:
        return self._bench

    def config(self, name: str) -> str:
        assert not self.make(name)
        return (self._bench.build / ".config").read_text()

    def make(self, name: str) -> str:
        """Nothing where all that the fragment claims holds, else what is wrong."""
        architecture = self._bench.recipe.architecture
        names = dict.fromkeys((*architecture.fragments, name))
        chosen = configuration.choose(self._bench, [SHELF.fragments[each] for each in names])
        if isinstance(chosen, ConfigFailure):
            return "" if chosen.unsupported else chosen.words
        files = compiling.write_fragments(chosen.fragments, self._folder)
        made = configuration.make(self._bench, chosen, files)
        if isinstance(made, ConfigFailure):
            return "; ".join(map(str, made.lost)) or made.words
        assert configuration.facts(made)["NR_CPUS"] != "?"
        return ""


@contextmanager
def bench_for(
    version: str, arch: str, toolchain: str, folder: Path, scope: Scope
) -> Iterator[Bench]:
    if not (CACHE / "trees" / f"debian-{version}" / "metadata.json").exists():
        pytest.skip(f"debian:{version} is not in {CACHE}: a run on it fetches it")
    step = QuietStep()
    opened = tree.open_tree(TreeSpec(name=f"debian:{version}"), cache=CACHE, scope=scope, step=step)
    at = git(opened.repository, "rev-parse", f"{opened.base}^{{tree}}")
    architecture = SHELF.architecture(arch)
    found = compiler.find(
        SHELF.toolchains[toolchain], architecture, machine=platform.machine(), scope=scope
    )
    for name in ("build", "fragments", "sources"):  # sources of its own: runs may want the cache's
        (folder / name).mkdir(parents=True)
    with layout.laid_out(opened, at, None, cache=folder, scope=scope) as sources:
        box = Sandbox(
            source=sources.path,
            build=folder / "build",
            extra={recipe.FRAGMENTS: folder / "fragments"},
        )
        made = recipe.Recipe(
            architecture=architecture,
            compiler=found,
            source=box.seen_source,
            build=box.seen_build,
            jobs=os.cpu_count() or 1,
        )
        bench = Workbench(kernel=arch, recipe=made, box=box, scope=scope, step=step, logs=folder)
        yield Bench(bench, folder / "fragments")


@pytest.mark.full
@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
@pytest.mark.parametrize("version", ["5.10", "6.1", "6.12"])
def test_every_fragment_holds_what_it_claims(
    version: str, arch: str, tmp_path: Path, scope: Scope
) -> None:
    names = SHELF.fragments.keys() - SHELF.architectures.keys()
    with bench_for(version, arch, "gcc", tmp_path, scope) as bench:
        wrong = {name: bench.make(name) for name in sorted(names)}
        assert not {name: why for name, why in wrong.items() if why}
        random = [bench.config(f"randconfig@{seed}") for seed in (42, 43, 42)]
    assert random[0] == random[2] != random[1]


@needs_clang
@pytest.mark.full
@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_clang_configures_a_real_tree(arch: str, tmp_path: Path, scope: Scope) -> None:
    with bench_for("6.12", arch, "clang", tmp_path, scope) as bench:
        assert not bench.make("base")
    assert "\nCONFIG_CC_IS_CLANG=y\n" in (tmp_path / "build" / ".config").read_text()
