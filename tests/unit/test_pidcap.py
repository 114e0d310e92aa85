"""What is taken for a process that could not be started, where nothing counts them."""

from __future__ import annotations

import pytest

from pipeline import pidcap

SAID = (
    b"/src/scripts/hostile.sh: 0: Cannot fork",
    b"sh: 12: Cannot fork",
    b"bash: fork: retry: Resource temporarily unavailable",
    b"bash: fork: Resource temporarily unavailable",
    b"gcc: fatal error: cannot execute 'cc1': vfork: Resource temporarily unavailable",
    b"make: mkdir: Resource temporarily unavailable",
    b"make[2]: /bin/sh: Resource temporarily unavailable",
)
NOT_SAID = (
    b"mm/slub.c:12: warning: Cannot fork here",
    b"cat: write error: Resource temporarily unavailable",
    b"make: write error: Resource temporarily unavailable",
    b"tools/fork: Resource temporarily unavailable, so wait",
)


@pytest.mark.parametrize("line", SAID)
def test_refused_process_is_known_from_what_is_said(line: bytes) -> None:
    assert pidcap.SAID.search(b"  LD      vmlinux\n" + line + b"\nmake: Leaving directory '/src'\n")


@pytest.mark.parametrize("line", NOT_SAID)
def test_other_words_are_not_taken_for_it(line: bytes) -> None:
    assert not pidcap.SAID.search(b"  LD      vmlinux\n" + line + b"\n")
