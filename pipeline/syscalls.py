"""The system calls that a build in the sandbox may not make, as a seccomp filter. Pure.

What needs a capability fails without a filter: there are none in the sandbox. Here is what asks
for none, no build needs, and either reaches past namespaces or takes memory that is no process's.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

ALLOW = 0x7FFF0000  # SECCOMP_RET_ALLOW
ERRNO = 0x00050000  # SECCOMP_RET_ERRNO
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # linux/bpf_common.h
NUMBER, ARCHITECTURE, FIRST, SECOND = 0, 4, 16, 24  # in struct seccomp_data, little endian
X32 = 0x40000000  # __X32_SYSCALL_BIT
CLONE_NEWUSER = 0x10000000
FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK: the network namespace's own
TERMINAL = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: typing for the user

# What a call that is not there says makes programs do it another way.
CALLS: Mapping[str, int] = {
    # other processes
    "ptrace": errno.EPERM,
    "process_vm_readv": errno.EPERM,
    "process_vm_writev": errno.EPERM,
    # the user's keys: a session's keyring is inherited whatever the namespaces
    "add_key": errno.ENOSYS,
    "request_key": errno.ENOSYS,
    "keyctl": errno.ENOSYS,
    # memory that is counted for no process
    "shmget": errno.ENOSYS,
    "msgget": errno.ENOSYS,
    "memfd_create": errno.ENOSYS,
    "memfd_secret": errno.ENOSYS,
    # namespaces of its own, with capabilities in them; glibc makes clone of clone3
    "unshare": errno.EPERM,
    "setns": errno.EPERM,
    "clone3": errno.ENOSYS,
    # large parts of the kernel that builds do without
    "bpf": errno.EPERM,
    "perf_event_open": errno.EPERM,
    "userfaultfd": errno.EPERM,
    "io_uring_setup": errno.ENOSYS,
    # a full disk in a moment; glibc's posix_fallocate() then writes
    "fallocate": errno.EOPNOTSUPP,
}


@dataclass(frozen=True, kw_only=True)
class Table:
    """Numbers of system calls. Sources: asm/unistd_64.h and asm-generic/unistd.h of 6.12."""

    audit: int  # AUDIT_ARCH_*
    numbers: Mapping[str, int]


TABLES: Mapping[str, Table] = {
    "x86_64": Table(
        audit=0xC000003E,
        numbers={
            **{"ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311},
            **{"add_key": 248, "request_key": 249, "keyctl": 250, "shmget": 29, "msgget": 68},
            **{"memfd_create": 319, "memfd_secret": 447, "unshare": 272, "setns": 308},
            **{"clone3": 435, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323},
            **{"io_uring_setup": 425, "fallocate": 285, "socket": 41, "clone": 56, "ioctl": 16},
        },
    ),
    "aarch64": Table(
        audit=0xC00000B7,
        numbers={
            **{"ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271},
            **{"add_key": 217, "request_key": 218, "keyctl": 219, "shmget": 194, "msgget": 186},
            **{"memfd_create": 279, "memfd_secret": 447, "unshare": 97, "setns": 268},
            **{"clone3": 435, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282},
            **{"io_uring_setup": 425, "fallocate": 47, "socket": 198, "clone": 220, "ioctl": 29},
        },
    ),
}


def program(machine: str = platform.machine()) -> bytes:
    """The filter as `bwrap --seccomp` reads it, b"" for a machine whose numbers are not known.

    Programs of another ABI (32 bits) can make no call at all: their numbers mean other things.
    """
    table = TABLES.get(machine)
    if table is None:
        return b""
    missing = ERRNO | errno.ENOSYS
    return b"".join(
        (
            _step(LOAD, ARCHITECTURE),
            _step(EQUAL, table.audit, 1, 0),
            _step(RETURN, missing),
            _step(LOAD, NUMBER),
            _step(AT_LEAST, X32, 0, 1),
            _step(RETURN, missing),
            *_refused(table),
            *_among(table.numbers["socket"], FIRST, FAMILIES, errno.EAFNOSUPPORT, good=True),
            *_among(table.numbers["ioctl"], SECOND, TERMINAL, errno.EPERM, good=False),
            _step(EQUAL, table.numbers["clone"], 0, 3),
            _step(LOAD, FIRST),
            _step(ANY_BIT, CLONE_NEWUSER, 0, 1),
            _step(RETURN, ERRNO | errno.EPERM),
            _step(RETURN, ALLOW),
        )
    )


def _refused(table: Table) -> Iterator[bytes]:
    for name, error in CALLS.items():
        yield _step(EQUAL, table.numbers[name], 0, 1)
        yield _step(RETURN, ERRNO | error)


def _among(
    number: int, argument: int, values: tuple[int, ...], error: int, *, good: bool
) -> Iterator[bytes]:
    """Decide one call by an argument: `good`: only those values, else all but those."""
    yield _step(EQUAL, number, 0, len(values) + 3)
    yield _step(LOAD, argument)
    for left, value in zip(range(len(values), 0, -1), values, strict=True):
        yield _step(EQUAL, value, left, 0)
    refuse = ERRNO | error
    yield _step(RETURN, refuse if good else ALLOW)
    yield _step(RETURN, ALLOW if good else refuse)


def _step(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, when_true, when_false, value)
