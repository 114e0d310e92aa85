"""`ktrial shell` as it is typed: commands, scripts, a terminal, the serial console."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from tests.e2e.conftest import TREE, Ktrial

pytestmark = pytest.mark.e2e

KERNEL = ("--tree", TREE)
PATIENCE = 120.0


def test_a_commands_outputs_stay_apart_and_its_exit_status_is_ours(ktrial: Ktrial) -> None:
    script = 'nproc; uname -r; echo complaint >&2; printf "%s|" "$@"; exit 7'
    odd = ("a b", "$HOME", "it's")  # several words are one command, whatever is in them
    ran = ktrial("shell", "smp4", *KERNEL, "--", "sh", "-c", script, "sh", *odd)
    assert ran.exit_code == 7, ran.err
    cpus, release, words = ran.out.splitlines()
    assert (cpus, words) == ("4", "a b|$HOME|it's|")
    assert release.startswith("5.10.")
    assert "complaint" in ran.err


def test_a_script_comes_in_by_standard_input(ktrial: Ktrial) -> None:
    script = b"for i in 1 2 3; do echo $i; done\nexit 5\n"
    ran = ktrial("shell", *KERNEL, stdin=script)
    assert (ran.exit_code, ran.out) == (5, "1\n2\n3\n"), ran.err


def test_a_command_reads_what_comes_in_and_the_signal_that_ends_it_is_told(ktrial: Ktrial) -> None:
    data = os.urandom(1 << 20)
    ran = ktrial("shell", *KERNEL, "--", "wc -c; kill -9 $$", stdin=data)
    assert (ran.exit_code, ran.out.strip()) == (128 + signal.SIGKILL, str(len(data)))


def test_a_panic_is_told_with_its_title_and_ends_at_once(ktrial: Ktrial) -> None:
    ran = ktrial("shell", *KERNEL, "--", "echo c > /proc/sysrq-trigger; sleep 600")
    assert ran.exit_code == 255
    assert "sysrq triggered crash" in ran.err


def test_control_c_ends_a_command_and_leaves_nothing(ktrial: Ktrial) -> None:
    seen: list[float] = []

    def when(_: int) -> bool:
        guests = [pid for pid in ktrial.qemus() if ktrial.is_guest(pid)]
        seen.extend([time.monotonic()] if guests and not seen else [])
        return bool(seen) and time.monotonic() - seen[0] > 1

    ran = ktrial.interrupted("shell", *KERNEL, "--", "sleep 600", when=when)
    assert ran.exit_code == 130, ran.err
    assert not ktrial.qemus()


def test_the_serial_console_runs_what_comes_in_and_tells_of_a_panic(ktrial: Ktrial) -> None:
    script = b"echo $((6 * 7)); ls -d /sys/class/net/e*\necho c > /proc/sysrq-trigger\n"
    ran = ktrial("shell", *KERNEL, "--console", stdin=script)
    assert "Linux version 5.10" in ran.out
    assert "\n42" in ran.out.replace("\r", "")
    assert "No such file" in ran.out  # it needs no network, and has none
    assert ran.exit_code == 255
    assert "the guest is gone: panic:" in ran.err


# --------------------------------------------------------------------------- a person


@dataclass
class Person:
    """Sits at a terminal of 33 rows and 101 columns."""

    process: subprocess.Popen[bytes]
    master: int
    slave: int
    seen: bytes = field(default=b"")

    def wait_for(self, words: bytes) -> None:
        """Until it is on the screen; what came before is forgotten."""
        limit = time.monotonic() + PATIENCE
        while words not in self.seen:
            assert time.monotonic() < limit, self.seen[-2000:]
            if select.select([self.master], [], [], 0.2)[0]:
                self.seen += os.read(self.master, 1 << 16)
            assert self.process.poll() is None or words in self.seen, self.seen[-2000:]
        self.seen = self.seen.partition(words)[2]

    def type(self, keys: bytes) -> None:
        time.sleep(0.2)
        os.write(self.master, keys)

    def leaves(self) -> int:
        """The exit code; its last words are read, so that it need not wait for that."""
        limit = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < limit:
            if select.select([self.master], [], [], 0.05)[0]:
                self.seen += os.read(self.master, 1 << 16)
        return self.process.wait(1)


@contextmanager
def at_a_terminal(ktrial: Ktrial, *arguments: str) -> Iterator[Person]:
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (33, 101))
    before = termios.tcgetattr(slave)
    with subprocess.Popen(
        ktrial.command("shell", *arguments),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=ktrial.cwd,
        env=ktrial.environment() | {"TERM": "vt100"},
        start_new_session=True,
    ) as process:
        try:
            yield Person(process=process, master=master, slave=slave)
        finally:
            process.kill()
            process.wait()
    assert termios.tcgetattr(slave) == before
    os.close(master)
    os.close(slave)


def test_a_shell_for_a_person(ktrial: Ktrial) -> None:
    with at_a_terminal(ktrial, *KERNEL) as person:
        person.wait_for(b"# ")
        person.type(b"stty size; echo $TERM\r")
        person.wait_for(b"33 101")
        person.wait_for(b"vt100")
        termios.tcsetwinsize(person.slave, (44, 122))
        person.type(b"stty size\r")
        person.wait_for(b"44 122")
        person.type(b"sleep 600\r")
        person.wait_for(b"sleep 600")
        person.type(b"\x03")  # goes to the guest
        person.wait_for(b"# ")
        person.type(b"exit 9\r")
        assert person.leaves() == 9


def test_a_person_at_the_serial_console(ktrial: Ktrial) -> None:
    with at_a_terminal(ktrial, *KERNEL, "--console") as person:
        person.wait_for(b"ktrial: ready")
        person.wait_for(b"# ")
        person.type(b"stty size; sleep 600\r")
        person.wait_for(b"33 101")
        person.type(b"\x03")
        person.wait_for(b"# ")
        person.type(b"\x1d")
        assert person.leaves() == 255
