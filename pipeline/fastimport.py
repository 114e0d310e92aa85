"""A source tarball as a stream for `git fast-import`: one commit, one pack.

`git add` would leave 450 MB of loose objects and, with the /* in the .gitignore of
Debian's kernel trees, would add nothing at all.
"""

from __future__ import annotations

import lzma
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from pipeline.errors import InfraError
from pipeline.repository import EMAIL, NAME, Git, failure
from pipeline.scope import Scope

BRANCH = "refs/heads/main"
DATE = "946684800 +0000"  # 2000-01-01: the same package always gives the same commit
NOTE_EVERY = 1000


def import_tarball(
    tarball: Path, repository: Path, *, message: str, scope: Scope, note: Callable[[int], None]
) -> str:
    """Import a .tar.xz into an empty bare repository and return the commit.

    The first component of each path is dropped. `note` is told the number of files now
    and then. The blobs are stored without deltas and at zlib's fastest level: 20 s
    rather than minutes for a kernel tree, at 250 MB.

    Raises:
        InfraError: the tarball is damaged, the disk is full, git failed.
    """
    at = Git(git_dir=repository, scope=scope)
    settings = ("core.compression=1", "pack.compression=1", "fastimport.unpackLimit=0")
    options = (word for setting in settings for word in ("-c", setting))
    with at.started(*options, "fast-import", "--quiet", "--depth=0") as process:
        assert process.stdin is not None
        try:
            with lzma.open(tarball) as data, tarfile.open(fileobj=data, mode="r|") as tar:
                for chunk in commands(tar, message, scope=scope, note=note):
                    process.stdin.write(chunk)
            process.stdin.flush()
        except BrokenPipeError:
            pass  # git's own words tell why it left
        except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
            raise InfraError(f"{tarball.name} is damaged: {error}") from error
        _, words = at.finish(process, ("fast-import",))
    if process.returncode:
        raise failure(("fast-import",), words.decode(errors="replace"))
    return at.text("rev-parse", "--verify", BRANCH)


def commands(
    tar: tarfile.TarFile, message: str, *, scope: Scope, note: Callable[[int], None]
) -> Iterator[bytes]:
    """The fast-import stream (git-fast-import(1)) of one commit with the tar's files."""
    text = message.encode()
    yield f"commit {BRANCH}\ncommitter {NAME} <{EMAIL}> {DATE}\n".encode()
    yield b"data %d\n%s\n" % (len(text), text)
    for number, member in enumerate(tar):
        if number % NOTE_EVERY == 0:
            scope.check()
            note(number)
        tar.members = []  # type: ignore[attr-defined]  # else it keeps all 80,000 of them
        yield from _member(tar, member)
    yield b"done\n"


def _member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    path = _inside(member.name)
    if not path:
        return
    if member.issym():
        yield from _file(b"120000", path, member.linkname.encode(errors="surrogateescape"))
    elif member.islnk():
        yield b"C %s %s\n" % (_quoted(_inside(member.linkname)), _quoted(path))
    elif member.isfile():
        stream: IO[bytes] | None = tar.extractfile(member)
        assert stream is not None
        yield from _file(b"100755" if member.mode & 0o100 else b"100644", path, stream.read())


def _file(mode: bytes, path: bytes, content: bytes) -> Iterator[bytes]:
    yield b"M %s inline %s\ndata %d\n" % (mode, _quoted(path), len(content))
    yield content
    yield b"\n"


def _inside(name: str) -> bytes:
    """A member's path without `./` and its first component."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return "/".join(parts[1:]).encode(errors="surrogateescape")


def _quoted(path: bytes) -> bytes:
    """A path as fast-import reads it in any place, C-style quoted."""
    escaped = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"%s"' % escaped
