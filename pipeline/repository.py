"""Git, driven through GitPython, kept from doing anything but what it is asked to do.

Git runs with an environment made up here alone: no configuration of the user or the
system, no hooks, no fsmonitor, no filters, no network, no editor, no signing. A
repository of the user is found by reading its files (`find`), is only ever read, and
lends its objects to a bare repository of ours (`borrow`) in which all work happens.
"""

from __future__ import annotations

import functools
import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, cast

import git
from git.exc import GitCommandNotFound

from pipeline import cache as caches
from pipeline import process as processes
from pipeline.errors import InfraError, UserError
from pipeline.scope import Scope
from pipeline.userrepo import Source, object_folders

POLL_SECONDS = 0.05
SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"
NAME, EMAIL = "ktrial", "ktrial@localhost"
ATTRIBUTES = "* -text -ident !eol !filter !working-tree-encoding !merge !diff !whitespace\n"
"""Contents go in and out as they are: this outranks every .gitattributes of the tree."""

CONFIGURATION: Mapping[str, str] = {
    # what a repository's own configuration could make git run
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.sshCommand": "false",
    "core.editor": "false",
    "core.pager": "cat",
    "core.alternateRefsCommand": "false",
    "credential.helper": "",
    "commit.gpgSign": "false",
    "log.showSignature": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    # what would make the result depend on who runs it
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.autocrlf": "false",
    "core.fileMode": "true",
    "core.symlinks": "true",
    "core.quotePath": "false",
    "core.logAllRefUpdates": "false",
    "checkout.workers": "0",
    "am.threeWay": "false",
    "am.messageId": "false",
    "mailinfo.scissors": "false",
    "rerere.enabled": "false",
    "merge.directoryRenames": "false",
    "apply.whitespace": "nowarn",
    "i18n.commitEncoding": "UTF-8",
    "advice.mergeConflict": "false",
    "advice.amWorkDir": "false",
}

ENVIRONMENT: Mapping[str, str] = {
    "PATH": SEARCH_PATH,
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    # Outranks protocol.*.allow, which a repository may set. GIT_NO_LAZY_FETCH came with
    # git 2.45; before, a partial clone tries to fetch and fails for want of a protocol.
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_COMMITTER_NAME": NAME,
    "GIT_COMMITTER_EMAIL": EMAIL,
}


SHIELD = ("/usr/bin/bwrap", "--die-with-parent", "--dev-bind", "/", "/")


@functools.cache
def shield_works() -> bool:
    """Whether bubblewrap can show git a folder as read-only here.

    Without, git sets the time of an object in the user's repository where it makes one
    of the same content (freshen_loose_object() in object-file.c, so that gc keeps it);
    it has no setting for that.
    """
    with suppress(OSError):
        return not subprocess.run(
            (*SHIELD, "--", "true"), capture_output=True, check=False
        ).returncode
    return False


class GitError(InfraError):
    """Git failed where it should not; the message has its words."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What git said: stdout as bytes, stderr as text."""

    exit_code: int
    output: bytes
    words: str

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    @property
    def text(self) -> str:
        return self.output.decode("utf-8", errors="surrogateescape").rstrip("\n")


