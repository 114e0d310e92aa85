"""Tables that show vCPUs which can be added."""

from __future__ import annotations

import struct

import pytest

from pipeline import acpitables, tablecache


def table(name: str, body: bytes, revision: int = 3) -> bytes:
    length = acpitables.HEADER + len(body)
    made = bytearray(name.encode() + struct.pack("<IBB", length, revision, 0))
    made += b"BOCHS BXPC    " + struct.pack("<I4sI", 1, b"BXPC", 1) + body
    made[acpitables.CHECKSUM] = -sum(made) % 256
    return bytes(made)


def lapic(number: int, flags: int) -> bytes:
    return struct.pack("<BBBBI", acpitables.LAPIC, 8, number, number, flags)


def x2apic(number: int, flags: int) -> bytes:
    return struct.pack("<BBHIII", acpitables.X2APIC, 16, 0, number, flags, number)


IOAPIC = struct.pack("<BBBBII", 1, 12, 0, 0, 0xFEC00000, 0)
MADT = table("APIC", bytes(8) + lapic(0, 1) + lapic(1, 0) + IOAPIC + x2apic(2, 0) + x2apic(3, 1))
FADT = table("FACP", b"\xab" * (244 - acpitables.HEADER))
TABLES = {"FACP": FADT, "APIC": MADT}


def test_vcpus_to_come_are_online_capable_and_nothing_else_changes() -> None:
    made = acpitables.upgraded(TABLES)["APIC"]
    changed = [at for at in range(len(MADT)) if made[at] != MADT[at]]
    first = acpitables.ENTRIES + 8 + acpitables.FLAGS[acpitables.LAPIC]
    second = acpitables.ENTRIES + 16 + len(IOAPIC) + acpitables.FLAGS[acpitables.X2APIC]
    assert changed == [acpitables.CHECKSUM, acpitables.OEM_REVISION.start, first, second]
    assert (made[first], made[second]) == (2, 2)


def test_the_fadt_is_one_of_acpi_6_3() -> None:
    made = acpitables.upgraded(TABLES)["FACP"]
    assert (len(made), made[acpitables.REVISION], made[acpitables.FADT_MINOR]) == (276, 6, 3)
    assert struct.unpack("<I", made[acpitables.LENGTH]) == (276,)
    assert made[36:131] == FADT[36:131]
    assert made[132:244] == FADT[132:244]
    assert not any(made[244:])


def test_a_newer_fadt_keeps_its_revision() -> None:
    newer = bytearray(table("FACP", b"\0" * (276 - acpitables.HEADER), revision=6))
    newer[acpitables.FADT_MINOR] = 5
    newer[acpitables.CHECKSUM] = 0
    newer[acpitables.CHECKSUM] = -sum(newer) % 256
    made = acpitables.upgraded({**TABLES, "FACP": bytes(newer)})["FACP"]
    assert (made[acpitables.REVISION], made[acpitables.FADT_MINOR]) == (6, 5)


@pytest.mark.parametrize("name", acpitables.NAMES)
def test_each_is_whole_and_newer_than_the_firmwares(name: str) -> None:
    made = acpitables.upgraded(TABLES)[name]
    assert sum(made) % 256 == 0
    assert struct.unpack("<I", made[acpitables.OEM_REVISION]) == (2,)


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"FACP": FADT}, "no table APIC"),
        ({**TABLES, "FACP": FADT[:-1]}, "FACP is damaged"),
        ({**TABLES, "APIC": MADT[:60] + b"\xff" + MADT[61:]}, "APIC is damaged"),
        ({**TABLES, "APIC": table("APIC", bytes(8) + b"\0\0\0\0")}, "without a length"),
    ],
)
def test_what_is_no_table(tables: dict[str, bytes], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        acpitables.upgraded(tables)


def test_the_archive_has_them_where_the_kernel_looks() -> None:
    made = acpitables.archive({"FACP": FADT, "APIC": MADT})
    assert b"kernel/firmware/acpi/FACP.aml\0" in made
    assert MADT in made
    assert len(made) % 4 == 0


@pytest.mark.parametrize(
    ("release", "needed"),
    [
        ("5.10.262", False),
        ("6.1.170", False),
        ("6.2.0", False),
        ("6.12.76", False),
        ("6.12.77", True),
        ("6.12.117", True),
        ("6.12.117-rc1+", True),
        ("6.18.30", True),
        ("7.0.0-rc1", True),
        ("7.2", True),
        ("next-2026", True),
    ],
)
def test_which_kernels_need_them(release: str, needed: bool) -> None:
    assert acpitables.needed(release) is needed


def test_tables_are_read_from_hex() -> None:
    text = "FACP\n 46 41 43 50\n 01 02\nAPIC\n ff\n"
    assert tablecache.parse(text) == {"FACP": b"FACP\x01\x02", "APIC": b"\xff"}
    with pytest.raises(ValueError, match="hexadecimal"):
        tablecache.parse("FACP\nod: cannot open\n")
