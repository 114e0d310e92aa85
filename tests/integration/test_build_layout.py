"""The real layout under the real build: file times follow content, so no kernel is a stale one."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from pipeline import layout, tree
from pipeline.build import build_kernel, job
from pipeline.model import Build, FileTimes, Sources, TreeSpec
from pipeline.progress import Step
from pipeline.scope import Scope
from tests.build_setup import request
from tests.minikernel_repo import change, make_repository, tree_id


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
            job(
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
