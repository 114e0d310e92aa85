"""Parameters of workloads and probes: their types, and how they stand in a command. Pure.

A parameter stands where its name does, `{loops}`; those that stand nowhere go to `{arguments}`, or
to the end of the command. Values are quoted for the shell.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pipeline.errors import UserError
from pipeline.model import Parameter, ProbeSpec, WorkloadRun, WorkloadSpec
from pipeline.schema import nearest

Scalar = str | int | float | bool

_KINDS: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (float, int),
    "str": (str, int, float),  # a list that is of one number: sizes=64
    "bool": (bool,),
}
_WORDS = {"int": "a whole number", "float": "a number", "str": "a string", "bool": "true or false"}


def bind(spec: WorkloadSpec, label: str, params: Mapping[str, Scalar]) -> WorkloadRun:
    """A workload with these parameters. UserError: an unknown one, or one of the wrong type."""
    bound = _bound(f"workload {spec.name}", spec.parameters, params)
    return WorkloadRun(spec=spec, parameters=bound, label=label)


def of_probe(spec: ProbeSpec, params: Mapping[str, Scalar]) -> ProbeSpec:
    """A probe whose command has these parameters in it, and the defaults of the others.

    Raises:
        UserError: an unknown parameter, or one of the wrong type.
    """
    bound = _bound(f"probe {spec.name}", spec.parameters, params)
    return replace(spec, command=_placed(spec.command, spec.parameters, bound))


def command(run: WorkloadRun) -> str:
    """The workload's command line, with its arguments."""
    return _placed(run.spec.command, run.spec.parameters, run.parameters)


def kernel_arguments(run: WorkloadRun | None) -> tuple[str, ...]:
    """What a workload has on the kernel's command line. Words with a parameter that is not
    given, or is empty, are left out; one that has blanks is quoted as the kernel reads it
    (next_arg() in lib/cmdline.c).

    Raises:
        UserError: a value has a quotation mark, which the kernel has no escape for.
    """
    words: list[str] = []
    for template in run.spec.cmdline if run else ():
        assert run is not None
        word = _filled(run, template)
        if '"' in word:
            raise UserError(f'workload {run.label}: no kernel argument may hold a “"”: {word}')
        if word:
            words.append(f'"{word}"' if any(map(str.isspace, word)) else word)
    return tuple(words)


def _bound(
    whose: str, known: Iterable[Parameter], given: Mapping[str, Scalar]
) -> dict[str, Scalar]:
    """The values given, behind the defaults."""
    by_name = {parameter.name: parameter for parameter in known}
    for name, value in given.items():
        if name not in by_name:
            raise UserError(f"{whose}: unknown parameter “{name}”", hint=nearest(name, by_name))
        _check(whose, by_name[name], value)
    return {**{p.name: p.default for p in by_name.values() if p.default is not None}, **given}


def _check(whose: str, parameter: Parameter, value: Scalar) -> None:
    fits = isinstance(value, _KINDS[parameter.kind])
    if not fits or (isinstance(value, bool) and parameter.kind != "bool"):
        raise UserError(
            f"{whose}: {parameter.name}: expected {_WORDS[parameter.kind]}, not {value!r}",
            hint=parameter.description,
        )


def _placed(text: str, known: Iterable[Parameter], values: Mapping[str, Scalar]) -> str:
    """The command with each parameter where it names it, the others at `{arguments}` or the end."""
    words: list[str] = []
    named: dict[str, str] = {}
    for parameter in known:
        value = values.get(parameter.name)
        word = _argument(parameter, value) if value is not None else ""
        if f"{{{parameter.name}}}" in text:
            named[parameter.name] = word
        elif word:
            words.append(word)
    if "{arguments}" not in text:
        text = f"{text.rstrip()} {{arguments}}" if words else text
    named["arguments"] = " ".join(words)
    # One pass, so that no value is taken for a name; `${loops}` is the shell's.
    return re.sub(r"(?<!\$){(\w+)}", lambda found: named.get(found[1], found[0]), text).strip()


def _argument(parameter: Parameter, value: Scalar) -> str:
    if parameter.kind == "bool" and "{value}" not in parameter.argument:
        return parameter.argument if value else ""
    return parameter.argument.replace("{value}", shlex.quote(_shown(value)))


def _filled(run: WorkloadRun, template: str) -> str:
    """A template with the parameters' values in it; "" where one of them is not there."""
    for name in re.findall(r"{(\w+)}", template):
        value = run.parameters.get(name, "")
        if value == "":
            return ""
        template = template.replace(f"{{{name}}}", _shown(value))
    return template


def _shown(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
