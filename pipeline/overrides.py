"""What the options of a trial say, in the words of `scenario`. Pure."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeline import schema
from pipeline.errors import UserError
from pipeline.model import Action, CellPattern, Event
from pipeline.scenario import Overrides
from pipeline.scenariofile import Scalar, WorkloadEntry


def read(arguments: argparse.Namespace) -> Overrides:
    """What the command line says in place of a scenario."""
    built = Overrides(
        architectures=names(arguments.arch),
        kconfigs=names(arguments.kconfig),
        configurations=dict(map(configuration, arguments.configuration)),
        checks=names(arguments.check),
    )
    if not hasattr(arguments, "guest"):
        return built
    if arguments.boots is not None and arguments.boots < 1:
        raise UserError(f"--boots: expected 1 or more, not {arguments.boots}")
    if arguments.max_boots is not None and (arguments.max_boots < 2 or arguments.boots):
        raise UserError(
            f"--max-boots {arguments.max_boots}: expected 2 or more, and no --boots beside it",
            hint="--boots N boots just so often",
        )
    return replace(
        built,
        guests=names(arguments.guest),
        image=arguments.image,
        workloads=tuple(workload_entry(text) for text in arguments.workload),
        probes=names(arguments.probe),
        boots=arguments.boots or arguments.max_boots or 0,
        events=tuple(map(event, arguments.event)),
        include=tuple(pattern("--include", text) for text in arguments.include),
        exclude=tuple(pattern("--exclude", text) for text in arguments.exclude),
        table_override=False if arguments.no_table_override else None,
        deterministic=arguments.deterministic,
    )


def seconds(text: str | None) -> float:
    """`--max-time 30m`: 900, 15m or 2h in seconds; 0 where none is given."""
    if not text:
        return 0.0
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h)?", text.strip())
    if not found or not float(found[1]):
        raise UserError(f"--max-time {text}: no time", hint="write 900, 15m or 2h")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2] or "s"]


def rate(text: str | None) -> float:
    """`--odds 0.2`: a share of boots; 0 where none is given."""
    try:
        number = float(text) if text else 0.0
    except ValueError:
        number = -1.0
    if not 0 <= number < 1 or (text and not number):
        raise UserError(f"--odds {text}: expected a share of boots", hint="0.2 is one in five")
    return number


def names(given: Sequence[str]) -> tuple[str, ...]:
    """`--arch x86_64 --arch aarch64` and `--arch x86_64,aarch64` are the same."""
    return tuple(name for text in given for name in text.split(","))


def workload_entry(text: str) -> WorkloadEntry:
    """`hackbench:loops=500,groups=4,process=true` as a scenario would have it."""
    use, _, rest = text.partition(":")
    return WorkloadEntry(use=use, parameters=_pairs(f"--workload {text}", rest))


def configuration(text: str) -> tuple[str, tuple[str, ...]]:
    """`debug=lockups,slub-stats`: a name and its fragments; a name alone is a fragment's."""
    name, equals, rest = text.partition("=")
    return name, tuple(rest.split(",")) if rest else () if equals else (name,)


def event(text: str) -> Event:
    """`vcpu-add:when=after 2 s,count=2` as a scenario would have it."""
    action, _, rest = text.partition(":")
    where = f"--event {text}"
    table = {"when": "at start", **_pairs(where, rest), "action": action}
    known = [each.value for each in Action]
    if action not in known:
        raise UserError(f"{where}: unknown action “{action}”", hint=schema.nearest(action, known))
    return schema.build(Event, table, where=where)


def pattern(option: str, text: str) -> CellPattern:
    """`architecture=aarch64,guest=smp8` names cells."""
    where = f"{option} {text}"
    words = {key: str(value) for key, value in _pairs(where, text).items()}
    if "arch" in words:
        words["architecture"] = words.pop("arch")
    return schema.build(CellPattern, words, where=where)


def _pairs(where: str, text: str) -> dict[str, Scalar]:
    found: dict[str, str] = {}
    for pair in filter(None, text.split(",")):
        key, equals, value = pair.partition("=")
        if not equals and not found:
            raise UserError(f"{where}: “{pair}” has no value", hint="write KEY=VALUE")
        if not equals:  # sizes=64,1024 is one value
            last = next(reversed(found))
            found[last] += f",{pair}"
        elif key in found:
            raise UserError(f"{where}: “{key}” is there twice")
        else:
            found[key] = value
    return {key: _scalar(value) for key, value in found.items()}


def _scalar(text: str) -> Scalar:
    words: Mapping[str, bool] = {"true": True, "yes": True, "false": False, "no": False}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
