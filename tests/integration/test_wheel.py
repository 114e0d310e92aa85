"""The wheel: everything that a checkout has at run time is in it, and it runs from there."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARED = ("kconfigs", "patches", "vm_images")
CACHES = {"__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}

pytestmark = pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="not a checkout")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir"]
    made = subprocess.run([*command, folder, ROOT], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    (path,) = folder.glob("ktrial-*.whl")
    return path


def files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not CACHES.intersection(path.parts):
            yield path


def test_every_data_file_is_in_it(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {str(path.relative_to(ROOT)) for path in files(ROOT / "pipeline")}
    for folder in SHARED:
        below = {str(path.relative_to(ROOT)) for path in files(ROOT / folder)}
        assert below, f"{folder} is empty"
        wanted |= {f"pipeline/_share/{name}" for name in below}
    assert wanted <= names
    assert not [name for name in names if name.startswith(("tests/", "results/"))]


def test_what_is_executable_stays_so(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
    for folder in SHARED:
        for path in files(ROOT / folder):
            if os.access(path, os.X_OK):
                assert modes[f"pipeline/_share/{path.relative_to(ROOT)}"] & 0o111, path


def test_it_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (info,) = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        metadata = archive.read(f"{info}/METADATA").decode()
        assert "ktrial = pipeline.cli:entry" in archive.read(f"{info}/entry_points.txt").decode()
        assert f"{info}/licenses/LICENSE" in archive.namelist()
    assert "License-Expression: GPL-2.0-only" in metadata
    assert "Requires-Python: >=3.11" in metadata
    assert "Requires-Dist: libvirt-python" in metadata


def test_it_runs_from_where_it_was_unpacked(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    empty = tmp_path / "empty"
    empty.mkdir()
    listed = subprocess.run(
        [sys.executable, "-P", "-m", "pipeline", "list"],
        cwd=empty,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(site), "HOME": str(empty)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.returncode == 0, listed.stderr
    for name in ("num_present_cpus", "hackbench", "slab-orders", "smp2", "bench"):
        assert name in listed.stdout
