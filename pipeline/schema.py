"""TOML into frozen dataclasses: the keys of a file are the field names of its record.

Every error names the file, the key, what was expected, and the nearest known name.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from pipeline.errors import UserError

Record = TypeVar("Record")

_WORDS: dict[Any, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Mapping: "a table",
    tuple: "an array",
}


def nearest(word: str, known: Iterable[str]) -> str:
    """“did you mean X?”, or the list of what there is."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]}?"
    return f"known: {', '.join(names)}" if names else "there are none"


def load(path: Path) -> dict[str, Any]:
    """Parse a TOML file. UserError names the file and the place."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{path} is not there") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid TOML: {error}", hint="mend the file") from error


def read(path: Path, record: type[Record], **filled: object) -> Record:
    """Read a TOML file as `record`; `filled` are the fields that the file may not set."""
    return build(record, load(path), where=str(path), filled=filled)


def build(
    record: type[Record],
    table: Mapping[str, Any],
    *,
    where: str,
    filled: Mapping[str, object] | None = None,
) -> Record:
    """Turn a parsed table into `record`, checking every key and every type."""
    given = dict(filled or {})
    hints = typing.get_type_hints(record)
    fields = {f.name: f for f in dataclasses.fields(record) if f.name not in given}  # type: ignore[arg-type]
    for key in table:
        if key not in fields:
            raise UserError(f"{where}: unknown key “{key}”", hint=nearest(key, fields))
    values = dict(given)
    for name, field in fields.items():
        if name in table:
            values[name] = _convert(table[name], hints[name], f"{where}: {name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            expected = _describe(hints[name])
            raise UserError(f"{where}: “{name}” is missing", hint=f"expected {expected}")
    return record(**values)


def _convert(value: Any, kind: Any, where: str) -> Any:
    """`value` as the annotated type `kind`."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return _convert_union(value, kind, arguments, where)
    if origin is tuple:
        _expect(isinstance(value, list), value, tuple, where)
        item = arguments[0]
        return tuple(_convert(each, item, f"{where}[{n}]") for n, each in enumerate(value))
    if origin is not None and issubclass(origin, Mapping):
        _expect(isinstance(value, dict), value, Mapping, where)
        return {key: _convert(each, arguments[1], f"{where}.{key}") for key, each in value.items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _convert_enum(value, kind, where)
    if dataclasses.is_dataclass(kind):
        _expect(isinstance(value, dict), value, Mapping, where)
        return build(typing.cast("type[Any]", kind), value, where=where)
    return _convert_scalar(value, kind, where)


def _convert_union(value: Any, kind: Any, arguments: tuple[Any, ...], where: str) -> Any:
    for option in arguments:
        if option is types.NoneType:
            continue
        try:
            return _convert(value, option, where)
        except UserError:
            continue
    raise UserError(f"{where}: expected {_describe(kind)}, not {value!r}")


def _convert_enum(value: Any, kind: type[Enum], where: str) -> Enum:
    known = {member.value: member for member in kind}
    if value not in known:
        raise UserError(f"{where}: unknown value {value!r}", hint=nearest(str(value), known))
    return known[value]


def _convert_scalar(value: Any, kind: Any, where: str) -> Any:
    if kind is float and type(value) is int:
        return float(value)
    if kind is Path:
        _expect(isinstance(value, str), value, str, where)
        return Path(value)
    _expect(type(value) is kind, value, kind, where)
    return value


def _expect(holds: bool, value: Any, kind: Any, where: str) -> None:
    if not holds:
        raise UserError(f"{where}: expected {_describe(kind)}, not {value!r}")


def _describe(kind: Any) -> str:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_describe(a) for a in arguments if a is not types.NoneType)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"one of {', '.join(str(member.value) for member in kind)}"
    return _WORDS.get(origin or kind, "a table" if dataclasses.is_dataclass(kind) else str(kind))
