"""What a user hands over to be read: a file, or standard input as it comes."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.errors import UserError
from pipeline.scope import Scope

STDIN = "-"
POLL_SECONDS = 0.2
CHUNK = 1 << 18


def name(source: str) -> str:
    """As messages have it."""
    return "standard input" if source == STDIN else source


def chunks(source: str, scope: Scope) -> Iterator[bytes]:
    """The bytes of a file, or of standard input where `source` is "-".

    Python takes up a read again that a signal has cut: hence the waiting, which Ctrl-C ends.

    Raises:
        UserError: it cannot be read.
        Cancelled: the scope was cancelled.
    """
    try:
        with _descriptor(source) as descriptor:
            while True:
                scope.check()
                if select.select([descriptor], [], [], POLL_SECONDS)[0]:
                    chunk = os.read(descriptor, CHUNK)
                    if not chunk:
                        return
                    yield chunk
    except OSError as error:
        raise UserError(
            f"{name(source)} cannot be read: {error.strerror}",
            hint="give a file, or - for standard input",
        ) from error


@contextmanager
def _descriptor(source: str) -> Iterator[int]:
    if source == STDIN:
        yield 0
        return
    descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
