from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from pipeline import process
from pipeline.errors import Cancelled, InfraError
from pipeline.scope import Scope


def alive(pid: int) -> bool:
    """A zombie is dead: nobody but init can reap a grandchild."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_output_exit_code_and_log(tmp_path: Path, scope: Scope) -> None:
    log, lines = tmp_path / "log", []
    done = process.run(
        ["sh", "-c", "echo out; echo err >&2; exit 3"], scope=scope, log=log, on_line=lines.append
    )
    assert (done.exit_code, done.text, done.ok) == (3, "out\nerr\n", False)
    assert log.read_text() == "$ sh -c 'echo out; echo err >&2; exit 3'\nout\nerr\n"
    assert lines == ["out", "err"]


def test_stderr_can_be_kept_apart(tmp_path: Path, scope: Scope) -> None:
    log = tmp_path / "log"
    done = process.run(
        ["sh", "-c", "echo out; echo err >&2"], scope=scope, log=log, merge_stderr=False
    )
    assert done.text == "out\n"
    assert "err" in log.read_text()


def test_a_large_input_is_fed(scope: Scope) -> None:
    data = os.urandom(1 << 20)
    assert process.run(["cat"], scope=scope, stdin=data).output == data


def test_an_input_that_nobody_reads_is_no_fault(scope: Scope) -> None:
    assert process.run(["true"], scope=scope, stdin=b"x" * (1 << 20)).ok


def test_the_deadline_takes_the_whole_group(scope: Scope) -> None:
    done = process.run(["sh", "-c", "sleep 300 & echo $!; sleep 300"], scope=scope.child(0.5))
    assert done.timed_out
    assert not alive(int(done.text))


def test_a_command_that_closes_its_output_is_still_held_to_the_deadline(scope: Scope) -> None:
    done = process.run(["sh", "-c", "exec >&- 2>&-; sleep 300"], scope=scope.child(0.5))
    assert done.timed_out


def test_what_a_command_leaves_in_its_group_is_ended(scope: Scope) -> None:
    done = process.run(["sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!"], scope=scope)
    assert done.ok
    time.sleep(0.05)
    assert not alive(int(done.text))


def test_cancel_ends_it_at_once(scope: Scope) -> None:
    threading.Timer(0.2, scope.cancel).start()
    started = time.monotonic()
    with pytest.raises(Cancelled):
        process.run(["sleep", "300"], scope=scope)
    assert time.monotonic() - started < 60


def test_a_missing_program_is_named(scope: Scope) -> None:
    with pytest.raises(InfraError, match="no-such-program"):
        process.run(["no-such-program"], scope=scope)


def test_check_quotes_the_last_lines(scope: Scope) -> None:
    done = process.run(["sh", "-c", "echo one; echo two; exit 1"], scope=scope)
    with pytest.raises(InfraError, match=r"it exited with 1: one \| two"):
        process.check(done, "it")
