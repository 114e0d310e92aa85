from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline import results
from pipeline.errors import Cancelled, InfraError, UserError
from pipeline.model import Revision, Role, Tree


@pytest.mark.parametrize("error", [UserError("bad"), Cancelled()])
def test_bad_input_and_ctrl_c_leave_nothing(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(type(error)), results.new_folder(tmp_path / "a" / "b") as folder:
        (folder.root / "log").write_text("x")
        raise error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [InfraError("disk"), RuntimeError("defect")])
def test_after_any_other_error_the_evidence_stays(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(type(error)), results.new_folder(tmp_path) as folder:
        (folder.root / "log").write_text("x")
        raise error
    assert (folder.root / "log").read_text() == "x"


def test_earlier_results_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    with pytest.raises(Cancelled), results.new_folder(tmp_path):
        raise Cancelled
    assert sorted(path.name for path in tmp_path.iterdir()) == [".gitignore", "old"]


def test_latest_follows_and_never_destroys(tmp_path: Path) -> None:
    with results.new_folder(tmp_path) as first:
        results.point_latest(first)
    with results.new_folder(tmp_path) as second:
        results.point_latest(second)
    assert (tmp_path / "latest").resolve() == second.root
    (tmp_path / "latest").unlink()
    (tmp_path / "latest").mkdir()
    results.point_latest(second)
    assert (tmp_path / "latest").is_dir()
    assert not list(tmp_path.glob(".latest*"))


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    results.write(tmp_path / "a", "old")
    results.write(tmp_path / "a", "new \udcff")
    assert (tmp_path / "a").read_text() == "new ?"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_link_is_a_copy_where_it_must_be(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    results.link(tmp_path / "a", tmp_path / "deep" / "b")
    results.link(tmp_path / "a", tmp_path / "deep" / "b")
    assert (tmp_path / "deep" / "b").read_text() == "x"


def test_a_build_script_says_where_its_source_is(tmp_path: Path) -> None:
    script = tmp_path / "builds" / "x86_64.fix" / "build.sh"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\nmake\n")
    tree = Tree(name="t", origin="o", repository=tmp_path / "r.git", base="b" * 40, version="6.1")
    revision = Revision(kernel="fix", role=Role.PATCHED, commit="c" * 40, tree_id="d" * 40)
    results.name_source(script, tree, revision)
    assert script.read_text().startswith("#!/bin/sh\n# The source: commit cccc")
    assert "git am" not in script.read_text()
    (tmp_path / "series" / "fix").mkdir(parents=True)
    results.name_source(script, tree, revision)
    assert "git am series/fix/*.eml" in script.read_text()
    assert script.stat().st_mode & 0o100


def meets(call: Callable[..., None], *, fails: bool) -> Callable[..., None]:
    """`call`, made by two threads at the same moment."""
    meeting = threading.Barrier(2)

    def both(*given: Path) -> None:
        meeting.wait(10)
        if fails:
            raise OSError("another file system")
        call(*given)

    return both


@pytest.mark.parametrize("linked", [True, False])
def test_boots_beside_each_other_may_keep_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    source, target = tmp_path / "image", tmp_path / "guest" / "image"
    source.write_text("x")
    monkeypatch.setattr("os.link", meets(os.link, fails=not linked))
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(results.link, source, target) for _ in range(2)]:
            done.result()
    assert target.samefile(source) is linked
    assert target.read_text() == "x"
    assert [path.name for path in target.parent.iterdir()] == ["image"]
