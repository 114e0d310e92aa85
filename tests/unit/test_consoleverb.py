"""`ktrial console`: accounts as text and JSON, and what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline import consoleverb
from pipeline.errors import UserError
from pipeline.scope import Scope
from tests import guests

LOGS = Path(__file__).parent / "consoles"


def examine(name: str) -> consoleverb.Account:
    return consoleverb.examine(str(LOGS / f"{name}.log"), guests.FAMILIES, Scope())


def test_json() -> None:
    account = examine("kasan-panics")
    told = json.loads(consoleverb.as_json(account))
    assert told["verdict"] == "faults"
    (finding,) = told["findings"]
    assert finding.keys() >= {
        "kind", "title", "line", "count", "fatal", "fingerprint", "excerpt",
    }  # fmt: skip
    assert finding["title"] == "KASAN: slab-use-after-free Read in cache_show"
    assert (finding["line"], finding["count"], finding["fatal"]) == (2, 1, True)
    assert account.exit_code == 1


def test_text() -> None:
    text = consoleverb.as_text(examine("warning-storm"))
    assert text.startswith("faults: 1 different fault in 300 lines\n")
    assert "warning: WARNING in ring_check\n  line 2, 25 times, fingerprint " in text
    assert consoleverb.as_text(examine("hang-before-userspace")) == (
        "hang: the kernel went quiet before its first program; "
        "the last line is: [    1.201234] ring: probing\n"
    )


def test_what_moves_the_terminals_cursor_or_turns_its_text_is_shown() -> None:
    log = "[    1.000000] Linux version 6.12\n[    1.100000] BUG: bad \x9b31m\u202e thing\n"
    text = consoleverb.as_text(consoleverb.read([log.encode()], guests.FAMILIES))
    assert "bad \\x9b31m\\" in text
    assert not {"\x9b", "\u202e"} & set(text)


def test_clean_is_the_only_zero() -> None:
    assert examine("harmless").exit_code == 0
    for name in ("hang-before-userspace", "cut-in-a-line", "firmware-only", "oom"):
        assert examine(name).exit_code == 1


def test_nothing_at_all() -> None:
    account = consoleverb.read([], guests.FAMILIES)
    assert (account.verdict, account.lines, account.last_line) == ("no-kernel", 0, "")


def test_a_log_without_stamps_is_a_kernel_s() -> None:
    log = [b"clocksource: tsc: mask: 0xffff\n", b"random: crng init done\n"]
    assert consoleverb.read(log, guests.FAMILIES).verdict == "clean"
    assert consoleverb.read([b"hello world\n"], guests.FAMILIES).verdict == "no-kernel"


@pytest.mark.parametrize("name", ["absent.log", "."])
def test_what_cannot_be_read(name: str) -> None:
    with pytest.raises(UserError, match="cannot be read") as error:
        consoleverb.examine(str(LOGS / name), guests.FAMILIES, Scope())
    assert error.value.exit_code == 2
