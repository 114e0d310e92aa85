from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import results
from pipeline.errors import Cancelled, InfraError, UserError


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
