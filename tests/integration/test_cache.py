"""Locks and whole entries, with real processes that are really killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pipeline import cache
from pipeline.errors import Cancelled, InfraError
from pipeline.scope import Scope

HOLD_LOCK = """
import sys, time
from pathlib import Path
from pipeline import cache
from pipeline.scope import Scope
with cache.locked(Path(sys.argv[1]), scope=Scope(60)):
    print("held", flush=True)
    time.sleep(60)
"""
MAKE_ENTRY = """
import sys, time
from pathlib import Path
from pipeline import cache
def make(folder):
    (folder / "half").write_text("half")
    print("half", flush=True)
    time.sleep(60)
cache.entry(Path(sys.argv[1]), make)
"""


def other(script: str, path: Path) -> subprocess.Popen[str]:
    """Another process that has said its first line."""
    process = subprocess.Popen(
        (sys.executable, "-c", script, str(path)),
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout
    assert process.stdout.readline()
    return process


def killed(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    with process:
        process.wait()


def fill(folder: Path) -> None:
    (folder / "whole").write_text("whole")


def test_lock_is_waited_for_and_goes_with_its_holder(tmp_path: Path, scope: Scope) -> None:
    lock = tmp_path / "locks" / "one"
    holder, waited = other(HOLD_LOCK, lock), []
    assert cache.is_locked(lock)

    def on_wait() -> None:
        waited.append(1)
        killed(holder)

    with cache.locked(lock, scope=scope, on_wait=on_wait):
        assert waited == [1]
        assert cache.is_locked(lock)
    assert not cache.is_locked(lock)


def test_lock_holds_between_threads(tmp_path: Path) -> None:
    lock = tmp_path / "one"
    with cache.locked(lock, scope=Scope(5)), pytest.raises(InfraError, match="another run"):
        errors: list[BaseException] = []

        def attempt() -> None:
            try:
                with cache.locked(lock, scope=Scope(0.2)):
                    pass
            except InfraError as error:
                errors.append(error)

        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
        raise errors[0]


def test_waiting_for_a_lock_can_be_cancelled(tmp_path: Path) -> None:
    scope = Scope(60)
    with (
        cache.locked(tmp_path / "one", scope=scope),
        pytest.raises(Cancelled),
        cache.locked(tmp_path / "one", scope=scope, on_wait=scope.cancel),
    ):
        pass


def test_shared_locks_do_not_exclude_each_other(tmp_path: Path) -> None:
    scope = Scope(5)
    with (
        cache.locked(tmp_path / "one", scope=scope, shared=True),
        cache.locked(tmp_path / "one", scope=scope, shared=True),
        pytest.raises(InfraError),
        cache.locked(tmp_path / "one", scope=Scope(0.2)),
    ):
        pass


def test_lock_file_that_was_removed_meanwhile_is_made_again(tmp_path: Path, scope: Scope) -> None:
    lock = tmp_path / "one"
    with cache.locked(lock, scope=scope):
        lock.unlink()
        with cache.locked(lock, scope=scope):
            assert lock.exists()


def test_entry_is_made_once(tmp_path: Path) -> None:
    target = tmp_path / "entries" / "one"
    assert cache.entry(target, fill)
    assert not cache.entry(target, lambda folder: pytest.fail(f"made again in {folder}"))
    assert [path.name for path in target.parent.iterdir()] == ["one"]


def test_failed_entry_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        fill(folder)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        cache.entry(tmp_path / "one", fail)
    assert not list(tmp_path.iterdir())


def test_the_first_to_finish_wins(tmp_path: Path) -> None:
    target = tmp_path / "one"

    def slow(folder: Path) -> None:
        (folder / "slow").touch()
        assert cache.entry(target, fill)

    assert not cache.entry(target, slow)
    assert [path.name for path in target.iterdir()] == ["whole"]


def test_entry_of_a_killed_process_is_neither_taken_nor_left(tmp_path: Path) -> None:
    target = tmp_path / "one"
    maker = other(MAKE_ENTRY, target)
    assert not target.exists()
    assert cache.sweep(tmp_path) == 0, "it is alive"
    killed(maker)
    assert cache.entry(target, fill)
    assert {path.name for path in tmp_path.rglob("*")} == {"one", "whole"}


def test_publish_replaces_a_file_whole(tmp_path: Path) -> None:
    target = tmp_path / "file"
    cache.publish(target, lambda path: path.write_text("one"))
    with pytest.raises(OSError):
        cache.publish(target, lambda path: path.joinpath("no").write_text("x"))
    assert target.read_text() == "one"
    cache.publish(target, lambda path: path.write_text("two"))
    assert target.read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_scratch_is_gone_afterwards_whatever_lies_in_it(tmp_path: Path) -> None:
    with cache.scratch(tmp_path, "x") as folder:
        (folder / "a").mkdir()
        (folder / "a" / "b").write_text("")
        (folder / "link").symlink_to("/")
        (folder / "a").chmod(0o500)
    assert not list((tmp_path / "tmp").iterdir())


CLOSED = """
import os, sys
from pathlib import Path
from pipeline import cache
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
with cache.scratch(Path(sys.argv[1]), "x") as folder:
    for closed in (folder / "a" / "b" / "c", folder / "d"):
        closed.mkdir(parents=True)
        (closed / "file").write_text("")
        (closed / "link").symlink_to("/")
    for closed in (folder / "a" / "b" / "c", folder / "a" / "b", folder / "a", folder / "d"):
        closed.chmod(0)
print("made")
"""


def test_folders_that_nobody_may_enter_are_removed_too(tmp_path: Path) -> None:
    """As an ordinary user: root may enter each."""
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    (tmp_path / "cache").mkdir(mode=0o777)
    (tmp_path / "cache").chmod(0o777)
    done = subprocess.run(
        (sys.executable, "-c", CLOSED, tmp_path / "cache"),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "made\n", done.stderr
    assert not list((tmp_path / "cache" / "tmp").iterdir())


def test_folders_in_each_other_without_end_are_removed(tmp_path: Path) -> None:
    here = Path.cwd()
    try:
        with cache.scratch(tmp_path, "x") as folder:
            os.chdir(folder)
            for _ in range(3000):
                Path("deep").mkdir()
                os.chdir("deep")
            os.chdir(here)
        assert not list((tmp_path / "tmp").iterdir())
    finally:
        os.chdir(here)
        subprocess.run(("rm", "-rf", tmp_path / "tmp"), check=True)  # pytest could not


def test_what_cannot_be_removed_hides_no_result_and_keeps_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a file of another user id, which only the sub-uid tools can remove."""

    def refuse(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(cache, "remove", refuse)
    with cache.making(tmp_path, "one") as folder:
        pass
    assert folder.exists()
    assert not cache.is_locked(folder)
    assert cache.sweep(tmp_path) == 0
    with cache.making(tmp_path, "two"):
        pass


def test_used_entries_are_not_removed(tmp_path: Path) -> None:
    target = tmp_path / "one"
    cache.entry(target, fill)
    with cache.using(target), cache.using(target):
        assert not cache.remove_unused(target)
    assert cache.remove_unused(target)
    assert not list(tmp_path.iterdir())
    assert not cache.remove_unused(target)


def test_hit_sets_the_time_of_an_entry(tmp_path: Path) -> None:
    cache.entry(tmp_path / "one", fill)
    os.utime(tmp_path / "one", (1, 1))
    cache.entry(tmp_path / "one", fill)
    assert (tmp_path / "one").stat().st_mtime > 1


def test_free_bytes_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert cache.free_bytes(tmp_path / "a" / "b") > 0
