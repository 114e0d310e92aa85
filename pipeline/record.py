"""`result.json`: a whole run as JSON, and back. Pure.

    {"schema": 1, "run": {...}, "samples": {"columns": [...], "rows": [[...], ...]},
     "left_out": {"run.evidence.…": "4000 of 5000 warnings: see …/build.log"}}

`run` mirrors the records of `model` by their annotations: a dataclass is an object, a union of
dataclasses an object with its "type", an Enum its value, a Path a string, a table whose keys
are records an array of [key, value]. The numbers stand in one flat table, so that it is read
without knowing ktrial: one row for each cell × kernel × block × boot × phase × metric.

`SCHEMA` is raised when a reader of the former one would misread a file; a key more is no
reason. Keys that are not known are passed over, those that are missing have their defaults.

What may be without bound is cut: a build's warnings at MOST_WARNINGS, each text at MOST_TEXT
characters. The logs have all of it, and `left_out` says what was cut, by its place.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.errors import UserError
from pipeline.model import (
    Better,
    BootId,
    BootResult,
    Build,
    Evidence,
    Finding,
    Output,
    Phase,
    Run,
    Sample,
    TestResult,
)
from pipeline.text import cut

SCHEMA = 1
MOST_WARNINGS = 1_000  # of a build
MOST_TEXT = 500_000  # characters
COLUMNS = (
    "architecture",
    "configuration",
    "guest",
    "workload",
    "kernel",
    "block",
    "boot",
    "phase",
    "source",
    "metric",
    "value",
    "unit",
    "better",
)


def dump(run: Run) -> str:
    """The run as JSON text (ASCII, ends with a newline)."""
    left_out: dict[str, str] = {}
    document = {
        "schema": SCHEMA,
        "run": _encode(replace(run, evidence=_bounded(run.evidence, left_out))),
        "samples": {"columns": COLUMNS, "rows": list(_rows(run))},
        "left_out": left_out,
    }
    text = json.dumps(document, indent=1, allow_nan=False)
    return f"{text}\n"


def load(text: str) -> Run:
    """The run that `dump` wrote. UserError names the place at which it is none."""
    document = _parse(text)
    run: Run = _decode(document["run"], Run, "run")
    samples = _samples(document["samples"])
    boots = tuple(
        replace(result, samples=tuple(samples.get(result.boot, ())))
        for result in run.evidence.boots
    )
    return replace(run, evidence=replace(run.evidence, boots=boots))


def _parse(text: str) -> Mapping[str, Any]:
    try:
        document: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise UserError(f"the result is not valid JSON: {error}") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(schema, int) or not {"run", "samples"} <= document.keys():
        raise UserError("this JSON is not a result of ktrial")
    if schema > SCHEMA:
        raise UserError(
            f"the result has schema {schema}; this ktrial reads up to {SCHEMA}",
            hint="read it with the ktrial that wrote it, or a newer one",
        )
    return document


# --------------------------------------------------------------------------- what is cut


def _bounded(evidence: Evidence, left_out: dict[str, str]) -> Evidence:
    """The evidence without samples, which have their table, and without what is too long."""
    builds = {
        key: _fewer_warnings(found, f"run.evidence.builds.{'.'.join(key)}.warnings", left_out)
        if isinstance(found, Build)
        else found
        for key, found in evidence.builds.items()
    }
    boots = tuple(_bounded_boot(result, left_out) for result in evidence.boots)
    return replace(evidence, builds=builds, boots=boots)


def _fewer_warnings(build: Build, place: str, left_out: dict[str, str]) -> Build:
    said = build.warnings or ()
    if len(said) <= MOST_WARNINGS:
        return build
    left_out[place] = f"{len(said) - MOST_WARNINGS} of {len(said)} warnings: see {build.log}"
    return replace(build, warnings=said[:MOST_WARNINGS])


def _bounded_boot(result: BootResult, left_out: dict[str, str]) -> BootResult:
    def shorter(records: Iterable[Any], kind: str, *fields: str) -> tuple[Any, ...]:
        place = f"run.evidence.boots.{result.boot.name}.{kind}"
        return tuple(
            _shorter(each, fields, f"{place}[{number}]", result.folder, left_out)
            for number, each in enumerate(records)
        )

    return replace(
        result,
        samples=(),
        findings=shorter(result.findings, "findings", "excerpt", "decoded"),
        outputs=shorter(result.outputs, "outputs", "text"),
        tests=shorter(result.tests, "tests", "detail"),
    )


def _shorter(
    record: Finding | Output | TestResult,
    fields: Iterable[str],
    place: str,
    folder: Path,
    left_out: dict[str, str],
) -> Finding | Output | TestResult:
    """The record, with `fields` of it cut that are too long; itself where none is."""
    for field in fields:
        text: str = getattr(record, field)
        if len(text) > MOST_TEXT:
            left_out[f"{place}.{field}"] = f"of {len(text)} characters the middle: see {folder}"
            # Shorter than the limit with what `cut` says, so that it is not cut again.
            changes: dict[str, Any] = {field: cut(text, MOST_TEXT - 1_000, where=str(folder))}
            record = replace(record, **changes)
    return record


# --------------------------------------------------------------------------- the flat table


def _rows(run: Run) -> Iterator[list[Any]]:
    for result in run.evidence.boots:
        boot = result.boot
        for sample in result.samples:
            yield [
                boot.cell.architecture,
                boot.cell.configuration,
                boot.cell.guest,
                boot.cell.workload,
                boot.kernel,
                boot.block,
                boot.boot,
                sample.phase.value,
                sample.source,
                sample.metric,
                _encode(sample.value),
                sample.unit,
                sample.better.value,
            ]


def _samples(table: Mapping[str, Any]) -> dict[BootId, list[Sample]]:
    samples: dict[BootId, list[Sample]] = {}
    try:
        for cells in table["rows"]:
            row = dict(zip(table["columns"], cells, strict=True))
            cell = {name: row[name] for name in ("architecture", "guest", "workload")}
            cell["configuration"] = row.get("configuration", "")
            boot = {name: row[name] for name in ("kernel", "block", "boot")}
            sample = Sample(
                source=row["source"],
                phase=Phase(row["phase"]),
                metric=row["metric"],
                value=float(row["value"]),
                unit=row["unit"],
                better=Better(row["better"]),
            )
            samples.setdefault(_decode({**boot, "cell": cell}, BootId, "samples"), []).append(
                sample
            )
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"the result's samples cannot be read: {error}") from error
    return samples


# --------------------------------------------------------------------------- to JSON


def _encode(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        fields = {f.name: _encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: _encode(each) for key, each in value.items()}
        return [[_encode(key), _encode(each)] for key, each in value.items()]
    if isinstance(value, tuple | list):
        return [_encode(each) for each in value]
    return _encode_plain(value)


def _encode_plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, bytes):
        return _encode_bytes(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such numbers; `_decode` takes the word
    return value


def _encode_bytes(data: bytes) -> str | dict[str, str]:
    """Mails are text for most, and then shall be readable."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


