"""The real layout under the real build: file times follow content, so no kernel is a stale one."""

from __future__ import annotations

import platform
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import compiler, configuration, kconfig, layout, recipe, tree
from pipeline.build import build_kernel
from pipeline.catalog import Catalog
from pipeline.model import Build, FileTimes, Fragment, Sources, TreeSpec
from pipeline.progress import Step
from pipeline.sandbox import Sandbox
from pipeline.scope import Scope
from pipeline.workbench import Workbench
from tests.build_setup import request
from tests.conftest import QuietStep
from tests.minikernel_repo import change, git, make_repository, tree_id


def test_there_and_back_to_base(tmp_path: Path, scope: Scope, step: Step) -> None:
    repository = make_repository(tmp_path / "repo")
    change(repository, order=1)
    cache = tmp_path / "cache"
    opened = tree.open_tree(
        TreeSpec(name=str(repository), base="v5.10"), cache=cache, scope=scope, step=step
    )

    def lay_out(seen: FileTimes | None, revision: str) -> AbstractContextManager[Sources]:
        return layout.laid_out(
            opened, tree_id(repository, revision), seen, cache=cache, scope=scope
        )

    def built(revision: str, *, trusted: bool) -> Build:
        result = build_kernel(
            replace(
                request(repository, revision, base="v5.10", trusted=trusted),
                origin=opened.origin,
            ),
            lambda seen: lay_out(seen, revision),
            cache=cache,
            scope=scope,
            step=step,
            log_folder=tmp_path / "log",
        )
        assert isinstance(result, Build), result
        return result

    base = built("v5.10", trusted=True)
    first = base.vmlinux.read_bytes()
    there = built("HEAD", trusted=True)
    second = there.vmlinux.read_bytes()
    assert there.how == "increment on base"
    assert second != first
    for revision, expected in (("v5.10", first), ("HEAD", second), ("v5.10", first)):
        (cache / "builds").rename(tmp_path / f"aside-{len(list(tmp_path.iterdir()))}")
        again = built(revision, trusted=False)
        assert again.how == "increment on base"
        assert again.vmlinux.read_bytes() == expected


# --------------------------------------------------------------------------- the real fragments


ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all trees: each is some 250 MB to fetch and 1.5 GB to lay out."""
    return tmp_path_factory.mktemp("trees")


@pytest.mark.full
@pytest.mark.parametrize("name", ["x86_64", "aarch64"])
@pytest.mark.parametrize("version", ["5.10", "6.1", "6.12"])
def test_every_fragment_holds(
    version: str, name: str, *, trees: Path, tmp_path: Path, scope: Scope
) -> None:
    step = QuietStep()
    opened = tree.open_tree(TreeSpec(name=f"debian:{version}"), cache=trees, scope=scope, step=step)
    at = git(opened.repository, "rev-parse", f"{opened.base}^{{tree}}")
    with layout.laid_out(opened, at, None, cache=trees, scope=scope) as sources:
        bench, fragments = bench_for(name, sources, tmp_path / "made", scope=scope, step=step)
        files = [recipe.FRAGMENTS / f"{each.name}.config" for each in fragments]
        made = configuration.make(bench, fragments, files)
    assert isinstance(made, str), [str(symbol) for symbol in made.lost] or made.words


def bench_for(
    name: str, sources: Sources, folder: Path, *, scope: Scope, step: Step
) -> tuple[Workbench, list[Fragment]]:
    """A bench for an architecture and all fragments that are for it or for every one."""
    shelf = Catalog(data=ROOT / "pipeline" / "data", share=(ROOT,))
    architecture = shelf.architecture(name)
    found = compiler.find(
        shelf.toolchains["gcc"], architecture, machine=platform.machine(), scope=scope
    )
    foreign = set(shelf.architectures) - {name}
    own = [*architecture.fragments, *sorted(shelf.fragments.keys() - foreign)]
    fragments = [shelf.fragments[each] for each in dict.fromkeys(own)]
    (folder / "fragments").mkdir(parents=True)
    (folder / "build").mkdir()
    for each in fragments:
        target = folder / "fragments" / f"{each.name}.config"
        target.write_text(kconfig.render_fragment(each))
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
        jobs=2,
    )
    bench = Workbench(kernel=name, recipe=made, box=box, scope=scope, step=step, logs=folder)
    return bench, fragments
