"""Files and standard input, as they are read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import incoming
from pipeline.errors import Cancelled, UserError
from pipeline.scope import Scope


@pytest.fixture
def writing() -> Iterator[int]:
    """The other side of standard input."""
    reading, writing = os.pipe()
    before = os.dup(0)
    os.dup2(reading, 0)
    os.close(reading)
    yield writing
    os.dup2(before, 0)
    os.close(before)


def test_standard_input_as_it_comes(writing: int) -> None:
    chunks = incoming.chunks("-", Scope())
    for piece in (b"one", b"two"):
        os.write(writing, piece)
        assert next(chunks) == piece
    os.close(writing)
    assert list(chunks) == []


def test_ctrl_c_ends_the_wait_for_more(writing: int) -> None:
    scope = Scope()
    chunks = incoming.chunks("-", scope)
    os.write(writing, b"one")
    assert next(chunks) == b"one"
    scope.cancel()
    with pytest.raises(Cancelled):
        next(chunks)
    os.close(writing)


def test_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "CHUNK", 3)
    path = tmp_path / "a.log"
    path.write_bytes(b"12345")
    assert list(incoming.chunks(str(path), Scope())) == [b"123", b"45"]


@pytest.mark.parametrize("name", ["", "absent"])
def test_what_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="cannot be read: "):
        list(incoming.chunks(str(tmp_path / name), Scope()))
