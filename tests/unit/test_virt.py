"""Which libvirts a run may be sent to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.errors import InfraError
from pipeline.hypervisor import Hypervisor
from pipeline.virt import require_usable


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("qemu:///system", "another user"),
        ("qemu+unix:///system?socket=/run/s", "another user"),
        ("qemu:///embed?root=/tmp/r", "another user"),
        ("qemu+ssh://host/session", "files of a run are here"),
        ("qemu://host/system", "files of a run are here"),
        ("qemu+ext:///session?command=/bin/x", "files of a run are here"),
        ("test:///default", "not QEMU"),
        ("nonsense", "not QEMU"),
    ],
)
def test_a_libvirt_that_could_not_read_the_files(uri: str, why: str, tmp_path: Path) -> None:
    with (
        pytest.raises(InfraError, match=why) as refused,
        Hypervisor(runtime=tmp_path / "r", cache=tmp_path, families=(), connect=uri),
    ):
        pass
    assert "--connect" in refused.value.hint
    assert not (tmp_path / "r").exists(), "before anything is done"


def test_the_embedded_one_and_an_ordinary_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    require_usable("qemu:///embed")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    require_usable("qemu:///session")
    require_usable("qemu+unix:///session?socket=/run/s")


def test_for_root_the_session_is_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(InfraError, match="another user"):
        require_usable("qemu:///session")
