"""The bubblewrap sandbox in which everything that runs code of a kernel tree runs.

A command in it sees the toolchain (/usr, read-only), the source tree (/src, read-only),
the build folder (/build) and nothing else of the host: no network, no home, no other
processes, an environment of its own. The paths are the same in every build, so kbuild's
command lines, which hold them, stay valid from one build folder to its copy.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline import process
from pipeline.errors import InfraError
from pipeline.scope import Scope

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
SOURCE = Path("/src")
BUILD = Path("/build")
BWRAP = "/usr/bin/bwrap"
TMP_BYTES = 1 << 30
PRLIMIT = "/usr/bin/prlimit"
FILE_BYTES = 8 << 30  # a vmlinux with debug information has less than 1 GB
PROCESSES = 16384  # not for root, whom RLIMIT_NPROC does not bind (copy_process() in fork.c)

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
    sandbox: Sandbox, command: Sequence[str], *, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """The whole command line that runs `command` in the build folder."""
    if not sandbox.enabled:
        return tuple(command)
    return (
        sandbox.bwrap,
        *("--unshare-all", "--die-with-parent", "--cap-drop", "ALL"),
        *("--hostname", "ktrial", "--clearenv"),
        *(word for name, value in environment.items() for word in ("--setenv", name, value)),
        *_toolchain(),
        *("--proc", "/proc", *_kernel_knobs()),
        *("--dev", "/dev", "--size", str(TMP_BYTES), "--tmpfs", "/tmp"),
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
        *("--chdir", str(BUILD), "--", *_limits()),
        *command,
    )


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
    if not Path(PRLIMIT).exists():
        return ()
    return (PRLIMIT, f"--fsize={FILE_BYTES}", f"--nproc={PROCESSES}", "--core=0", "--")


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
) -> process.Completed:
    """Run `command` in the build folder; see `process.run` for what may be raised.

    With --die-with-parent and a PID namespace of its own nothing that the command started
    outlives it, nor this process, however either of them ends. The kernel sends that
    signal when the *thread* that started the command ends: it must wait, as it does here.
    """
    whole = {**ENVIRONMENT, **(environment or {})}
    return process.run(
        arguments(sandbox, command, environment=whole),
        scope=scope,
        log=log,
        cwd=None if sandbox.enabled else sandbox.build,
        env=whole,
        merge_stderr=merge_stderr,
        on_line=on_line,
    )


def require(sandbox: Sandbox, *, scope: Scope) -> None:
    """Raise InfraError where the sandbox cannot be made on this host. Takes about 10 ms."""
    if not sandbox.enabled:
        return
    if not Path(sandbox.bwrap).exists():
        raise InfraError(f"{sandbox.bwrap} is not there, so nothing can be built", hint=HINT)
    process.check(run(sandbox, ("true",), scope=scope), "the build sandbox (bwrap)", hint=HINT)
