"""result.json holds a whole run, and gives it back as it was."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import record
from pipeline.errors import UserError
from pipeline.model import (
    Build,
    Change,
    ChangedFile,
    ChangeKind,
    Checked,
    Comparison,
    Diagnostic,
    Examination,
    Growth,
    HiddenLines,
    Run,
    Sizes,
    TestResult,
    Verified,
)
from tests import reports, runs

RUNS = [
    pytest.param(reports.good, id="good"),
    pytest.param(reports.broken, id="broken"),
    pytest.param(reports.varied, id="varied"),
    pytest.param(reports.with_every_outcome, id="every outcome"),
]


SAID = Diagnostic(tool="compiler", file="mm/slub.c", line=7, function="f", text="unused ‘x’")
GROWTH = Growth(
    before=Sizes(text=100, data=20, bss=3),
    after=Sizes(text=110, data=20, bss=3),
    added=10,
    changed=1,
    symbols=(("f", 30, 40),),
)


def build(run: Run) -> Build:
    found = run.evidence.builds["x86_64", "fix"]
    assert isinstance(found, Build)
    return found


def examined() -> Run:
    """With everything that is found out beside the boots, and tests that guests reported."""
    run = reports.good()
    pair = ("x86_64", "fix")
    first, *others = run.evidence.boots
    seen = replace(runs.finding(), decoded="mm/slub.c:7", known="is known", fingerprint="f")
    test = TestResult(name="suite/case", status="failed", detail=reports.WILD.replace("\ud800", ""))
    hidden = HiddenLines(lines=(1, 2), by="#ifdef CONFIG_NUMA", options=("CONFIG_NUMA=y",))
    changed = ChangedFile(path="mm/slub.c", compiled=(3,), hidden=(hidden,))
    evidence = replace(
        run.evidence,
        builds={**run.evidence.builds, pair: replace(build(run), warnings=(SAID,), digest="d")},
        comparisons={pair: Comparison(below="base", identical=False, growth=GROWTH)},
        examinations={pair: Examination(change=Change(kind=ChangeKind.STRINGS), files=(changed,))},
        checked={
            ("", "fix", "checkpatch"): Checked(check="checkpatch", new=(SAID,), log=Path("/l")),
            (*pair, "sparse"): Checked(check="sparse", problem="no such program"),
        },
        verified={pair: Verified(differing=("vmlinux",), seconds=3.0)},
        boots=(replace(first, findings=(seen,), tests=(test, test), since=4.5), *others),
        spared={"verify.x86_64.fix": "why"},
        enough={first.boot.name: "the answer was clear"},
    )
    return replace(run, evidence=evidence)


RUNS.append(pytest.param(examined, id="examined"))


@pytest.mark.parametrize("make", RUNS)
def test_a_run_comes_back_as_it_was(make: Callable[[], Run]) -> None:
    run = make()
    text = record.dump(run)
    assert text.isascii()
    assert record.load(text) == run
    assert record.dump(record.load(text)) == text


def test_a_run_of_nothing_comes_back() -> None:
    made = runs.plan()
    run = runs.run(made, replace(runs.good_evidence(made), boots=(), tree=None, builds={}))
    assert record.load(record.dump(run)) == run


def test_the_numbers_are_one_flat_table() -> None:
    run = reports.good()
    table = json.loads(record.dump(run))["samples"]
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    assert len(rows) == sum(len(boot.samples) for boot in run.evidence.boots)
    keys = ("architecture", "guest", "workload", "kernel", "block", "boot", "phase", "metric")
    assert len({tuple(row[key] for key in keys) for row in rows}) == len(rows)
    (order,) = [
        row
        for row in rows
        if (row["kernel"], row["metric"], row["block"]) == ("fix", "kmalloc-1k.order", 0)
    ]
    assert order == {
        "architecture": "x86_64",
        "configuration": "",
        "guest": "smp2of8",
        "workload": "hackbench",
        "kernel": "fix",
        "block": 0,
        "boot": 0,
        "phase": "after-boot",
        "source": "slab-orders",
        "metric": "kmalloc-1k.order",
        "value": 2,
        "unit": "",
        "better": "neither",
    }


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_numbers_that_json_lacks_still_make_valid_json(value: float) -> None:
    run = replace(reports.good(), ended=value)
    text = record.dump(run)
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    back = record.load(text).ended
    assert back == value or (math.isnan(back) and math.isnan(value))


def test_keys_of_a_newer_ktrial_are_passed_over_and_missing_ones_have_defaults() -> None:
    run = reports.good()
    document = json.loads(record.dump(run))
    document["run"]["colour"] = "green"
    del document["run"]["notes"]
    assert record.load(json.dumps(document)) == replace(run, notes=())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "not a result"),
        ('{"schema": 1}', "not a result"),
        ('{"schema": 999, "run": {}, "samples": {}}', "schema 999"),
        ('{"schema": 1, "run": {}, "samples": {"columns": [], "rows": []}}', "at run"),
        ('{"schema": 1, "run": 3, "samples": {"columns": [], "rows": []}}', "at run"),
    ],
)
def test_what_is_no_result_gets_one_clear_line(text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        record.load(text)


def test_a_wrong_value_is_named_by_its_place() -> None:
    document = json.loads(record.dump(reports.good()))
    document["run"]["cases"][2]["seconds"] = "soon"
    with pytest.raises(UserError, match=r"run\.cases\[2\]\.seconds"):
        record.load(json.dumps(document))
    document = json.loads(record.dump(reports.good()))
    document["samples"]["rows"][0][10] = "many"
    with pytest.raises(UserError, match="samples"):
        record.load(json.dumps(document))


def test_a_builds_warnings_are_cut_and_counted() -> None:
    run = reports.good()
    many = tuple(replace(SAID, line=number) for number in range(5_000))
    builds = {**run.evidence.builds, ("x86_64", "fix"): replace(build(run), warnings=many)}
    text = record.dump(replace(run, evidence=replace(run.evidence, builds=builds)))
    kept = build(record.load(text)).warnings
    assert kept == many[: record.MOST_WARNINGS]
    ((place, words),) = json.loads(text)["left_out"].items()
    assert place == "run.evidence.builds.x86_64.fix.warnings"
    assert words.startswith("4000 of 5000 warnings: see ")
    assert words.endswith("build.log")


def test_texts_without_end_are_cut_once_and_say_where_they_are() -> None:
    run = reports.good()
    first, *others = run.evidence.boots
    long = replace(first, outputs=(runs.output("hackbench", text="x" * 30_000_000),))
    text = record.dump(replace(run, evidence=replace(run.evidence, boots=(long, *others))))
    assert len(text) < 2_000_000
    back = record.load(text)
    assert str(first.folder) in back.evidence.boots[0].outputs[0].text
    assert json.loads(text)["left_out"]
    assert json.loads(record.dump(back))["left_out"] == {}
