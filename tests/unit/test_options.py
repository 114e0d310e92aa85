"""What the command line says, in the words of a scenario."""

from __future__ import annotations

import pytest

from pipeline import options, overrides
from pipeline.errors import UserError
from pipeline.model import Action, CellPattern, Event


def test_an_event_on_the_command_line() -> None:
    made = overrides.event("vcpu-add:when=after 2 s,count=2")
    assert made == Event(action=Action.VCPU_ADD, when="after 2 s", count=2)
    assert overrides.event("cpu-storm:seconds=3,seed=7").seconds == 3.0
    assert overrides.event("cpu-offline").when == "at start"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vcpu-ad", "unknown action “vcpu-ad”"),
        ("vcpu-add:count", "“count” has no value"),
        ("vcpu-add:cuont=2", "unknown key “cuont”"),
        ("vcpu-add:count=many", "count"),
        ("vcpu-add:count=1,count=2", "twice"),
    ],
)
def test_an_event_that_is_none(text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        overrides.event(text)


def test_a_list_is_one_value() -> None:
    entry = overrides.workload_entry("netperf:sizes=64,1024,seconds=1,clients=2")
    assert entry.parameters == {"sizes": "64,1024", "seconds": 1, "clients": 2}


def test_cells_are_named_by_their_axes() -> None:
    wanted = CellPattern(architecture="aarch64", guest="smp8")
    assert overrides.pattern("--exclude", "arch=aarch64,guest=smp8") == wanted
    with pytest.raises(UserError, match="unknown key “gest”"):
        overrides.pattern("--exclude", "gest=smp8")


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("debug=lockups,slub-stats", ("debug", ("lockups", "slub-stats"))),
        ("lockups", ("lockups", ("lockups",))),
        ("plain=", ("plain", ())),
    ],
)
def test_a_configuration_on_the_command_line(text: str, made: tuple[str, tuple[str, ...]]) -> None:
    assert overrides.configuration(text) == made


@pytest.mark.parametrize(
    ("words", "before", "command"),
    [
        (["shell", "--", "uname", "-r"], ["shell"], ("uname", "-r")),
        (["shell", "smp4", "--", "sh", "--", "x"], ["shell", "smp4"], ("sh", "--", "x")),
        (["shell", "smp4"], ["shell", "smp4"], None),
        (["run", "--", "-x"], ["run", "--", "-x"], None),
    ],
)
def test_a_command_stands_behind_two_dashes(
    words: list[str], before: list[str], command: tuple[str, ...] | None
) -> None:
    assert options.split_command(words) == (before, command)


def test_every_verb_has_a_parser_and_every_parser_a_verb() -> None:
    from pipeline.verbs import VERBS  # noqa: PLC0415

    action = next(a for a in options.parser()._actions if a.dest == "verb")
    assert set(action.choices or ()) == set(VERBS)
