from __future__ import annotations

from pathlib import Path

from pipeline import host


def test_os_release_as_debian_writes_it() -> None:
    text = (
        "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n# comment\nID=debian\n\nHOME_URL='a=b'\n"
    )
    assert host.parse_os_release(text) == {
        "PRETTY_NAME": "Debian GNU/Linux 12 (bookworm)",
        "ID": "debian",
        "HOME_URL": "a=b",
    }


def test_os_release_with_escapes_and_without_a_file(tmp_path: Path) -> None:
    assert host.parse_os_release(r'NAME="A \"big\" \$1"') == {"NAME": 'A "big" $1'}
    assert host.os_release(tmp_path / "none") == {}


def test_version_numbers() -> None:
    line = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)"
    assert host.version_numbers(line) == (7, 2, 22)
    assert host.version_numbers("QEMU emulator version 10.0.2") > (8, 1)
    assert host.version_numbers("unknown version") == ()


def test_a_cpu_without_a_name(tmp_path: Path) -> None:
    (tmp_path / "x86").write_text("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name: B\n")
    (tmp_path / "arm").write_text("processor\t: 0\nCPU implementer\t: 0x41\n")
    assert host.cpu_model(tmp_path / "x86") == "Some CPU @ 2 GHz"
    assert host.cpu_model(tmp_path / "arm")


def test_memory_is_what_may_be_had(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("MemTotal:  9 kB\nMemFree:  1 kB\nMemAvailable:    2048 kB\n")
    assert host.memory(tmp_path / "m") == 2 << 20


def test_memory_of_a_container(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("MemAvailable:    2048 kB\n")
    (tmp_path / "memory.current").write_text(f"{1 << 20}\n")
    for limit, expected in (("max", 2 << 20), (3 << 19, 1 << 19), (1 << 10, 0), (1 << 40, 2 << 20)):
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        assert host.memory(tmp_path / "m", tmp_path) == expected
