"""printk's prefixes, and lines in which several messages met."""

from __future__ import annotations

import pytest

from pipeline.consoleline import Line, decode, lines, readings, split


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("[    1.234567] hello", Line("hello", "console", "1.234567")),
        ("<6>[    1.234567] hello", Line("hello", "console", "1.234567")),
        ("[    1.234567][  T123]  f+0x1/0x2", Line(" f+0x1/0x2", "T123", "1.234567")),
        ("[    1.234567][    C1] hello", Line("hello", "C1", "1.234567")),
        ("box login: [    1.234567][    T1] hello", Line("hello", "T1", "1.234567")),
        ("** 12 printk messages dropped ** [    1.234567] hi", Line("hi", "console", "1.234567")),
        ("Jan  9 14:28:48 host kernel: [    1.234567] hi", Line("hi", "console", "1.234567")),
        ("[    1.234567] c1   1234 hello", Line("hello", "console", "1.234567")),
        ("<4>hello", Line("hello")),
        ("2026/01/09 14:28:48 hello", Line("hello")),
        ("2026-01-09T14:28:48.123456+00:00 host kernel: hello", Line("hello")),
        ("Jan  9 14:28:48 host kernel: hello", Line("hello")),
        ("hello", Line("hello")),
        ("", Line("")),
        ("[12] no stamp", Line("[12] no stamp")),
    ],
)
def test_prefixes(line: str, expected: Line) -> None:
    assert split(line) == expected
    assert list(lines(line)) == [expected]


def test_two_messages_in_one_line() -> None:
    both = readings("[    1.000000] eth0: [    1.000001][  T7] BUG: bad")
    assert [each.text for each in both] == ["eth0: [    1.000001][  T7] BUG: bad", "BUG: bad"]
    assert both[1].context == "T7"


def test_bytes() -> None:
    assert decode(b"\x1b[1;31mred\x1b[0m\r\0 \xc3\x28 \xe2\x82\xac\x7f") == "red ( €"
    assert decode(b"plain\ttab\r") == "plain\ttab"
