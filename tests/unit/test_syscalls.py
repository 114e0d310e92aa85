"""The filter of system calls, run by an interpreter of the few instructions that it has."""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping

import pytest

from pipeline import syscalls
from pipeline.syscalls import ALLOW, ERRNO, TABLES


def verdict(code: bytes, number: int, audit: int, first: int = 0, second: int = 0) -> int:
    data = struct.pack("<IIQQQ", number, audit, 0, first, second)
    steps = list(struct.iter_unpack("<HBBI", code))
    at, value = 0, 0
    while True:
        operation, yes, no, operand = steps[at]
        at += 1
        if operation == syscalls.RETURN:
            return int(operand)
        if operation == syscalls.LOAD:
            (value,) = struct.unpack_from("<I", data, operand)
            continue
        tests: Mapping[int, bool] = {
            syscalls.EQUAL: value == operand,
            syscalls.AT_LEAST: value >= operand,
            syscalls.ANY_BIT: bool(value & operand),
        }
        at += yes if tests[operation] else no


@pytest.mark.parametrize("machine", TABLES)
def test_each_call_is_refused_with_its_error(machine: str) -> None:
    table, code = TABLES[machine], syscalls.program(machine)
    for name, error in syscalls.CALLS.items():
        assert verdict(code, table.numbers[name], table.audit) == ERRNO | error, name
    refused = set(table.numbers.values())
    for number in set(range(500)) - refused:
        assert verdict(code, number, table.audit) == ALLOW


@pytest.mark.parametrize("machine", TABLES)
def test_arguments_decide_of_three_calls(machine: str) -> None:
    table, code = TABLES[machine], syscalls.program(machine)
    numbers, audit = table.numbers, table.audit
    for family in range(64):
        known = family in syscalls.FAMILIES
        expected = ALLOW if known else ERRNO | errno.EAFNOSUPPORT
        assert verdict(code, numbers["socket"], audit, family) == expected
    assert verdict(code, numbers["ioctl"], audit, 0, 0x5412) == ERRNO | errno.EPERM
    assert verdict(code, numbers["ioctl"], audit, 0, 0x5401) == ALLOW  # TCGETS
    assert verdict(code, numbers["clone"], audit, 0x10000011) == ERRNO | errno.EPERM
    assert verdict(code, numbers["clone"], audit, 0x01200011) == ALLOW  # as fork(3) calls it


def test_another_abi_can_do_nothing() -> None:
    code, audit = syscalls.program("x86_64"), TABLES["x86_64"].audit
    assert verdict(code, 1, 0x40000003) == ERRNO | errno.ENOSYS  # AUDIT_ARCH_I386
    assert verdict(code, 1 | syscalls.X32, audit) == ERRNO | errno.ENOSYS
    assert syscalls.program("sparc64") == b""
