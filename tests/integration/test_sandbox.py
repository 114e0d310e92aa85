"""The sandbox with the real bubblewrap: what is to be seen in it, and that it ends."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import pidcap, reaper, sandbox
from pipeline.errors import Cancelled, InfraError
from pipeline.limits import Limits
from pipeline.sandbox import Sandbox
from pipeline.scope import Scope


@pytest.fixture
def box(tmp_path: Path) -> Sandbox:
    for name in ("src", "build", "extra"):
        (tmp_path / name).mkdir()
    (tmp_path / "src" / "Makefile").write_text("all:\n")
    (tmp_path / "extra" / "file").write_text("extra")
    return Sandbox(
        source=tmp_path / "src",
        build=tmp_path / "build",
        extra={Path("/fragments"): tmp_path / "extra"},
    )


def said(box: Sandbox, script: str, scope: Scope) -> str:
    return sandbox.run(box, ("sh", "-c", script), scope=scope).text


def test_tree_is_read_only_and_the_build_folder_is_not(box: Sandbox, scope: Scope) -> None:
    text = said(box, "pwd; cat /src/Makefile /fragments/file; echo > /src/x; echo > out", scope)
    assert text.splitlines()[:3] == ["/build", "all:", "extra"] or "extra" in text
    assert "Read-only file system" in text
    assert (box.build / "out").exists()
    assert not (box.source / "x").exists()


def test_nothing_of_the_host_is_seen(box: Sandbox, scope: Scope) -> None:
    seen = set(said(box, "cd /; echo *", scope).split())
    assert seen <= {
        *("bin", "build", "dev", "etc", "fragments", "lib", "lib32", "lib64", "libx32"),
        *("proc", "sbin", "src", "tmp", "usr"),
    }
    assert said(box, "hostname; cat /etc/passwd", scope).startswith("ktrial\n")
    assert "No such file" in said(box, "cat /etc/passwd", scope)


def test_no_network_no_other_processes_no_environment(
    box: Sandbox, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KTRIAL_SECRET", "s3cret")
    devices = said(box, "tail -n +3 /proc/net/dev", scope)
    assert [line.split(":")[0].strip() for line in devices.splitlines()] == ["lo"]
    assert len(said(box, "echo /proc/[0-9]*", scope).split()) < 5
    assert "s3cret" not in said(box, "env", scope)


def test_no_capabilities(box: Sandbox, scope: Scope) -> None:
    status = said(box, "grep -E 'CapEff|NoNewPrivs' /proc/self/status", scope)
    assert status.split() == ["CapEff:", "0" * 16, "NoNewPrivs:", "1"]


OPEN_FOR_WRITING = """
for file in $(find /proc -path '/proc/[0-9]*' -prune -o -type f -perm /222 -print) \
    /proc/sys/kernel/core_pattern; do
    if (: >> "$file") 2>/dev/null; then echo "$file"; fi
