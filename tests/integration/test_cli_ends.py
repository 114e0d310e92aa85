"""Standard input, output and error of the command: closed, full, or left by whoever reads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOG = ROOT / "tests" / "unit" / "consoles" / "oom.log"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
COMMAND = f"{sys.executable} -m pipeline"


def shell(script: str) -> subprocess.CompletedProcess[str]:
    """Run by bash, with the command in `$ktrial`."""
    return subprocess.run(
        ["bash", "-c", f"ktrial={COMMAND!r}; {script}"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("script", "exit_code", "said"),
    [
        (f"$ktrial console - < {LOG}", 1, ""),
        ("$ktrial console - <&-", 1, ""),
        ("$ktrial ktap - <&-", 2, "ktrial: standard input: there is no KTAP in it"),
        ("$ktrial list >&-", 0, ""),
        ("$ktrial list 2>&-", 0, ""),
        ("$ktrial list > /dev/full", 3, "ktrial: cannot write to standard output: No space left"),
        ("$ktrial list > >(:); exit $?", 141, ""),
    ],
)
def test_ends_that_are_not_as_usual(script: str, exit_code: int, said: str) -> None:
    ran = shell(script)
    assert ran.returncode == exit_code, ran.stderr
    assert ran.stderr.startswith(said)
    assert "Traceback" not in ran.stderr
    assert said or not ran.stderr


@pytest.mark.parametrize("verb", ["console", "ktap"])
def test_one_ctrl_c_ends_the_wait_for_standard_input(verb: str) -> None:
    with subprocess.Popen(
        [*COMMAND.split(), verb, "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(LOG.read_bytes())
        process.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(3)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["list", "guests", "--al"], "`ktrial list --help` tells what there is"),
        (["shell", "uname", "-r"], "a command stands behind two dashes: `ktrial shell smp2 -- "),
    ],
)
def test_words_that_nothing_takes_are_told_with_the_verb(words: list[str], hint: str) -> None:
    ran = shell("$ktrial " + " ".join(words))
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"ktrial: unrecognized arguments: {words[-1]}\n")
    assert hint in ran.stderr
