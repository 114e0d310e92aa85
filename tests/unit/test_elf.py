"""What a program needs, from miniature ELF files and from a real one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pipeline.elf import Needs, is_elf, needs
from tests.elves import elf


def test_interpreter_and_libraries() -> None:
    assert needs(elf("libc.so.6", "libm.so.6", interpreter="/lib/ld.so")) == Needs(
        interpreter="/lib/ld.so", libraries=("libc.so.6", "libm.so.6")
    )


def test_a_library_has_no_interpreter_and_may_need_nothing() -> None:
    assert needs(elf("libc.so.6")) == Needs(libraries=("libc.so.6",))
    assert needs(elf()) == Needs()


def test_a_real_program() -> None:
    real = needs(Path(sys.executable).resolve().read_bytes())
    assert Path(real.interpreter).exists()
    assert any(name.startswith("libc.so") for name in real.libraries)


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", b"\x7fELF\x01\x01", b"\x7fELF\x02\x02"])
def test_what_is_no_64_bit_little_endian_elf_file(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a 64-bit"):
        needs(data)


def test_is_elf() -> None:
    assert is_elf(elf())
    assert not is_elf(b"#!/bin/sh\n")


def test_cut_off_anywhere_is_a_value_error_or_less_than_all() -> None:
    whole = elf("libc.so.6", interpreter="/lib/ld.so")
    for length in range(len(whole)):
        try:
            found = needs(whole[:length])
        except ValueError:
            continue
        assert found == needs(whole)