done
"""


def test_no_knob_of_the_kernel_is_within_reach(box: Sandbox, scope: Scope) -> None:
    """The files are only opened. A root without capabilities may write to most of them."""
    assert said(box, OPEN_FOR_WRITING, scope) == ""
    assert "kernel" in said(box, "ls /proc/sys", scope)


def test_a_file_cannot_grow_without_end(
    box: Sandbox, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "FILE_BYTES", 4096)
    assert "File too large" in said(box, "trap '' XFSZ; head -c 9999 /dev/zero > big", scope)
    assert (box.build / "big").stat().st_size == 4096


def test_disabled_sandbox_runs_in_the_host_s_build_folder(box: Sandbox, scope: Scope) -> None:
    plain = replace(box, enabled=False)
    assert said(plain, "pwd", scope) == f"{box.build}\n"
    assert plain.seen(Path("/fragments/file")) == box.extra[Path("/fragments")] / "file"
    assert "KTRIAL" not in said(plain, "env", scope)


def test_missing_bwrap_is_told_with_what_to_do(box: Sandbox, scope: Scope) -> None:
    sandbox.require(box, scope=scope)
    gone = replace(box, bwrap="/nonexistent/bwrap")
    with pytest.raises(InfraError) as caught:
        sandbox.require(gone, scope=scope)
    assert "--no-sandbox" in caught.value.hint
    sandbox.require(replace(gone, enabled=False), scope=scope)


def test_refusing_bwrap_is_told_with_its_words(box: Sandbox, scope: Scope, tmp_path: Path) -> None:
    """As where user namespaces are off: bwrap is there and says no."""
    refuses = tmp_path / "bwrap"
    refuses.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
    )
    refuses.chmod(0o755)
    with pytest.raises(InfraError, match="No permissions to create"):
        sandbox.require(replace(box, bwrap=str(refuses)), scope=scope)


def test_cancelled_command_leaves_no_process(box: Sandbox) -> None:
    scope = Scope(60)

    def on_line(_: str) -> None:
        scope.cancel()

    script = "trap '' TERM; setsid sleep 7301 & (trap '' TERM; sleep 7301) & echo up; sleep 7301"
    with pytest.raises(Cancelled):
        sandbox.run(box, ("sh", "-c", script), scope=scope, on_line=on_line)
    assert gone("7301")


def zombies() -> set[str]:
    """Of this process."""
    mine = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    states = {pid: Path(f"/proc/{pid}/stat").read_text() for pid in mine}
    return {pid for pid, state in states.items() if state.rpartition(")")[2].split()[0] == "Z"}


def test_a_process_that_takes_in_orphans_has_no_zombies(box: Sandbox, scope: Scope) -> None:
    """A run is such a process, for its QEMUs' sake: bwrap's second process came to it."""
    ctypes.CDLL(None).prctl(reaper.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = zombies()
    for _ in range(3):
        assert said(box, "echo up", scope).strip() == "up"
    assert zombies() <= before


KILLED = """
import sys
from pathlib import Path
from pipeline import sandbox
from pipeline.scope import Scope
box = sandbox.Sandbox(source=Path(sys.argv[1]), build=Path(sys.argv[2]))
sandbox.run(box, ("sh", "-c", "setsid sleep 7302 & echo up > up; sleep 7302"), scope=Scope(60))
"""


def test_kill_9_of_the_run_leaves_no_process(box: Sandbox) -> None:
    run = subprocess.Popen(
        (sys.executable, "-c", KILLED, box.source, box.build), cwd=Path(__file__).parents[2]
    )
    until((box.build / "up").exists)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert gone("7302")


SMALL = Limits(
    memory=400_000_000, scarce=0, processes=200, written=200_000_000, files=50_000, spare=0
)
BOMBS = {
    "f() { f | f & }; f; sleep 60": "started more than 200 processes",
    "f() { sleep 60 & f; }; f": "started more than 200 processes",
    "perl -e 'for (;;) { push @x, \"x\" x 10000000 }'": "took more than 0.4 GB of memory",
    "while :; do i=$((i+1)); head -c 50000000 /dev/zero > f$i; done": "wrote more than 0.2 GB",
    "for i in $(seq 200); do mkdir d; cd d; done; head -c 100000000 /dev/zero > f; sleep 60": (
        "made more than 100 folders inside each other"
    ),
}


@pytest.mark.parametrize("script", BOMBS)
def test_what_takes_too_much_is_ended_and_named(box: Sandbox, scope: Scope, script: str) -> None:
    done = sandbox.run(box, ("sh", "-c", script), scope=scope, limits=SMALL)
    assert (done.stopped, done.timed_out, done.ok) == (BOMBS[script], False, False)


def test_what_stays_within_its_limits_is_not_ended(box: Sandbox, scope: Scope) -> None:
    script = "for i in 1 2 3; do sleep 0.5 & done; head -c 100000000 /dev/zero > f; wait; sleep 0.5"
    done = sandbox.run(box, ("sh", "-c", script), scope=scope, limits=SMALL)
    assert (done.ok, done.stopped) == (True, "")


def test_a_disk_that_others_filled_is_not_the_tree_s_doing(box: Sandbox, scope: Scope) -> None:
    """With all of the disk to be left to others it is full from the start."""
    full = replace(SMALL, spare=1 << 60)
    little, much = "head -c 1000000 /dev/zero > f", "head -c 150000000 /dev/zero > f"
    done = sandbox.run(box, ("sh", "-c", f"{little}; sleep 0.5"), scope=scope, limits=full)
    assert done.ok
    done = sandbox.run(box, ("sh", "-c", f"{much}; sleep 30"), scope=scope, limits=full)
    assert re.fullmatch(r"wrote 0\.\d GB, and the disk has no more", done.stopped)


def test_nobody_writes_any_more_when_it_returns(box: Sandbox, scope: Scope) -> None:
    script = (
        "(while :; do date +%N > beat; done) > /dev/null 2>&1 & while ! [ -s beat ]; do :; done"
    )
    assert sandbox.run(box, ("sh", "-c", script), scope=scope).ok
    before = (box.build / "beat").stat().st_mtime_ns
    time.sleep(0.2)
    assert (box.build / "beat").stat().st_mtime_ns == before


def test_nothing_but_the_build_folder_and_tmp_can_be_written(box: Sandbox, scope: Scope) -> None:
    """The rest is tmpfs with half of the host's memory each."""
    script = "for f in / /dev /etc /proc; do (: > $f/x) 2>/dev/null && echo $f; done; : > /dev/null"
    assert said(box, script, scope) == ""
    sizes = said(box, "df --output=size -B1 /tmp /dev/shm | tail -n 2", scope).split()
    assert [int(size) for size in sizes] == [sandbox.TMP_BYTES, sandbox.SHM_BYTES]


