"""Patches that attack the host, built in the real sandbox with the real make.

`python -m pytest tests/integration/test_hostile.py -s` prints the table.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pipeline import limits, objectcache, pidcap, process
from pipeline.build import build_kernel, job
from pipeline.limits import Limits
from pipeline.model import Build, BuildFailure, ConfigFailure
from pipeline.scope import Scope
from pipeline.watch import Watch
from tests.build_setup import Plain, request
from tests.conftest import QuietStep
from tests.hostile import ATTACKS, WAYS, WON, Attack, patch
from tests.minikernel_repo import commit, make_repository

SMALL = Limits(
    memory=600_000_000, scarce=0, processes=256, written=300_000_000, files=50_000, spare=0
)
SECRET = "s3cret-of-the-host"


class Host:
    """A host with something to lose."""

    def __init__(self, folder: Path, scope: Scope, step: QuietStep) -> None:
        self.folder, self.scope, self.step = folder, scope, step
        self.cache, self.logs = folder / "cache", folder / "logs"
        self.home = folder / "home"
        (self.home / ".ssh").mkdir(parents=True)
        (self.home / ".ssh" / "id_rsa").write_text(SECRET)
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.abstract = socket.socket(socket.AF_UNIX)
        self.name = f"ktrial-hostile-{os.getpid()}"
        self.abstract.bind(f"\0{self.name}")
        self.abstract.listen()
        self.sleeper = subprocess.Popen(("sleep", "600"))
        self.repository = make_repository(folder / "repo")
        self.plain = Plain(self.repository, folder / "sources")

    @property
    def words(self) -> Mapping[str, object]:
        port = self.tcp.getsockname()[1]
        return {"home": self.home, "port": port, "name": self.name, "pid": self.sleeper.pid}

    def build(
        self, revision: str, *, trusted: bool = False
    ) -> Build | BuildFailure | ConfigFailure:
        return build_kernel(
            job(
                request(self.repository, revision, trusted=trusted),
                self.plain.of(revision),
                cache=self.cache,
                scope=self.scope,
                step=self.step,
                log_folder=self.logs,
            )
        )

    @property
    def log(self) -> str:
        return (self.logs / "build.log").read_text(errors="replace")

    def objects(self) -> Mapping[str, str]:
        """What the cache of objects holds. (ccache notes a hit in a file of counters.)"""
        return {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in (self.cache / "ccache").rglob("*")
            if path.is_file()
        }

    def check(self) -> None:
        """That nothing was read, written, reached or left."""
        assert sorted(path.name for path in self.home.rglob("*")) == [".ssh", "id_rsa"]
        assert (self.home / ".ssh" / "id_rsa").read_text() == SECRET
        assert self.sleeper.poll() is None
        for listener in (self.tcp, self.abstract):
            listener.setblocking(False)
            with pytest.raises(BlockingIOError):
                listener.accept()
        assert not running("7411")
        assert not any("\x1b" in note for note in self.step.notes)
        assert stat.S_IMODE((self.cache / "work").stat().st_mode) == 0o700
        for path in self.folder.rglob("*"):
            kept = path.is_relative_to(self.cache) or path.is_relative_to(self.logs)
            if kept and path.is_file() and not path.is_symlink():
                assert not path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID), path
                assert SECRET.encode() not in path.read_bytes(), path

    def close(self) -> None:
        self.tcp.close()
        self.abstract.close()
        self.sleeper.kill()
        self.sleeper.wait()


@pytest.fixture
def host(
    tmp_path: Path, scope: Scope, step: QuietStep, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Host]:
    monkeypatch.setenv("KTRIAL_SECRET", SECRET)
    monkeypatch.setattr(limits, "of_host", lambda _: SMALL)
    monkeypatch.setattr(process, "LOG_BYTES", 1 << 20)
    made = Host(tmp_path, scope, step)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ATTACKS)
def test_attack(host: Host, name: str, way: str) -> None:
    attack = ATTACKS[name]
    assert isinstance(host.build("v5.10", trusted=True), Build)
    before = host.objects()
    outcome = host.build(patch(host.repository, attack, way, host.words))
    seen = judged(attack, outcome, host.log)
    print(f"\n{name} | {way} | {seen}")
    assert WON not in host.log.replace("&& echo WON", "")
    assert host.objects() == before
    host.check()


@pytest.mark.skipif(os.geteuid() != 0, reason="RLIMIT_NPROC limits an ordinary user")
@pytest.mark.parametrize("cap", ["cgroup", "process ids"])
def test_refused_process_is_reported_though_the_watch_never_looked(
    host: Host, cap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell that cannot fork ends, and the recipe goes past that."""
    folder = pidcap._cgroup(SMALL.processes) if cap == "cgroup" else None
    if cap == "cgroup":
        if folder is None or not pidcap._removed(folder):
            pytest.skip("no cgroup can be made here")
    elif tuple(map(int, os.uname().release.split(".")[:2])) < (6, 14):
        pytest.skip("all namespaces have one pid_max")
    else:
        monkeypatch.setattr(pidcap, "_cgroup", lambda _: None)
    assert isinstance(host.build("v5.10", trusted=True), Build)
    monkeypatch.setattr(Watch, "look", lambda _: "")
    attack = ATTACKS["start threads without end"]
    outcome = host.build(patch(host.repository, attack, "Makefile", host.words))
    judged(attack, outcome, host.log)
    host.check()


