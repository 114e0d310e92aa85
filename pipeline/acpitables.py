"""Firmware tables by which a kernel under TCG sees vCPUs that can be added. Pure.

QEMU (7.2 to 10.0) says of a vCPU that may come: a local APIC that is not enabled. A kernel
that knows its hypervisor counts it as one to come; one that does not (TCG's CPUID signature
says nothing to it) wants the flag *online capable*, which ACPI 6.3 brought and which counts
where the FADT says so (ACPI 6.5, 5.2.9 and 5.2.12.2). With CONFIG_ACPI_TABLE_UPGRADE the
kernel takes newer tables from an uncompressed archive in front of its initramfs
(Documentation/admin-guide/acpi/initrd_table_override.rst), and is tainted by that; the taint
switches lockdep off.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from pathlib import PurePosixPath

from pipeline import initramfs

NAMES = ("FACP", "APIC")
FOLDER = PurePosixPath("kernel/firmware/acpi")
TAINT = "this taints the kernel and switches lockdep off"
NOTE = (
    "firmware tables FACP and APIC replaced so that the kernel sees vCPUs that can be added "
    f"(TCG); {TAINT}"
)

HEADER = 36  # length of every table's header
LENGTH = slice(4, 8)
REVISION = 8
CHECKSUM = 9
OEM_REVISION = slice(24, 28)
FADT_MINOR = 131
FADT_LENGTH = 276  # of revision 6
ENTRIES = 44  # where the MADT's entries begin
LAPIC, X2APIC = 0, 9
FLAGS = {LAPIC: 4, X2APIC: 8}  # where an entry has its flags
ENABLED, ONLINE_CAPABLE = 1, 2

# adbf61cc47cb "x86/acpi/boot: Correct acpi_is_processor_usable() check again" (7.0) has them
# passed over. Its stable versions as far as they are known here; branches between 6.3, which
# the commit mends, and 7.0 that are not named may have it in any release.
FIRST = (7, 0)
FIRST_ON_BRANCH: Mapping[tuple[int, int], int] = {(6, 12): 77}
OLDEST_MENDED = (6, 3)


def needed(release: str) -> bool:
    """Whether a kernel passes over vCPUs to come where it does not know its hypervisor.

    5.10 and 6.1 do not; where that is not known for sure the answer is yes: a kernel since 6.3
    heeds the flag, so the tables do no harm but for the taint.
    """
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", release)
    if not found:
        return True
    branch, point = (int(found[1]), int(found[2])), int(found[3] or 0)
    if branch >= FIRST:
        return True
    if branch < OLDEST_MENDED:
        return False
    return point >= FIRST_ON_BRANCH.get(branch, 0)


def upgraded(tables: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """FACP and APIC as read in a guest, made so that vCPUs to come are online capable.

    Raises:
        ValueError: one is missing, cut short, or not what its name says.
    """
    whole = {name: _checked(name, tables.get(name, b"")) for name in NAMES}
    return {"FACP": _finished(_fadt(whole["FACP"])), "APIC": _finished(_madt(whole["APIC"]))}


def archive(tables: Mapping[str, bytes]) -> bytes:
    """The archive that goes in front of an initramfs."""
    return initramfs.archive(
        initramfs.file(str(FOLDER / f"{name}.aml"), data) for name, data in sorted(tables.items())
    )


def _checked(name: str, data: bytes) -> bytes:
    if len(data) < HEADER or data[:4] != name.encode():
        raise ValueError(f"the guest shows no table {name}")
    (length,) = struct.unpack("<I", data[LENGTH])
    if length != len(data) or sum(data) % 256:
        raise ValueError(f"the guest's table {name} is damaged")
    return data


def _fadt(data: bytes) -> bytearray:
    """Revision 6.3. The fields that are new since its own revision are zero: "not there"."""
    table = bytearray(data[:FADT_LENGTH].ljust(FADT_LENGTH, b"\0"))
    table[REVISION], table[FADT_MINOR] = max((table[REVISION], table[FADT_MINOR]), (6, 3))
    return table


def _madt(data: bytes) -> bytearray:
    table = bytearray(data)
    at = ENTRIES
    while at + 2 <= len(table):
        kind, length = table[at], table[at + 1]
        if length < 2 or at + length > len(table):
            raise ValueError("the guest's table APIC has an entry without a length")
        if kind in FLAGS and not table[at + FLAGS[kind]] & ENABLED:
            table[at + FLAGS[kind]] |= ONLINE_CAPABLE
        at += length
    return table


def _finished(table: bytearray) -> bytes:
    """The kernel takes a table in place of the firmware's where its OEM revision is higher."""
    table[LENGTH] = struct.pack("<I", len(table))
    (revision,) = struct.unpack("<I", table[OEM_REVISION])
    table[OEM_REVISION] = struct.pack("<I", revision + 1)
    table[CHECKSUM] = 0
    table[CHECKSUM] = -sum(table) % 256
    return bytes(table)