def test_without_a_cgroup_there_are_fewer_process_ids(
    box: Sandbox, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pidcap, "_cgroup", lambda _: None)
    more = replace(SMALL, processes=1000)  # the kernel wants 301 at least
    done = sandbox.run(box, ("cat", "/proc/sys/kernel/pid_max"), scope=scope, limits=more)
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 14) or os.geteuid():
        pytest.skip("all namespaces have one pid_max, or RLIMIT_NPROC does it")
    assert done.text == f"{1000 + pidcap.SPARE}\n"


AS_A_USER = """
import sys
from pathlib import Path
from pipeline import sandbox
from pipeline.limits import Limits
from pipeline.scope import Scope
box = sandbox.Sandbox(source=Path(sys.argv[1]), build=Path(sys.argv[2]))
small = Limits(memory=4 * 10**8, scarce=0, processes=200, written=2 * 10**8, files=5000, spare=0)
for script in sys.argv[3:]:
    done = sandbox.run(box, ("sh", "-c", script), scope=Scope(60), limits=small)
    print(done.stopped or done.text.strip())
"""
PYTHON = "/usr/bin/python3"  # one that everybody may run


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.skipif(not Path(PYTHON).exists(), reason=f"no {PYTHON}")
def test_works_for_an_ordinary_user(box: Sandbox) -> None:
    os.chown(box.build, 65534, 65534)
    for folder in (box.build, *box.build.parents):
        if folder.owner() == "root" and folder.is_relative_to(Path("/tmp")):
            folder.chmod(folder.stat().st_mode | 0o011)
    code = box.source.parent / "code"
    shutil.copytree(Path(sandbox.__file__).parent, code / "pipeline")
    scripts = ("id -u > who; cat who", *BOMBS)
    done = subprocess.run(
        (PYTHON, "-c", AS_A_USER, box.source, box.build, *scripts),
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={"PYTHONPATH": str(code), "PYTHONDONTWRITEBYTECODE": "1"},
        user=65534,
        group=65534,
        extra_groups=[],
    )
    assert done.stdout.splitlines() == ["65534", *BOMBS.values()], done.stderr


def until(condition: object, seconds: float = 20) -> bool:
    """Wait until a condition holds; False where it never did."""
    assert callable(condition)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def gone(word: str) -> bool:
    """Whether every process with the argument `word` ends (it may take the kernel a moment)."""
    return until(lambda: not _running(word))


def _running(word: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False