@pytest.mark.skipif(not objectcache.PROGRAM.exists(), reason="ccache is not installed")
@pytest.mark.parametrize("way", WAYS)
def test_trusted_build_takes_nothing_that_a_stranger_s_put_into_ccache(
    host: Host, way: str
) -> None:
    """A stranger's clean build has ccache below it (an increment has not)."""
    first = host.build("v5.10", trusted=True)
    assert isinstance(first, Build)
    shutil.rmtree(host.cache / "work")
    before = host.objects()
    assert before
    attack = ATTACKS["overwrite ccache"]
    outcome = host.build(patch(host.repository, attack, way, host.words))
    judged(attack, outcome, host.log)
    assert isinstance(outcome, Build)
    assert outcome.how == "clean build"
    assert re.search("/ccache.*(Read-only file system|Device or resource busy)", host.log)
    assert WON not in host.log.replace("&& echo WON", "")
    assert host.objects() == before
    for place in ("builds", "work"):
        shutil.rmtree(host.cache / place)
    again = host.build("v5.10", trusted=True)
    assert isinstance(again, Build)
    assert (again.how, again.digest) == ("clean build", first.digest)
    counters = {path for path in host.objects() if path.endswith("/stats")}
    objects = {path: content for path, content in host.objects().items() if path not in counters}
    assert objects == {path: it for path, it in before.items() if path not in counters}  # all hits
    host.check()


def judged(attack: Attack, outcome: Build | BuildFailure | ConfigFailure, log: str) -> str:
    """What was seen of it; a build that was not stopped came to its end."""
    if attack.stopped:
        assert isinstance(outcome, BuildFailure), outcome
        assert re.search(attack.seen, outcome.error), outcome
        return f"the build failed: {outcome.error}"
    assert isinstance(outcome, Build), outcome
    found = re.search(attack.seen, log)
    assert found, log[-2000:]
    return f"refused: {found[0]}"


def test_attack_in_the_configuration(host: Host) -> None:
    """Kconfig and $(shell …) run before anything is compiled."""
    path = host.repository / "Makefile"
    bomb = "$(shell f() { f | f & }; f; sleep 60)"
    path.write_text(f"{path.read_text()}\nHOSTILE := {bomb}\n")
    outcome = host.build(commit(host.repository, "hostile"))
    assert isinstance(outcome, ConfigFailure)
    assert re.search(r"started more than \d+ processes", outcome.words)
    host.check()


def running(word: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False
