"""Whole reports of every kind in `consoles/`, read as they are, cut anywhere, and soiled."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pipeline import consoleverb
from pipeline.console import Classifier
from pipeline.model import Finding
from tests import guests

LOGS = Path(__file__).parent / "consoles"
EXPECTED: dict[str, dict[str, Any]] = tomllib.loads((LOGS / "expected.toml").read_text())
ALL = b"".join((LOGS / f"{name}.log").read_bytes() + b"\n" for name in EXPECTED)


def findings(*pieces: bytes) -> tuple[Finding, ...]:
    classifier = Classifier(guests.FAMILIES)
    for piece in pieces:
        classifier.feed(piece)
    classifier.finish()
    return classifier.findings


def told(found: tuple[Finding, ...]) -> list[dict[str, object]]:
    return [
        {"kind": each.kind, "title": each.title, "fatal": each.fatal, "count": each.count}
        for each in found
    ]


def test_every_log_has_its_answer() -> None:
    assert {path.stem for path in LOGS.glob("*.log")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_log(name: str) -> None:
    account = consoleverb.read([(LOGS / f"{name}.log").read_bytes()], guests.FAMILIES)
    assert told(account.findings) == EXPECTED[name]["findings"]
    assert account.verdict == EXPECTED[name]["verdict"]


@pytest.mark.parametrize("name", EXPECTED)
def test_with_a_terminal_in_between(name: str) -> None:
    """CR CR LF, colours, NULs, broken UTF-8: what serial lines and terminals add."""
    data = (LOGS / f"{name}.log").read_bytes()
    soiled = data.replace(b"\n", b"\r\r\n").replace(b"BUG", b"B\0UG").replace(b"0x", b"0\xc3x")
    soiled = soiled.replace(b"[   12.", b"\x1b[0m\x1b[1;31m[   12.").replace(b"B\0UG", b"BUG")
    assert told(findings(soiled)) == EXPECTED[name]["findings"]


@pytest.mark.parametrize("seed", range(12))
def test_cut_anywhere_it_reads_the_same(seed: int) -> None:
    rng = random.Random(seed)
    names = rng.sample(sorted(EXPECTED), 12)
    data = b"".join((LOGS / f"{name}.log").read_bytes() for name in names)
    cuts = sorted(rng.sample(range(1, len(data)), 400 if seed % 2 else 5))
    pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    assert findings(*pieces) == findings(data)


def test_byte_by_byte_it_reads_the_same() -> None:
    data = b"".join((LOGS / f"{name}.log").read_bytes() for name in ("two-cpus", "kunit-provokes"))
    assert findings(*(data[n : n + 1] for n in range(len(data)))) == findings(data)


def test_a_log_that_ends_anywhere_does_no_harm() -> None:
    rng = random.Random(7)
    for _ in range(60):
        account = consoleverb.read([ALL[: rng.randrange(len(ALL))]], guests.FAMILIES)
        assert account.verdict in {"clean", "faults", "truncated", "hang", "no-kernel"}


def test_damaged_bytes_do_no_harm() -> None:
    rng = random.Random(8)
    for _ in range(40):
        data = bytearray(ALL)
        for _ in range(400):
            data[rng.randrange(len(data))] = rng.randrange(256)
        findings(bytes(data))
        findings(rng.randbytes(20000))


def other_boot(data: bytes) -> bytes:
    """The same report in another boot: other times, addresses, PIDs, counts."""
    return (
        data.replace(b"ffff888", b"ffff8a1")
        .replace(b"[   12.", b"[  345.")
        .replace(b"PID: 71", b"PID: 1071")
        .replace(b"tester/71", b"tester/1071")
        .replace(b"stuck for 26s", b"stuck for 48s")
    )


@pytest.mark.parametrize("name", [name for name in EXPECTED if EXPECTED[name]["findings"]])
def test_another_boot_has_the_same_fingerprints(name: str) -> None:
    data = (LOGS / f"{name}.log").read_bytes()
    one, other = findings(data), findings(other_boot(data))
    assert [(f.title, f.fingerprint) for f in one] == [(f.title, f.fingerprint) for f in other]
    assert all(len(f.fingerprint) == 16 for f in one)


def test_the_same_title_in_another_place_has_another_fingerprint() -> None:
    data = (LOGS / "warning.log").read_bytes()
    one, other = findings(data), findings(data.replace(b"ring_ioctl", b"ring_open"))
    assert one[0].title == other[0].title
    assert one[0].fingerprint != other[0].fingerprint


def test_the_excerpt_is_the_report() -> None:
    after = b"".join(b"[   13.%06d] eth0: link %d\n" % (n, n) for n in range(50))
    (found,) = findings((LOGS / "warning.log").read_bytes() + after)
    assert found.excerpt.splitlines()[0].endswith("[ cut here ]------------")
    assert any(
        line.endswith("ring_check+0x2d/0x40 [ring]") for line in found.excerpt.splitlines()[:4]
    )
    assert found.excerpt.splitlines()[-1].endswith("---[ end trace 0000000000000000 ]---")


def test_one_caller_s_report_has_only_its_lines() -> None:
    kasan, warning = findings((LOGS / "two-cpus.log").read_bytes())
    assert "ring_ioctl" not in kasan.excerpt
    assert "cache_show" not in warning.excerpt


def test_what_led_to_a_report_is_in_its_excerpt() -> None:
    (found,) = findings((LOGS / "list-warning.log").read_bytes())
    lines = found.excerpt.splitlines()
    assert lines[0].endswith("[ cut here ]------------")
    assert "list_add corruption. prev->next" in lines[1]
    assert "WARNING: CPU: 1" in lines[2]
    assert found.line == 4  # of the line that says what it is
    assert "link up" not in found.excerpt


def test_a_rule_that_ends_a_report_begins_no_other() -> None:
    kasan = (LOGS / "kasan.log").read_bytes().rstrip(b"\n") + b"\n"
    rule = b"[   12.900000] " + b"=" * 66 + b"\n"
    other = b"[   12.900001] eth0: link up\n[   12.900002] WARNING: held lock freed!\n"
    found = findings(kasan + rule + other)[-1]
    assert found.excerpt.splitlines()[0].endswith("WARNING: held lock freed!")


def test_two_cpus_without_callers_keep_their_names() -> None:
    assert [each.title for each in findings((LOGS / "interleaved.log").read_bytes())] == [
        "WARNING in ring_check",
        "WARNING in heap_check",
    ]


SUITE = (
    b"[    1.0]     # Subtest: %s\n[    1.1] BUG: KASAN: use-after-free in ring_add+0x1/0x2\n"
    b"[    1.2] WARNING: CPU: 0 PID: 1 at lib/ring.c:4 ring_open+0x1/0x2\n"
)


def test_a_suite_provokes_its_own_kind_of_reports_alone() -> None:
    titles = [each.title for each in findings(SUITE % b"kasan")]
    assert titles == ["WARNING in ring_open"]
    titles = [each.title for each in findings(SUITE % b"drm_rect")]
    assert titles == ["KASAN: use-after-free in ring_add"]


@pytest.mark.parametrize("end", [b"ok 1 kasan", b"ok 1 - kasan # pass:9", b"not ok 1 kasan"])
def test_a_suite_ends(end: bytes) -> None:
    after = b"[    2.0] %s\n[    2.1] BUG: KASAN: use-after-free in ring_add+0x1/0x2\n" % end
    titles = [each.title for each in findings(SUITE % b"kasan" + after)]
    assert titles == ["WARNING in ring_open", "KASAN: use-after-free in ring_add"]


def test_a_suite_ends_with_its_kernel() -> None:
    boot = b"[    5.0] reboot: Restarting system\n[    0.000000] Linux version 6.12.0 (a@b)\n"
    after = b"[    2.1] BUG: KASAN: use-after-free in ring_add+0x1/0x2\n"
    titles = [each.title for each in findings(b"[    0.000000] Linux version 6.12.0\n",
                                              SUITE % b"kasan", boot, after)]  # fmt: skip
    assert titles == ["WARNING in ring_open", "KASAN: use-after-free in ring_add"]


def test_the_last_line_is_the_kernel_s() -> None:
    classifier = Classifier(guests.FAMILIES)
    classifier.feed((LOGS / "killed-while-hanging.log").read_bytes())
    assert classifier.last_line == "[    0.500000] ring: probing"
    classifier.feed(b"qemu-system-x86_64: terminating")
    assert classifier.last_line == "[    0.500000] ring: probing"
