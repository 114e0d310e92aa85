"""A guest's overlay over an image on a disk, by the real qemu-img."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import process, repeat
from pipeline.errors import InfraError
from pipeline.scope import Scope
from tests import runs

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="there is no qemu-img")


def test_an_overlay_takes_what_is_written(tmp_path: Path, scope: Scope) -> None:
    disk = tmp_path / "base.raw"
    disk.write_bytes(b"ktrial" * 1000 + bytes(1 << 20))
    before = disk.read_bytes()
    overlay = tmp_path / "own.qcow2"
    image = replace(runs.image(), disk=disk, disk_format="raw")
    repeat.lay_over(image, overlay, scope=scope)
    asked = process.run(("qemu-img", "info", "--output=json", overlay), scope=scope)
    told = json.loads(asked.text)
    assert (told["format"], told["backing-filename"]) == ("qcow2", str(disk))
    write = ("qemu-io", "-c", "write -P 7 0 4096", overlay)
    if shutil.which("qemu-io"):
        assert process.run(write, scope=scope).ok
    assert disk.read_bytes() == before


def test_an_image_that_is_gone(tmp_path: Path, scope: Scope) -> None:
    image = replace(runs.image(), disk=tmp_path / "missing", disk_format="qcow2")
    with pytest.raises(InfraError, match="missing"):
        repeat.lay_over(image, tmp_path / "own.qcow2", scope=scope)
