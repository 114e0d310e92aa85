"""The bubblewrap sandbox in which everything that runs code of a kernel tree runs.

A command in it sees the toolchain (/usr, read-only), the source tree (/src, read-only),
the build folder (/build) and nothing else of the host: no network, no home, no other
processes, an environment of its own. The paths are the same in every build, so kbuild's
command lines, which hold them, stay valid from one build folder to its copy.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from pipeline import limits as bounds
from pipeline import process, syscalls
from pipeline.errors import InfraError
from pipeline.limits import Limits
from pipeline.scope import Scope
from pipeline.watch import watching

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
SOURCE = Path("/src")
BUILD = Path("/build")
BWRAP = "/usr/bin/bwrap"
TMP_BYTES = 1 << 30
SHM_BYTES = 16 << 20
PRLIMIT = "/usr/bin/prlimit"
CHOOM = "/usr/bin/choom"
FIRST_TO_GO = 700  # oom_score_adj: the kernel ends a build before it ends a guest or an editor
FILE_BYTES = 8 << 30  # a vmlinux with debug information has less than 1 GB
PROCESSES = 16384  # not for root, whom RLIMIT_NPROC does not bind (copy_process() in fork.c)
HELP_SECONDS = 10.0
CAP_SYS_ADMIN = 1 << 21
NO_USERNS = re.compile(r"^\s*--disable-userns\b", re.M)  # bwrap 0.8
# The device nodes in a sandbox are the host's own, and root's: chmod(2) takes no capability of
# their owner. bwrap has no bind that is read-only and a device, but keeps what is read-only.
DEVICES_READ_ONLY = (
    *("/usr/bin/unshare", "--mount", "--propagation", "private", "--", "/bin/sh", "-c"),
    # What is mounted below /dev stays: a build folder may lie in /dev/shm.
    'mount --rbind /dev /dev && mount -o remount,bind,ro /dev && exec "$@"',
    "sh",
)

ENVIRONMENT: Mapping[str, str] = {
    "PATH": PATH,
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "TZ": "UTC",
    "TMPDIR": "/tmp",
}

HINT = (
    "install bubblewrap and let unprivileged user namespaces be made "
    "(sysctl kernel.unprivileged_userns_clone=1), or build with --no-sandbox"
)


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """Where commands run. With `enabled=False` they run on the host with the host's paths.

    `extra`: further host folders, shown read-only at the given path inside; `writable`: those
    that it may write to besides the build folder.
    """

    source: Path
    build: Path
    extra: Mapping[Path, Path] = field(default_factory=dict)  # inside -> on the host
    writable: Mapping[Path, Path] = field(default_factory=dict)  # inside -> on the host
    enabled: bool = True
    bwrap: str = BWRAP

    @property
    def seen_source(self) -> Path:
        """The source tree as a command in here sees it."""
        return SOURCE if self.enabled else self.source

    @property
    def seen_build(self) -> Path:
        return BUILD if self.enabled else self.build

    def seen(self, inside: Path) -> Path:
        """A path below one of the `extra` folders as a command in here sees it."""
        if self.enabled:
            return inside
        for mount, host in self.extra.items():
            if inside.is_relative_to(mount):
                return host / inside.relative_to(mount)
        return inside


def arguments(
    sandbox: Sandbox,
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    options: Sequence[str] = (),
) -> tuple[str, ...]:
    """The whole command line that runs `command` in the build folder. `options`: of bwrap."""
    if not sandbox.enabled:
        return tuple(command)
    return (
        *(DEVICES_READ_ONLY if _owns_devices() else ()),
        *(sandbox.bwrap, *options),
        *("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *_no_more_namespaces(sandbox.bwrap),
        *("--hostname", "ktrial", "--clearenv"),
        *(word for name, value in environment.items() for word in ("--setenv", name, value)),
        *_toolchain(),
        *("--proc", "/proc", *_kernel_knobs()),
        *("--dev", "/dev", "--size", str(SHM_BYTES), "--tmpfs", "/dev/shm"),
        *("--remount-ro", "/dev", "--size", str(TMP_BYTES), "--tmpfs", "/tmp"),
        *("--ro-bind", str(sandbox.source), str(SOURCE)),
        *("--bind", str(sandbox.build), str(BUILD)),
        *(
            word
            for inside, host in sandbox.extra.items()
            for word in ("--ro-bind", str(host), str(inside))
        ),
        *(
            word
            for inside, host in sandbox.writable.items()
            for word in ("--bind", str(host), str(inside))
        ),
        # Else it is a tmpfs of half the host's memory, as /dev and /dev/shm are.
        *("--remount-ro", "/"),
        *("--chdir", str(BUILD), "--", *_limits()),
        *command,
    )


@cache
def _owns_devices() -> bool:
    """Whether this is root with the powers of root: in a container of a user it is neither."""
    found = re.search(r"^CapEff:\s+(\w+)", Path("/proc/self/status").read_text(), re.M)
    capable = bool(found and int(found[1], 16) & CAP_SYS_ADMIN)
    return os.geteuid() == 0 and capable and Path(DEVICES_READ_ONLY[0]).exists()


@cache
def _no_more_namespaces(bwrap: str) -> tuple[str, ...]:
    """No user namespaces inside: a process has all capabilities in one of its own."""
    try:
        helped = process.run((bwrap, "--help"), scope=Scope(HELP_SECONDS))
    except InfraError:
        return ()
    found = NO_USERNS.search(helped.text)
    return ("--unshare-user", "--disable-userns") if found else ()


def _kernel_knobs(proc: Path = Path("/proc")) -> tuple[str, ...]:
    """The host's /proc/sys and whatever else of /proc may be written, read-only.

    A fresh /proc shows them writable to root, and most ask for the user id alone, not for a
    capability: /proc/sys/kernel/core_pattern names a program that the host runs as root.
    bwrap 0.8 covers irq, bus and sysrq-trigger by itself, but not sys: it asks access(2),
    which says no for that folder though the files in it are open.
    """
    words: list[str] = []
    for path in sorted(proc.iterdir()):
        if not path.name.isdecimal() and not path.is_symlink() and _may_be_written(path):
            words += ["--ro-bind-try", str(path), str(path)]
    return tuple(words)


def _may_be_written(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:  # gone with a module, or a process of another name
        return False
    return stat.S_ISDIR(mode) or (stat.S_ISREG(mode) and bool(mode & 0o222))


def _limits() -> tuple[str, ...]:
    words: tuple[str, ...] = ()
    if Path(PRLIMIT).exists():
        words = (PRLIMIT, f"--fsize={FILE_BYTES}", f"--nproc={PROCESSES}", "--core=0", "--")
    return (*words, *((CHOOM, "-n", str(FIRST_TO_GO), "--") if Path(CHOOM).exists() else ()))


def _toolchain(root: Path = Path("/")) -> tuple[str, ...]:
    """/usr and what points into it. Where /bin and /lib are folders of their own, those too.

    /etc/alternatives: Debian's awk, cc and ld.so links go through it.
    """
    words = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = root / name
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    for optional in ("/etc/alternatives", "/etc/ld.so.cache"):
        words += ["--ro-bind-try", optional, optional]
    return tuple(words)


def run(
    sandbox: Sandbox,
    command: Sequence[str],
    *,
    scope: Scope,
    environment: Mapping[str, str] | None = None,
    log: Path | None = None,
    merge_stderr: bool = True,
    on_line: Callable[[str], None] | None = None,
    limits: Limits | None = None,
) -> process.Completed:
    """Run `command` in the build folder; see `process.run` for what may be raised.

    `limits` are those of the host where none are given; what goes past them is ended, with the
    reason in `stopped`: that is the doing of the tree. Without the sandbox there are none.

    With --die-with-parent and a PID namespace of its own nothing that the command started
    outlives it, nor this process, however either of them ends. The kernel sends that
    signal when the *thread* that started the command ends: it must wait, as it does here.
    When this returns all of it is gone, and nobody writes to the build folder any more.
    """
    whole = {**ENVIRONMENT, **(environment or {})}
    with _guarded(sandbox, limits) as guard:
        done = process.run(
            arguments(sandbox, command, environment=whole, options=guard.options),
            scope=scope,
            log=log,
            cwd=None if sandbox.enabled else sandbox.build,
            env=whole,
            merge_stderr=merge_stderr,
            on_line=on_line,
            watch=guard.look,
            pass_fds=guard.descriptors,
        )
        # Also where it ended well: a shell that goes past what it cannot fork does.
        stopped = done.timed_out or done.stopped
        return done if stopped else replace(done, stopped=guard.refused(done.output))


@dataclass(frozen=True, kw_only=True)
class _Guard:
    """What a run in the sandbox is given: bwrap's options, descriptors for it, and the watch."""

    options: tuple[str, ...] = ()
    descriptors: tuple[int, ...] = ()
    look: Callable[[], str] | None = None
    refused: Callable[[bytes], str] = lambda _: ""


