"""The KTAP reader against the kernel tree's own, `tools/testing/kunit/kunit_parser.py`.

The tree: KTRIAL_LINUX_TREE (a kernel source folder or git repository), else the newest Debian
tree in ktrial's cache; since 5.16 its parser knows nested tests. It runs in a process of its own.

What “agree” means, for each `*.log` of the tree's `test_data`:

1. *Leaves.* The tree's parser has leaves (tests without subtests), each a path of names and a
   status. They are the same as our cases in the same order, with these words: SUCCESS is
   passed, FAILURE is failed, SKIPPED is skipped, TEST_CRASHED is not-run. Left out of our cases
   are those that its parser does not read (`commented`: what kselftest's runner put a `# `
   before is a comment to it) or has no leaf for (`parent`). Where the tree's parser gives no
   name to a test that it did not find, ours may have any. Its NO_TESTS, a leaf that counts
   nowhere, is a passed case of ours with a problem.
2. *Counts.* Its sums of passed, failed, skipped and crashed tests are ours.
3. *Errors.* It counts an error if and only if we have a problem, or found no KTAP at all.
4. *The whole.* Its status is SUCCESS or SKIPPED without errors if and only if our report is good.

For each of these logs cut after each of its lines, where its parser does not fall over itself:
the sums of passed, failed and skipped are the same, and we miss at least as many as it calls
crashed (it does not count a suite whose header is the last line; we do).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pipeline import ktap
from pipeline.ktap import Case, Report

KUNIT = "tools/testing/kunit"
CACHE = Path(
    os.environ.get("KTRIAL_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ktrial"
)
TREE = os.environ.get("KTRIAL_LINUX_TREE", "")

# Reads the logs that it is given, whole and cut after each line, with the tree's parser.
THEIRS = r"""
import json, sys
sys.path.insert(0, sys.argv[1])
import kunit_parser
# Only its verdict is wanted, not what it prints.
kunit_parser.stdout.print_with_timestamp = lambda *_: None

def leaves(test, path):
    for each in test.subtests:
        here = [*path, each.name]
        yield from leaves(each, here) if each.subtests else [(here, each.status.name)]

def read(lines):
    test = kunit_parser.parse_run_tests(lines)
    counts = test.counts
    return {
        "leaves": list(leaves(test, [])),
        "status": test.status.name,
        "counts": [counts.passed, counts.failed, counts.skipped, counts.crashed],
        "errors": counts.errors,
    }

found = {}
for path in sys.argv[2:]:
    with open(path) as file:
        lines = file.readlines()
    cuts = []
    for end in range(1, len(lines)):
        try:
            cuts.append(read(lines[:end]))
        except ValueError:
            cuts.append(None)
    found[path] = {"whole": read(lines), "cuts": cuts}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tools/testing/kunit of a kernel tree."""
    trees = sorted(CACHE.glob("trees/debian-*/repository.git"), key=_version, reverse=True)
    for tree in [Path(TREE)] if TREE else trees:
        found = _unpacked(tree, tmp_path_factory.mktemp("tree"))
        parser = found / "kunit_parser.py"
        if parser.is_file() and "class TestCounts" in parser.read_text(encoding="utf-8"):
            return found
    where = f"KTRIAL_LINUX_TREE={TREE}" if TREE else f"{CACHE}/trees (set KTRIAL_LINUX_TREE)"
    pytest.skip(f"no kernel tree with the {KUNIT} of 5.16 or newer in {where}")


def _unpacked(tree: Path, target: Path) -> Path:
    """The folder in a source tree, or taken out of a repository; maybe not there."""
    if (tree / KUNIT).is_dir():
        return tree / KUNIT
    packed = subprocess.run(
        ["git", "-C", tree, "archive", "HEAD", KUNIT], capture_output=True, check=False
    )
    if packed.returncode == 0:
        subprocess.run(["tar", "-x", "-C", target], input=packed.stdout, check=True)
    return target / KUNIT


def _version(repository: Path) -> tuple[int, ...]:
    name = repository.parent.name.removeprefix("debian-")
    return tuple(int(part) for part in name.split(".") if part.isdigit())


@pytest.fixture(scope="module")
def theirs(folder: Path) -> dict[str, Any]:
    logs = sorted((folder / "test_data").glob("*.log"))
    assert len(logs) > 10, f"{folder}/test_data has only {len(logs)} logs"
    done = subprocess.run(
        [sys.executable, "-B", "-c", THEIRS, folder, *logs],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    assert len(found) == len(logs)
    return found


def _comparable(report: Report) -> list[Case]:
    return [case for case in report.cases if not case.commented and not case.parent]


def _counts(report: Report) -> list[int]:
    counts = Counter(case.status.value for case in _comparable(report))
    return [counts[status] for status in ("passed", "failed", "skipped", "not-run")]


def test_all_of_test_data(theirs: dict[str, Any]) -> None:
    words = {
        "SUCCESS": "passed",
        "FAILURE": "failed",
        "SKIPPED": "skipped",
        "TEST_CRASHED": "not-run",
        "NO_TESTS": "passed",
    }
    for path, said in theirs.items():
        whole = said["whole"]
        with Path(path).open("rb") as file:
            ours = ktap.parse(file)
        cases = _comparable(ours)
        expected = [
            (tuple(names) if names[-1] else case.path, words[status])
            for (names, status), case in zip(whole["leaves"], cases, strict=True)
        ]
        assert [(case.path, case.status.value) for case in cases] == expected, path
        assert _counts(ours) == whole["counts"], path
        assert bool(ours.problems or not ours.found) == bool(whole["errors"]), path
        well = whole["status"] in ("SUCCESS", "SKIPPED") and not whole["errors"]
        assert ours.good == well, path
        for names, status in whole["leaves"]:
            if status == "NO_TESTS":
                assert any(f"{'/'.join(names)}: no tests" in text for text in ours.problems)


def test_cut_after_each_line(theirs: dict[str, Any]) -> None:
    compared = 0
    for path, said in theirs.items():
        lines = Path(path).read_bytes().splitlines(keepends=True)
        for end, cut in enumerate(said["cuts"], 1):
            if cut is None or _is_empty_suite(cut):
                continue
            *results, missing = _counts(ktap.parse(lines[:end]))
            assert results == cut["counts"][:3], f"{path}: {end} lines"
            assert missing >= cut["counts"][3], f"{path}: {end} lines"
            compared += 1
    assert compared > 200


def _is_empty_suite(cut: dict[str, Any]) -> bool:
    """Its count has a crash for a suite that has a test, because that test has none in it."""
    return bool(cut["counts"][3]) and any(status == "NO_TESTS" for _, status in cut["leaves"])