@dataclass(frozen=True, kw_only=True)
class Git:
    """Git on one git folder; `work_tree` and `index` only where a command needs them.

    GIT_DIR is always given, so git neither searches for a repository nor objects to
    one that belongs to somebody else (safe.directory is about found ones).
    `read_only`: folders that git can read but not change, not even a file's time.
    `held`: descriptors of locks that git keeps for as long as it writes, should we be killed.
    """

    git_dir: Path
    scope: Scope
    work_tree: Path | None = None
    index: Path | None = None
    read_only: tuple[Path, ...] = ()
    held: tuple[int, ...] = ()

    def run(self, *arguments: str, stdin: bytes | None = None) -> Reply:
        """Run to the end; a bad exit is in the reply.

        Raises:
            GitError: git is not there, or the deadline passed.
            Cancelled: the run was cancelled; git and its children are gone by then.
        """
        with _as_file(stdin) as file, self.started(*arguments, stdin=file) as process:
            output, words = self.finish(process, arguments)
        return Reply(
            exit_code=process.returncode,
            output=output,
            words=words.decode("utf-8", errors="replace").strip(),
        )

    def output(self, *arguments: str, stdin: bytes | None = None) -> bytes:
        """Its stdout; GitError where it failed."""
        reply = self.run(*arguments, stdin=stdin)
        if not reply.ok:
            raise failure(arguments, reply.words or f"exit {reply.exit_code}")
        return reply.output

    def text(self, *arguments: str, stdin: bytes | None = None) -> str:
        """Its stdout as text without the last newline; GitError where it failed."""
        return self.output(*arguments, stdin=stdin).decode(errors="surrogateescape").rstrip("\n")

    @contextmanager
    def started(
        self, *arguments: str, stdin: IO[bytes] | int | None = subprocess.PIPE
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Git while it runs, with pipes; its process group is gone when the context ends."""
        # GitPython hands on os.environ; `env -i` keeps GIT_INDEX_FILE and the like out, which
        # git sets for hooks and for `git bisect run`.
        environment = ("/usr/bin/env", "-i", *self._assignments())
        command = [*processes.with_us(), *self._shield(), *environment, "git", *arguments]
        try:
            running = git.Git(str(self.git_dir)).execute(
                command,
                istream=cast(BinaryIO | None, stdin),
                as_process=True,
                start_new_session=True,
                pass_fds=self.held,
            )
        except GitCommandNotFound as error:  # pragma: no cover - coreutils are everywhere
            raise GitError("cannot run git", hint="apt-get install git") from error
        process = running.proc
        assert process is not None
        try:
            yield process
        finally:
            end_group(process)

    def finish(
        self, process: subprocess.Popen[bytes], arguments: tuple[str, ...]
    ) -> tuple[bytes, bytes]:
        """Close its stdin and wait for it; (stdout, stderr)."""
        while True:
            self.scope.check()
            if self.scope.expired:
                raise failure(arguments, "it took too long")
            with suppress(subprocess.TimeoutExpired):
                return process.communicate(timeout=self.scope.remaining(POLL_SECONDS))

    def _shield(self) -> list[str]:
        if not self.read_only or not shield_works():
            return []
        folders = [word for at in self.read_only for word in ("--ro-bind", str(at), str(at))]
        return [*SHIELD, *folders, "--"]

    def _assignments(self) -> list[str]:
        values = {**ENVIRONMENT, "GIT_DIR": str(self.git_dir)}
        if self.work_tree:
            values["GIT_WORK_TREE"] = str(self.work_tree)
        if self.index:
            values["GIT_INDEX_FILE"] = str(self.index)
        values["GIT_CONFIG_COUNT"] = str(len(CONFIGURATION))
        for number, (key, value) in enumerate(CONFIGURATION.items()):
            values[f"GIT_CONFIG_KEY_{number}"] = key
            values[f"GIT_CONFIG_VALUE_{number}"] = value
        return [f"{key}={value}" for key, value in values.items()]


@contextmanager
def _as_file(content: bytes | None) -> Iterator[IO[bytes] | None]:
    """Bytes as a file in memory: communicate() of Python 3.11 sends nothing on after a timeout."""
    if content is None:
        yield None
        return
    with open(os.memfd_create("stdin"), "w+b") as file:
        file.write(content)
        file.seek(0)
        yield file


def failure(arguments: Iterable[str], words: str) -> GitError:
    """The error for a git command that failed, with a hint where its words tell the cause."""
    verb = next((word for word in arguments if not word.startswith("-")), "")
    last = " | ".join(words.splitlines()[-3:])[-500:]
    hint = "free some space, for instance with `ktrial clean`" if "No space left" in words else ""
    if "git: not found" in words or "'git': No such file" in words:
        hint = "apt-get install git"
    return GitError(f"git {verb} failed: {last}", hint=hint)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a process's session, and close its pipes."""
    for signum in (signal.SIGTERM, signal.SIGKILL):  # the children too, where git itself has ended
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signum)
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


