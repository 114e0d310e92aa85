"""Sessions against a real sshd on localhost, with fresh keys."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.errors import Cancelled
from pipeline.model import NO_SSH
from pipeline.scope import Scope
from pipeline.session import GONE, KILLED, LATE, Credentials, Reply, SshSession

SHELL = "busybox sh" if shutil.which("busybox") else "bash"  # the guest's, or one like it
SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin")
pytestmark = pytest.mark.skipif(SSHD is None, reason="there is no sshd (openssh-server)")


@dataclass(frozen=True, kw_only=True)
class Server:
    process: subprocess.Popen[bytes]
    port: int
    credentials: Credentials


def make_key(path: Path) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True, timeout=60
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("sshd")
    for name in ("host", "client"):
        make_key(folder / name)
    (folder / "authorized").write_text((folder / "client.pub").read_text())
    Path("/run/sshd").mkdir(exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nUsePAM no\n"
        "PermitRootLogin yes\nPasswordAuthentication no\n"
        f'ForceCommand exec {SHELL} -c "$SSH_ORIGINAL_COMMAND"\n'
    )
    assert SSHD is not None
    process = subprocess.Popen(
        [SSHD, "-D", "-e", "-f", str(folder / "config")], stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    while b"Server listening" not in (line := process.stderr.readline()):
        assert line, "sshd does not start"
    threading.Thread(target=process.stderr.read, daemon=True).start()
    yield Server(
        process=process,
        port=port,
        credentials=Credentials(
            private=(folder / "client").read_text(), host_public=(folder / "host.pub").read_text()
        ),
    )
    process.terminate()
    process.wait()


@pytest.fixture
def died() -> threading.Event:
    return threading.Event()


@pytest.fixture
def session(server: Server, died: threading.Event) -> Iterator[SshSession]:
    with SshSession(
        port=server.port, credentials=server.credentials, died=died, user=getpass.getuser()
    ) as opened:
        yield opened


def test_replies(session: SshSession, scope: Scope) -> None:
    reply = session.run("echo out; echo err >&2; exit 3", scope=scope)
    assert (reply.exit_status, reply.text, reply.problem) == (3, "out\nerr\n", "")
    assert not reply.ok
    assert session.run("printf 'a\\377b'", scope=scope).text == "a\ufffdb"
    assert session.run("cat", scope=scope).text == "", "there is nothing on stdin"
    assert len(session.run("seq 1 100000", scope=scope).text) == 588895


@pytest.mark.parametrize("number", [6, 9, 11])
def test_a_command_that_a_signal_ends(session: SshSession, scope: Scope, number: int) -> None:
    """The shell must not run its last command in its own place: that end would be its own."""
    reply = session.run(f"echo before\nsh -c 'kill -{number} $$; sleep 600'", scope=scope)
    assert (reply.exit_status, reply.problem) == (128 + number, "")
    assert reply.text.startswith("before\n")


def test_a_shell_that_a_signal_ends(session: SshSession, scope: Scope) -> None:
    """It has no exit status; the connection is not broken for that."""
    reply = session.run("echo before; kill -9 $$", scope=scope)
    assert (reply.exit_status, reply.text, reply.problem) == (KILLED, "before\n", "")
    assert session.run("echo after", scope=scope).text == "after\n"


def test_one_connection_for_all(session: SshSession, scope: Scope) -> None:
    shown = {session.run("echo $SSH_CONNECTION", scope=scope).text for _ in range(3)}
    assert len(shown) == 1


def test_from_two_threads(session: SshSession, scope: Scope) -> None:
    replies: list[str] = []

    def ask(n: int) -> None:
        replies.append(session.run(f"sleep 0.2; echo {n}", scope=scope).text)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(replies) == [f"{n}\n" for n in range(4)]


def test_no_time_left(session: SshSession, scope: Scope) -> None:
    reply = session.run("echo before; sleep 600", scope=scope.child(1))
    assert (reply.exit_status, reply.text, reply.problem) == (None, "before\n", LATE)
    assert session.run("echo after", scope=scope).text == "after\n"


def test_the_guest_dies_in_a_call(session: SshSession, scope: Scope, died: threading.Event) -> None:
    session.run("true", scope=scope)
    threading.Timer(0.2, died.set).start()
    reply = session.run("echo before; sleep 600", scope=scope)
    assert (reply.exit_status, reply.problem) == (None, GONE)
    assert session.run("true", scope=scope).problem == GONE


def test_the_connection_breaks(session: SshSession, scope: Scope) -> None:
    reply = session.run("kill -9 $PPID; sleep 600", scope=scope)
    assert reply.exit_status is None
    assert reply.problem


def test_cancel(session: SshSession) -> None:
    scope = Scope(600)
    session.run("true", scope=scope)
    threading.Timer(0.2, scope.cancel).start()
    with pytest.raises(Cancelled):
        session.run("sleep 600", scope=scope)


@pytest.fixture
def hung(session: SshSession, scope: Scope) -> Iterator[SshSession]:
    """A session whose server answered one command, and then nothing any more."""
    reply = session.run("echo $PPID", scope=scope)
    pid = int(reply.text)
    os.kill(pid, signal.SIGSTOP)
    yield session
    os.kill(pid, signal.SIGKILL)


def in_vain(session: SshSession, scope: Scope) -> Reply | BaseException:
    """What a call on a hung server ends with; it fails the test instead of waiting with it."""
    ended: list[Reply | BaseException] = []

    def call() -> None:
        try:
            ended.append(session.run("true", scope=scope))
        except Cancelled as cancelled:
            ended.append(cancelled)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(60)
    assert ended, "the call waits on"
    return ended[0]


def test_a_hung_guest_and_the_deadline(hung: SshSession, scope: Scope) -> None:
    """Between commands too: asking for the next channel is not answered."""
    reply = in_vain(hung, scope.child(0.5))
    assert isinstance(reply, Reply)
    assert (reply.exit_status, reply.problem) == (None, LATE)
    reply = hung.run("echo anew", scope=scope)
    assert reply.text == "anew\n", "the next call has a connection of its own"


def test_a_hung_guest_that_dies(hung: SshSession, scope: Scope, died: threading.Event) -> None:
    threading.Timer(0.2, died.set).start()
    reply = in_vain(hung, scope)
    assert isinstance(reply, Reply)
    assert (reply.exit_status, reply.problem) == (None, GONE)


def test_a_hung_guest_and_cancel(hung: SshSession) -> None:
    own = Scope(600)
    threading.Timer(0.2, own.cancel).start()
    assert isinstance(in_vain(hung, own), Cancelled)


def test_a_deadline_that_has_passed_costs_no_connection(session: SshSession, scope: Scope) -> None:
    first = session.run("echo $SSH_CONNECTION", scope=scope).text
    assert session.run("true", scope=scope.child(0)).problem == LATE
    assert session.run("echo $SSH_CONNECTION", scope=scope).text == first


def test_something_left_in_the_background(session: SshSession, scope: Scope) -> None:
    before = time.monotonic()
    reply = session.run("sleep 600 & echo done; exit 0", scope=scope)
    assert (reply.exit_status, reply.text) == (0, "done\n")
    assert time.monotonic() - before < 300


def test_another_host_key_is_refused(
    server: Server, died: threading.Event, scope: Scope, tmp_path: Path
) -> None:
    make_key(tmp_path / "other")
    wrong = Credentials(
        private=server.credentials.private, host_public=(tmp_path / "other.pub").read_text()
    )
    with SshSession(port=server.port, credentials=wrong, died=died) as session:
        reply = session.run("true", scope=scope)
    assert reply.exit_status is None
    assert "key" in reply.problem


def test_another_client_is_refused(
    server: Server, died: threading.Event, scope: Scope, tmp_path: Path
) -> None:
    make_key(tmp_path / "other")
    wrong = Credentials(
        private=(tmp_path / "other").read_text(), host_public=server.credentials.host_public
    )
    with SshSession(port=server.port, credentials=wrong, died=died) as session:
        assert session.run("true", scope=scope).exit_status is None


def test_nobody_answers(server: Server, died: threading.Event, scope: Scope) -> None:
    """A port that takes connections and says nothing: deadline, death and cancel end the wait."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]

        def opened() -> SshSession:
            return SshSession(port=port, credentials=server.credentials, died=died)

        with opened() as session:
            problem = session.run("true", scope=scope.child(0.5)).problem
            assert problem == f"{NO_SSH}: {LATE}"
        own = Scope(600)
        threading.Timer(0.2, own.cancel).start()
        with opened() as session, pytest.raises(Cancelled):
            session.run("true", scope=own)
        threading.Timer(0.2, died.set).start()
        with opened() as session:
            assert session.run("true", scope=scope).problem == GONE


def test_nothing_listens(server: Server, died: threading.Event, scope: Scope) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with SshSession(port=port, credentials=server.credentials, died=died) as session:
            assert "does not connect" in session.run("true", scope=scope).problem
