from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline import options, overrides, settings, tree, verbs
from pipeline.errors import InfraError, UserError
from pipeline.model import TreeSpec
from pipeline.progress import Step
from pipeline.scenariofile import WorkloadEntry
from pipeline.scope import Scope
from tests.conftest import QuietStep


class Remembers:
    """A reporter that keeps what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        del title
        yield QuietStep()


def arguments(*words: str) -> argparse.Namespace:
    return options.parser().parse_args(words)


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("hackbench", WorkloadEntry(use="hackbench", parameters={})),
        (
            "hackbench:loops=5,process=true",
            WorkloadEntry(use="hackbench", parameters={"loops": 5, "process": True}),
        ),
        ("a:b=1.5,c=x", WorkloadEntry(use="a", parameters={"b": 1.5, "c": "x"})),
    ],
)
def test_a_workload_on_the_command_line(text: str, entry: WorkloadEntry) -> None:
    assert overrides.workload_entry(text) == entry


def test_a_parameter_without_a_value_is_refused() -> None:
    with pytest.raises(UserError, match="loops"):
        overrides.workload_entry("hackbench:loops")


def test_the_demo_takes_a_newer_tree_where_its_own_is_not_to_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def open_tree(spec: TreeSpec, **_: object) -> None:
        asked.append(spec.name)
        if spec.name == "debian:5.10":
            raise tree.TreeUnavailable("linux-source-5.10 is not on the mirror")
        raise InfraError("far enough for this test")

    monkeypatch.setattr(tree, "open_tree", open_tree)
    told = Remembers()
    own = settings.read({"HOME": str(tmp_path)}, cwd=tmp_path, options={})
    with pytest.raises(InfraError, match="far enough"):
        verbs.demo(arguments("demo"), own, told, Scope())
    assert asked == ["debian:5.10", "debian:6.12"]
    assert told.said == [
        "linux-source-5.10 is not on the mirror: taking debian:6.12 and its variant instead"
    ]