# --------------------------------------------------------------------------- our own repositories


def create(folder: Path, *, scope: Scope, object_format: str = "sha1") -> None:
    """Make a bare repository without template files in the existing, empty `folder`."""
    Git(git_dir=folder, scope=scope).text(
        "init", "--bare", "--quiet", "--template=", "--initial-branch=main",
        f"--object-format={object_format}",
    )  # fmt: skip
    (folder / "info").mkdir(exist_ok=True)
    (folder / "info" / "attributes").write_text(ATTRIBUTES)


def borrow(source: Source, *, cache: Path, scope: Scope) -> Path:
    """A bare repository of ours that reads the objects of `source` through alternates.

    What changes in the user's repository (a clone deepened, another alternate) is
    brought up to date each time; nothing is ever written over there.

    Raises:
        UserError: this git cannot read the repository's format, or may not read it.
    """
    try:
        reply = Git(git_dir=source.git_dir, scope=scope).run("rev-parse", "--show-object-format")
        if not reply.ok:
            raise UserError(
                f"git cannot read the repository {source.git_dir}: {reply.words}",
                hint="a newer git may",
            )
        folder = cache / "repos" / f"{_key(source, reply.text)}.git"
        caches.entry(folder, lambda at: create(at, scope=scope, object_format=reply.text))
        with caches.locked(folder / "ktrial.lock", scope=scope):
            _bring_up_to_date(folder, source)
    except PermissionError as error:
        raise UserError(
            f"no permission to read {error.filename}", hint="run as the repository's owner"
        ) from error
    return folder


def _key(source: Source, object_format: str) -> str:
    name = os.fsencode(source.common_dir) + b"\0" + object_format.encode()
    return hashlib.sha256(name).hexdigest()[:16]


def _bring_up_to_date(folder: Path, source: Source) -> None:
    lenders = object_folders(source.objects)
    _replace(folder / "objects" / "info" / "alternates", _lines(map(_quoted, lenders)))
    shallow = source.common_dir / "shallow"
    _replace(folder / "shallow", shallow.read_bytes() if shallow.is_file() else None)


def _quoted(path: Path) -> bytes:
    """A line of `objects/info/alternates`; git unquotes those that start with a quote."""
    raw = os.fsencode(path)
    if b"\n" not in raw:
        return raw
    return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'


def _lines(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _replace(path: Path, content: bytes | None) -> None:
    """Give a file this content (None: no file) without a moment in which it is half there."""
    if content is None:
        path.unlink(missing_ok=True)
    elif not path.is_file() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.{time.monotonic_ns()}")
        part.write_bytes(content)
        part.replace(path)


@contextmanager
def detached(repository: Path, commit: str, *, folder: Path, scope: Scope) -> Iterator[Git]:
    """A worktree with HEAD at `commit` and a full index, but none of its files on disk.

    It lies in the empty `folder` alone: a git folder that shares objects and settings
    with `repository` through `commondir`, as linked worktrees do, but is not registered
    there, so that nothing is left behind however this process ends. `git apply --index`
    checks out each file that a patch touches when it finds it missing (apply.c,
    checkout_target()), so the other 70,000 are never written.
    """
    _replace(repository / "info" / "attributes", ATTRIBUTES.encode())
    git_dir, work_tree = folder / "git", folder / "tree"
    git_dir.mkdir()
    work_tree.mkdir()
    (git_dir / "commondir").write_bytes(os.fsencode(repository.resolve()) + b"\n")
    (git_dir / "HEAD").write_text(f"{commit}\n")
    lenders = object_folders(repository / "objects")[1:]
    at = Git(git_dir=git_dir, work_tree=work_tree, scope=scope, read_only=lenders)
    at.text("read-tree", commit)
    yield at
