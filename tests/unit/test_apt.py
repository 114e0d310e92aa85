"""apt's configuration and what is read from apt."""

from __future__ import annotations

from pathlib import Path

from pipeline.apt import (
    MIRROR,
    Mirrors,
    available,
    configuration,
    last_error,
    read_mirrors,
    source_list,
)


def test_mirrors_are_the_machines_own() -> None:
    text = (
        "http://mirror.example.org/debian/ bookworm\n"
        "http://mirror.example.org/debian-security/ bookworm-security\n"
        "https://vendor.example.org/apt/ bookworm\n"
    )
    found = read_mirrors(text)
    assert found.main == "http://mirror.example.org/debian"
    assert found.security == "http://mirror.example.org/debian-security"


def test_without_a_mirror_of_debian_the_well_known_one_is_taken() -> None:
    assert read_mirrors("http://archive.example.org/ubuntu/ noble\n").main == MIRROR
    assert read_mirrors("") == Mirrors()


def test_each_suite_comes_with_its_security_suite_but_sid_has_none() -> None:
    text = source_list(Mirrors(main="M", security="S"), ("bullseye", "sid"), Path("/k"))
    assert text.splitlines() == [
        "deb [signed-by=/k] M bullseye main",
        "deb [signed-by=/k] S bullseye-security main",
        "deb [signed-by=/k] M sid main",
    ]


def test_nothing_of_the_machine_is_written_or_run() -> None:
    text = configuration(Path("/scratch"))
    for key in ("Dir::State", "Dir::State::Lists", "Dir::Cache", "Dir::Etc::SourceList"):
        assert f'{key} "/scratch/' in text
    assert "#clear APT::Update::Post-Invoke-Success;" in text


def test_versions_are_listed_in_order() -> None:
    text = "linux-source-6.12 - a\nlinux-source-5.10 - b\nlinux-source - c\nlinux-source-6.1 - d\n"
    assert available(text) == ("5.10", "6.1", "6.12")


def test_the_last_error_is_found() -> None:
    assert last_error("Hit:1 x\nE: Unable to locate package y\nbye\n") == (
        "E: Unable to locate package y"
    )
    assert last_error("") == "no output"