# --------------------------------------------------------------------------- from JSON


@cache
def _hints(record: type) -> Mapping[str, Any]:
    return typing.get_type_hints(record)


def _decode(value: Any, kind: Any, where: str) -> Any:
    """`value` as the annotated type `kind`; `where` is for the error."""
    try:
        return _convert(value, kind, where)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"the result cannot be read at {where}: {error}") from error


def _convert(value: Any, kind: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return _decode_union(value, arguments, where)
    if origin is tuple:
        return _decode_tuple(value, arguments, where)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        pairs = value.items() if isinstance(value, dict) else value
        return {
            _decode(key, arguments[0], where): _decode(each, arguments[1], f"{where}.{key}")
            for key, each in pairs
        }
    if dataclasses.is_dataclass(kind):
        return _decode_record(value, typing.cast("type", kind), where)
    return _decode_plain(value, kind)


def _decode_union(value: Any, options: tuple[Any, ...], where: str) -> Any:
    """Records are told apart by their "type"; plain values are what they are."""
    if value is None:
        return None
    records = {
        o.__name__: o for o in options if isinstance(o, type) and dataclasses.is_dataclass(o)
    }
    if isinstance(value, dict) and records:
        return _decode(value, records[value["type"]], where)
    if type(value) in options:
        return value
    return _decode(value, next(o for o in options if o is not types.NoneType), where)


def _decode_tuple(value: Any, items: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    kinds = [items[0]] * len(value) if items[-1] is Ellipsis else items
    return tuple(
        _decode(each, kind, f"{where}[{number}]")
        for number, (each, kind) in enumerate(zip(value, kinds, strict=True))
    )


def _decode_record(value: Any, record: type, where: str) -> Any:
    hints = _hints(record)
    names = {field.name for field in dataclasses.fields(record)}
    return record(
        **{
            name: _decode(each, hints[name], f"{where}.{name}")
            for name, each in value.items()
            if name in names
        }
    )


def _decode_plain(value: Any, kind: Any) -> Any:
    if kind is bytes:
        is_text = isinstance(value, str)
        return value.encode() if is_text else base64.b64decode(value["base64"], validate=True)
    if kind is float and not isinstance(value, bool):
        return float(value)
    if kind is Path or issubclass(kind, Enum):
        return kind(value)
    if type(value) is not kind:
        raise TypeError(f"expected {kind.__name__}, not {value!r}")
    return value
