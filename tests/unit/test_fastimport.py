"""Tar members as fast-import commands."""

from __future__ import annotations

import io
import tarfile

from pipeline.fastimport import commands
from pipeline.scope import Scope


def stream(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    raw.seek(0)
    with tarfile.open(fileobj=raw, mode="r|") as tar:
        return b"".join(commands(tar, "msg", scope=Scope(), note=lambda _: None))


def info(name: str, **values: object) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    for key, value in values.items():
        setattr(member, key, value)
    return member


def test_modes_links_and_names() -> None:
    text = stream(
        (info("linux/", type=tarfile.DIRTYPE), b""),
        (info("linux/a.c", mode=0o644), b"int a;\n"),
        (info("linux/run.sh", mode=0o755), b"x"),
        (info("linux/dir/link", type=tarfile.SYMTYPE, linkname="../a.c"), b""),
        (info("linux/hard", type=tarfile.LNKTYPE, linkname="linux/a.c"), b""),
        (info('linux/q"uo\nte'), b""),
    )
    assert b'M 100644 inline "a.c"\ndata 7\nint a;\n\n' in text
    assert b'M 100755 inline "run.sh"\ndata 1\nx\n' in text
    assert b'M 120000 inline "dir/link"\ndata 6\n../a.c\n' in text
    assert b'C "a.c" "hard"\n' in text
    assert b'inline "q\\"uo\\nte"\n' in text


def test_the_commit_has_a_fixed_date() -> None:
    assert b"committer ktrial <ktrial@localhost> 946684800 +0000\n" in stream()
