from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline import schema
from pipeline.errors import UserError
from pipeline.model import Better


@dataclass(frozen=True, kw_only=True)
class Inner:
    label: str
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    count: int
    better: Better = Better.NEITHER
    inner: tuple[Inner, ...] = ()
    words: Mapping[str, str] | None = None
    value: str | int | float | bool = ""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "thing.toml"
    path.write_text(text, encoding="utf-8")
    return path


def read(tmp_path: Path, text: str) -> Outer:
    return schema.read(write(tmp_path, text), Outer, name="thing")


def test_every_kind_of_field_is_read(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
        count = 3
        better = "lower"
        value = true
        words = { a = "b" }
        [[inner]]
        label = "one"
        weight = 2
        """,
    )
    assert found == Outer(
        name="thing",
        count=3,
        better=Better.LOWER,
        value=True,
        words={"a": "b"},
        inner=(Inner(label="one", weight=2.0),),
    )
    assert found.value is True


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("count = 3\ncuont = 4", "unknown key “cuont”", "did you mean count?"),
        ("count = 'three'", "count: expected a whole number, not 'three'", ""),
        ("count = true", "count: expected a whole number, not True", ""),
        ("better = 'lowr'\ncount = 1", "unknown value 'lowr'", "did you mean lower?"),
        ("value = 1", "“count” is missing", "expected a whole number"),
        ("count = 1\ninner = 'x'", "inner: expected an array, not 'x'", ""),
        ("count = 1\n[[inner]]\nlabel = 1", "inner[0]: label: expected a string, not 1", ""),
        ("count = 1\nname = 'other'", "unknown key “name”", ""),
        ("count = ", "is not valid TOML", "mend the file"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(
    tmp_path: Path, text: str, message: str, hint: str
) -> None:
    with pytest.raises(UserError) as caught:
        read(tmp_path, text)
    assert message in caught.value.message
    assert str(tmp_path / "thing.toml") in caught.value.message
    assert hint in caught.value.hint


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.toml is not there"):
        schema.load(tmp_path / "none.toml")


def test_nearest_lists_what_there_is_where_nothing_is_near() -> None:
    assert schema.nearest("zzz", ["smp2", "smp1"]) == "known: smp1, smp2"
    assert schema.nearest("smp3", []) == "there are none"