@contextmanager
def _guarded(sandbox: Sandbox, limits: Limits | None) -> Iterator[_Guard]:
    if not sandbox.enabled:
        yield _Guard()
        return
    whole = limits or bounds.of_host(sandbox.build)
    with _filter() as calls, watching(whole, sandbox.build) as (watch, info, wait):
        named = {"--info-fd": info, "--block-fd": wait, **({"--seccomp": calls} if calls else {})}
        yield _Guard(
            options=tuple(word for name, each in named.items() for word in (name, str(each))),
            descriptors=tuple(named.values()),
            look=watch.look,
            refused=watch.refused,
        )


@contextmanager
def _filter() -> Iterator[int | None]:
    """A descriptor from which bwrap reads the filter of system calls."""
    program = syscalls.program()
    if not program:
        yield None
        return
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    try:
        os.write(theirs, program)
        os.close(theirs)
        yield ours
    finally:
        os.close(ours)


def require(sandbox: Sandbox, *, scope: Scope) -> None:
    """Raise InfraError where the sandbox cannot be made on this host. Takes about 10 ms."""
    if not sandbox.enabled:
        return
    if not Path(sandbox.bwrap).exists():
        raise InfraError(f"{sandbox.bwrap} is not there, so nothing can be built", hint=HINT)
    process.check(run(sandbox, ("true",), scope=scope), "the build sandbox (bwrap)", hint=HINT)
