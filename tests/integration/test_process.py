from __future__ import annotations

import os
import subprocess
import sys
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


def ends(pid: int) -> bool:
    """Whether a process that was killed is gone, for which the kernel takes a moment."""
    end = time.monotonic() + 20
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not alive(pid)


def test_output_exit_code_and_log(tmp_path: Path, scope: Scope) -> None:
    log, lines = tmp_path / "log", list[str]()
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
    assert ends(int(done.text))


def test_a_command_that_closes_its_output_is_still_held_to_the_deadline(scope: Scope) -> None:
    done = process.run(["sh", "-c", "exec >&- 2>&-; sleep 300"], scope=scope.child(0.5))
    assert done.timed_out


def test_what_a_command_leaves_in_its_group_is_ended(scope: Scope) -> None:
    done = process.run(["sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!"], scope=scope)
    assert done.ok
    assert ends(int(done.text))


def test_cancel_ends_it_at_once(scope: Scope) -> None:
    threading.Timer(0.2, scope.cancel).start()
    started = time.monotonic()
    with pytest.raises(Cancelled):
        process.run(["sleep", "300"], scope=scope)
    assert time.monotonic() - started < 60


def test_a_missing_program_is_named(scope: Scope) -> None:
    with pytest.raises(InfraError, match="no-such-program"):
        process.run(["no-such-program"], scope=scope)


def test_a_missing_program_is_named_whatever_the_path(tmp_path: Path, scope: Scope) -> None:
    for program in ("no-such-program", tmp_path / "none", "./none"):
        with pytest.raises(InfraError, match="is not there"):
            process.run([program], scope=scope, cwd=tmp_path, env={"PATH": "/usr/bin"})
    (tmp_path / "here").write_text("#!/bin/sh\necho here\n")
    (tmp_path / "here").chmod(0o755)
    assert process.run(["./here"], scope=scope, cwd=tmp_path).text == "here\n"


def test_of_much_output_head_and_tail_are_kept(
    tmp_path: Path, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "KEEP_BYTES", 1 << 20)
    monkeypatch.setattr(process, "LOG_BYTES", 1 << 21)
    lines = list[str]()
    script = "echo first; head -c 5000000 /dev/zero; echo last"
    done = process.run(
        ["sh", "-c", script], scope=scope, log=tmp_path / "log", on_line=lines.append
    )
    assert done.output.startswith(b"first\n\0")
    assert done.output.endswith(b"\0last\n")
    assert b"bytes left out]" in done.output
    assert sum(map(len, lines)) < 200_000
    assert (1 << 20) <= len(done.output) < (1 << 21)
    log = (tmp_path / "log").read_bytes()
    assert len(log) < (1 << 21) + 200
    assert log.endswith(b"the rest of the output is left out]\n")


KILLED = """
import sys
from pipeline import process
from pipeline.scope import Scope
process.run(["sh", "-c", "echo $$; trap '' TERM HUP PIPE; while :; do sleep 1; done"],
            scope=Scope(60), on_line=lambda line: print(line, flush=True))
"""


def test_a_command_ends_with_a_killed_run() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout
        child = int(run.stdout.readline())
        assert alive(child)
        run.kill()
    assert ends(child)


def test_check_quotes_the_last_lines(scope: Scope) -> None:
    done = process.run(["sh", "-c", "echo one; echo two; exit 1"], scope=scope)
    with pytest.raises(InfraError, match=r"it exited with 1: one \| two"):
        process.check(done, "it")
