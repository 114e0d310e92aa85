"""KTAP lines behind everything that consoles and loggers put before them."""

from __future__ import annotations

import pytest

from pipeline import ktap
from pipeline.ktap import Report

DOCUMENT = [
    "KTAP version 1",
    "1..2",
    "    # Subtest: s",
    "    1..1",
    "    ok 1 x",
    "ok 1 s",
    "ok 2 t",
]


def names(report: Report) -> list[str]:
    return [case.name for case in report.cases]


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "<6>",
        "[   12.345678] ",
        "[12345.678901] ",
        "[   12.345678][  T123] ",
        "[   12.345678][    C0] ",
        "[   12.345678] [T1] ",
        "<4>[   12.345678] ",
        "<4>[   12.345678][  T123] ",
        "[T123] ",
        "[    T1] ",
        "[Mon Jan  5 12:00:00 2026] ",
        "2026-01-05T12:00:00,123456+00:00 ",
        "6,339,5140900,-;",
        "6,339,5140900,-,caller=T1;",
        "kern  :info  : [   12.345678] ",
        "[    1.000000 <    0.000012>] ",
        "Jan  5 12:00:00 host kernel: ",
        "Jan 05 12:00:00 host kernel: [   12.345678] ",
        "2026-01-05T12:00:00.123456+00:00 host kernel: ",
        "[2026-01-05 12:00:00.123] ",
        "[2026-01-05 12:00:00.123] [   12.345678] ",
        "12:00:01 ttyS0| ",
        "guest1: <6>",
        " ",
        "\x1b[0;32m",
        "\x00\x00",
        "\ufeff",
        "10%\r20%\r",
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r\r\n"])
def test_prefixes(prefix: str, end: str) -> None:
    report = ktap.parse_text("".join(f"{prefix}{line}{end}" for line in DOCUMENT))
    assert names(report) == ["s/x", "t"]
    assert report.good


def test_numbers_of_a_prefix_may_change_and_kinds_be_mixed() -> None:
    prefixes = ["[    9.999999] ", "[   10.000000][ T1] ", "<6>", "[T9] ", "<4>[ 1.2] "]
    lines = [prefixes[at % len(prefixes)] + line for at, line in enumerate(DOCUMENT)]
    assert ktap.parse_text("\n".join(lines)).good
    clock = [f"[12:00:0{at}] {line}" for at, line in enumerate(DOCUMENT)]
    assert ktap.parse_text("\n".join(clock)).good


def test_a_prompt_before_the_first_line_is_no_indentation() -> None:
    for prompt in ("# ", "/ # ", "root@guest:~# ", "    "):
        report = ktap.parse_text("\n".join([prompt + DOCUMENT[0], *DOCUMENT[1:]]))
        assert names(report) == ["s/x", "t"], prompt
        assert report.good


def test_a_prompt_and_subtests_without_a_name() -> None:
    nested = ["KTAP version 1", "  1..1", "  ok 1 x", "ok 1 s"]
    report = ktap.parse_text("\n".join(["# KTAP version 1", "1..1", f"  {nested[0]}", *nested[1:]]))
    assert (names(report), report.good) == (["s/x"], True)
    unplanned = ["# KTAP version 1", "ok 1 a", f"  {nested[0]}", *nested[1:3], "ok 2 s"]
    report = ktap.parse_text("\n".join(unplanned))
    assert (names(report), report.good) == (["a", "s/x"], True)


def test_log_lines_between() -> None:
    noise = [
        "[    1.000000] random: crng init done",
        "    Expected 1 + 1 == 3, but",
        "        1 + 1 == 2",
        "# a comment",
        "kunit example: all tests passed",
        "     foo bar \t#",
        "\x1b[1mbold\x1b[0m",
        "",
    ]
    lines = [each for line in DOCUMENT for each in (line, *noise)]
    assert ktap.parse_text("\n".join(lines)).good


def test_bytes_that_are_no_text() -> None:
    lines = [line.encode() for line in DOCUMENT]
    report = ktap.parse([b"\xff\xfe\x00", lines[0], b"\x80\x81 ok", *lines[1:]])
    assert report.good


def test_the_kernel_in_the_middle_of_a_programs_line() -> None:
    report = ktap.parse_text(
        "TAP version 13\n1..2\nok 1 a[   12.345678] random: crng init done\nok 2 b\n"
    )
    assert names(report) == ["a", "b"]
    report = ktap.parse_text("~ # [   12.345678] KTAP version 1\n[   12.345679] ok 1 a\n")
    assert names(report) == ["a"]
    assert report.good


def test_a_test_that_did_not_end_its_last_line() -> None:
    head = "TAP version 13\n1..1\n# selftests: net: a\n"
    for last in ("# bye", "# 1..0 # SKIP no root", "# TAP version 13\n# 1..1\n# ok 1 x"):
        for result in ("ok", "not ok"):
            report = ktap.parse_text(f"{head}{last}{result} 1 selftests: net: a # SKIP\n")
            assert report.complete, last
            assert names(report)[-1] == "selftests: net: a"
            assert report.cases[-1].status is ktap.Status.SKIPPED


def test_proc_version_is_not_a_boot() -> None:
    version = "Linux version 6.12.1 (builder@example) #1 SMP"
    head, tail = "TAP version 13\n1..2\nok 1 a\n", "\nok 2 b\n"
    assert ktap.parse_text(head + version + tail).good
    assert not ktap.parse_text(f"{head}[    0.000000] {version}{tail}").complete
