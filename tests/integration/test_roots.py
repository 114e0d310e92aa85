"""Sweeping what dead runs left: only from a folder of our own, and whatever a libvirt does."""

from __future__ import annotations

import os
import shlex
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import process
from pipeline.errors import Cancelled, InfraError
from pipeline.hypervisor import sweep
from pipeline.scope import Scope

NOBODY = 65534
SILENCE = "qemu+unix:///session?socket="
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    folder = tmp_path / "r"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def marker(runtime: Path, tmp_path: Path) -> Path:
    """A lock whose URI has libvirt run a program; that program makes the marker."""
    made, program = tmp_path / "it-was-run", tmp_path / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {shlex.quote(str(made))}\n")
    program.chmod(0o755)
    (runtime / "abc.lock").write_text(f"qemu+ext:///session?command={program}")
    return made


@root_only
def test_a_folder_of_somebody_else(runtime: Path, marker: Path) -> None:
    """Anybody may have made /tmp/ktrial-0 before root did."""
    for path in (runtime, *runtime.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    with pytest.raises(InfraError, match="somebody else") as refused:
        sweep(runtime)
    assert "--runtime" in refused.value.hint
    assert not marker.exists()


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o1777])
def test_a_folder_that_others_may_write_to(runtime: Path, marker: Path, mode: int) -> None:
    runtime.chmod(mode)
    with pytest.raises(InfraError, match="others may write"):
        sweep(runtime)
    assert not marker.exists()


def test_a_link_to_a_folder(runtime: Path, marker: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(runtime)
    with pytest.raises(InfraError):
        sweep(tmp_path / "link")
    assert not marker.exists()


@root_only
def test_a_lock_of_somebody_else(runtime: Path, marker: Path) -> None:
    os.chown(runtime / "abc.lock", NOBODY, NOBODY)
    assert sweep(runtime) == []
    assert not marker.exists()


def test_a_lock_that_is_a_link(runtime: Path, marker: Path, tmp_path: Path) -> None:
    (runtime / "abc.lock").rename(tmp_path / "elsewhere")
    (runtime / "abc.lock").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(runtime / "pipe.lock")
    assert sweep(runtime) == []
    assert not marker.exists()


SWEEP = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from pipeline.hypervisor import sweep
print(sweep(Path(sys.argv[2])))
"""


def test_our_own_lock_is_followed(runtime: Path, marker: Path, scope: Scope) -> None:
    """Otherwise the tests above show nothing. A process that has had the embedded driver open
    finds no way to qemu+ext any more (libvirt 9.0)."""
    root = Path(__file__).parents[2]
    said = process.run((sys.executable, "-c", SWEEP, root, runtime), scope=scope)
    assert said.ok, said.text
    assert marker.exists(), said.text


def test_no_folder_nothing_to_do(tmp_path: Path) -> None:
    assert sweep(tmp_path / "none") == []
    assert not (tmp_path / "none").exists()


def test_guests_at_another_libvirt_are_ended(runtime: Path, tmp_path: Path) -> None:
    """test:///FILE is a libvirt of its own, with the guests that the file says."""
    guest = (
        "<domain type='test'><name>{}</name><memory>4096</memory><os><type>hvm</type></os></domain>"
    )
    node = tmp_path / "node.xml"
    names = ("ktrial-abc-1-boot", "ktrial-abcd-1-boot", "mine")
    node.write_text(f"<node>{''.join(guest.format(name) for name in names)}</node>")
    (runtime / "abc.lock").write_text(f"test://{node}")
    (runtime / "abc").mkdir()
    assert sweep(runtime) == [f"ktrial-abc-1-boot of a dead run at test://{node}"]
    assert list(runtime.iterdir()) == []


def test_a_libvirt_that_cannot_be_reached(runtime: Path, tmp_path: Path) -> None:
    """Its guests run on: the lock is all that knows of them."""
    (runtime / "abc.lock").write_text(f"{SILENCE}{tmp_path}/none")
    (runtime / "abc").mkdir()
    (runtime / "def.lock").touch()
    (words,) = sweep(runtime)
    assert f"{tmp_path}/none" in words
    assert "cannot be reached" in words
    assert sorted(path.name for path in runtime.iterdir()) == ["abc", "abc.lock"]


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[str]:
    """The URI of a libvirt that takes connections and says nothing."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        yield f"{SILENCE}{tmp_path}/s"


def swept(runtime: Path, scope: Scope | None = None) -> list[str] | Cancelled:
    """What a sweep ends with; it fails the test instead of waiting with it."""
    ended: list[list[str] | Cancelled] = []

    def call() -> None:
        try:
            ended.append(sweep(runtime, scope=scope))
        except Cancelled as cancelled:
            ended.append(cancelled)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(60)
    assert ended, "the sweep waits on"
    return ended[0]


def test_a_libvirt_that_does_not_answer(runtime: Path, silent: str) -> None:
    (runtime / "abc.lock").write_text(silent)
    found = swept(runtime)
    assert isinstance(found, list)
    assert found == [f"nothing at {silent}, which does not answer: the next start tries it again"]
    assert (runtime / "abc.lock").exists()


def test_ctrl_c_ends_the_wait_for_it(runtime: Path, silent: str) -> None:
    (runtime / "abc.lock").write_text(silent)
    scope = Scope(600)
    threading.Timer(0.2, scope.cancel).start()
    assert isinstance(swept(runtime, scope), Cancelled)
    assert (runtime / "abc.lock").exists()
