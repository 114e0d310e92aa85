"""Parameters: their types, and how they stand in a command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import pipeline
from pipeline import binding, schema
from pipeline.errors import UserError
from pipeline.model import Parameter, ProbeSpec, WorkloadRun, WorkloadSpec

SPEC = schema.read(
    Path(pipeline.__file__).parent / "data/workloads/hackbench.toml", WorkloadSpec, name="hackbench"
)


def hackbench(**params: str | int | float | bool) -> WorkloadRun:
    return binding.bind(SPEC, "hackbench", params)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, "hackbench -l 200 -g 4"),
        ({"loops": 50, "pipe": True}, "hackbench -l 50 -g 4 -p"),
        # the seed's own: hackbench -s 1024 -l 200 -g 200 -f 25 -P
        (
            {"size": 1024, "groups": 200, "fds": 25, "process": True},
            "hackbench -l 200 -g 200 -s 1024 -f 25 -P",
        ),
        ({"threads": True, "process": False}, "hackbench -l 200 -g 4 -T"),
    ],
)
def test_command_lines(params: Mapping[str, int | bool], expected: str) -> None:
    assert binding.command(hackbench(**params)) == expected


def test_a_value_cannot_leave_its_argument() -> None:
    parameter = Parameter(name="file", argument="-o {value}", description="", kind="str")
    made = WorkloadSpec(
        name="w",
        description="",
        command="w",
        parameters=(parameter,),
        needs=(),
        deadline=1.0,
        readings=(),
    )
    bound = binding.bind(made, "w", {"file": "a; reboot"})
    assert binding.command(bound) == "w -o 'a; reboot'"


def test_an_unknown_parameter_names_the_nearest() -> None:
    with pytest.raises(UserError, match="unknown parameter “loop”") as caught:
        hackbench(loop=3)
    assert caught.value.hint == "did you mean loops?"


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"loops": "200"}, "loops: expected a whole number, not '200'"),
        ({"loops": 2.5}, "expected a whole number"),
        ({"loops": True}, "expected a whole number, not True"),
        ({"pipe": 1}, "pipe: expected true or false, not 1"),
    ],
)
def test_a_wrong_type_names_the_parameter(params: Mapping[str, int | str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        hackbench(**params)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("always",)),
        ({"filter": ""}, ("always",)),
        ({"filter": "list*"}, ("always", "kunit.filter_glob=list*")),
        ({"filter": "a b"}, ("always", '"kunit.filter_glob=a b"')),
    ],
)
def test_kernel_arguments_are_those_whose_parameters_are_given(
    given: Mapping[str, str], expected: tuple[str, ...]
) -> None:
    parameter = Parameter(name="filter", argument="", description="", kind="str")
    kunit = replace(SPEC, parameters=(parameter,), cmdline=("always", "kunit.filter_glob={filter}"))
    assert binding.kernel_arguments(binding.bind(kunit, "kunit", given)) == expected
    with pytest.raises(UserError, match="kernel argument"):
        binding.kernel_arguments(binding.bind(kunit, "kunit", {"filter": 'a"'}))


def test_without_a_workload_there_are_no_kernel_arguments() -> None:
    assert binding.kernel_arguments(None) == ()


# --------------------------------------------------------------------------- in a command


def parameter(
    name: str, argument: str, kind: str = "str", default: str | int | None = None
) -> Parameter:
    return Parameter(name=name, argument=argument, description="", kind=kind, default=default)


def probe(command: str, *parameters: Parameter) -> ProbeSpec:
    return ProbeSpec(
        name="events",
        description="",
        command=command,
        phases=(),
        needs=(),
        kconfigs=(),
        deadline=5.0,
        readings=(),
        parameters=parameters,
    )


CACHES = parameter("caches", "-v caches={value}", default=".")
BUFFER = parameter("buffer", "{value}", kind="int", default=4)


@pytest.mark.parametrize(
    ("command", "given", "expected"),
    [
        ("awk {arguments} '{ print $1 }'", {}, "awk -v caches=. -v buffer=4 '{ print $1 }'"),
        ("awk {arguments} x", {"caches": "a|b c"}, "awk -v caches='a|b c' -v buffer=4 x"),
        ("echo {buffer} > size\nawk {arguments} x", {}, "echo 4 > size\nawk -v caches=. x"),
        ("echo ${buffer} {other} {buffer}", {"buffer": 7}, "echo ${buffer} {other} 7 -v caches=."),
        # a value is no place for another one
        ("echo {caches} {buffer}", {"caches": "{buffer}"}, "echo -v caches='{buffer}' 4"),
    ],
)
def test_a_parameter_stands_where_it_is_named(
    command: str, given: Mapping[str, str | int], expected: str
) -> None:
    buffer = BUFFER if "{buffer}" in command else replace(BUFFER, argument="-v buffer={value}")
    assert binding.of_probe(probe(command, CACHES, buffer), given).command == expected


def test_the_command_of_a_probe_without_parameters_is_as_it_is() -> None:
    text = "awk '{ print }' {arguments}"
    assert binding.of_probe(probe("awk '{ print }'"), {}).command == "awk '{ print }'"
    assert binding.of_probe(probe(text), {}).command == "awk '{ print }'"


def test_a_wrong_parameter_of_a_probe_is_refused() -> None:
    with pytest.raises(UserError, match="probe events: unknown parameter “cache”"):
        binding.of_probe(probe("x", CACHES), {"cache": "a"})
    with pytest.raises(UserError, match="probe events: buffer: expected a whole number"):
        binding.of_probe(probe("x", BUFFER), {"buffer": "many"})
