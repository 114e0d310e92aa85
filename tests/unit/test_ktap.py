"""KTAP and TAP documents, good and damaged: their cases, and what is wrong with them."""

from __future__ import annotations

import random
import textwrap
from pathlib import Path

import pytest

from pipeline import ktap
from pipeline.ktap import Report, Status

FOLDER = Path(__file__).parent / "ktap"


def read(text: str) -> Report:
    return ktap.parse_text(textwrap.dedent(text))


def cases(report: Report) -> list[tuple[str, str]]:
    return [(case.name, case.status.value) for case in report.cases]


def recorded(name: str) -> Report:
    with (FOLDER / name).open("rb") as file:
        return ktap.parse(file)


# ------------------------------------------------------------------------- nesting

SPEC = """\
    KTAP version 1
    1..1
      KTAP version 1
      1..3
        KTAP version 1
        1..1
        # test_1: initializing test_1
        ok 1 test_1
      ok 1 example_test_1
        KTAP version 1
        1..2
        ok 1 test_1 # SKIP test_1 skipped
        ok 2 test_2
      ok 2 example_test_2
        KTAP version 1
        1..3
        ok 1 test_1
        # test_2: FAIL
        not ok 2 test_2
        ok 3 test_3 # SKIP test_3 skipped
      not ok 3 example_test_3
    not ok 1 main_test
    """
NESTED = [
    ("main_test/example_test_1/test_1", "passed"),
    ("main_test/example_test_2/test_1", "skipped"),
    ("main_test/example_test_2/test_2", "passed"),
    ("main_test/example_test_3/test_1", "passed"),
    ("main_test/example_test_3/test_2", "failed"),
    ("main_test/example_test_3/test_3", "skipped"),
]


def test_the_example_of_the_specification() -> None:
    report = read(SPEC)
    assert cases(report) == NESTED
    assert (report.plan, report.complete, report.problems, report.good) == (1, True, (), False)
    assert report.cases[1].detail == "test_1 skipped"
    assert report.cases[4].line == 19


@pytest.mark.parametrize("unit", ["\t", " ", "        "])
def test_any_indentation(unit: str) -> None:
    assert cases(ktap.parse_text(textwrap.dedent(SPEC).replace("  ", unit))) == NESTED


def test_indentation_that_a_logger_took_away() -> None:
    flat = "\n".join(line.strip() for line in SPEC.splitlines())
    report = ktap.parse_text(flat)
    assert (cases(report), report.problems) == (NESTED, ())


def test_headers_of_kunit_and_of_tap14() -> None:
    report = read("""\
        TAP version 14
        1..3
            # Subtest: old kunit
            1..1
            ok 1 - a
        ok 1 - old kunit
            KTAP version 1
            # Subtest: new kunit
            # module: example
            1..1
            # b.speed: slow
                KTAP version 1
                # Subtest: b
                ok 1 one
                ok 2 two
            ok 1 b
        ok 2 new kunit
        # Subtest: tap14
            1..1
            ok 1 - c
        ok 3 - tap14
        """)
    assert [case.name for case in report.cases] == [
        "old kunit/a",
        "new kunit/b/one",
        "new kunit/b/two",
        "tap14/c",
    ]
    assert report.good


def test_headers_without_indentation() -> None:
    report = read("""\
        TAP version 14
        1..2
        # Subtest: a
        1..2
        ok 1 - x
        ok 2 - y
        ok 1 - a
        # Subtest: b
        ok 1 - x
        ok 2 - b
        """)
    assert [case.name for case in report.cases] == ["a/x", "a/y", "b/x"]
    assert report.good


def test_subtests_that_skip_a_level() -> None:
    report = read("""\
        KTAP version 1
        1..1
                ok 1 leaf
            ok 1 middle
        ok 1 top
        """)
    assert (cases(report), report.good) == ([("top/middle/leaf", "passed")], True)


def test_a_kselftest_run() -> None:
    report = recorded("kselftest.log")
    mm, timers = "selftests: mm: ", "selftests: timers: "
    first = mm + "map_fixed_noreplace"
    assert cases(report) == [
        (
            f"{first}/mmap() @ 0x7f0000000000-0x7f0000005000 p=0x7f0000000000 result=Success",
            "passed",
        ),
        (f"{first}/second mapping needs 5 pages", "skipped"),
        (f"{first}/Base Address unmap() successful", "passed"),
        (first, "passed"),
        (f"{mm}hugetlb_fault/not enough huge pages", "skipped"),
        *((f"{mm}hugetlb_fault/{number}", "skipped") for number in (1, 3, 4)),
        (f"{mm}hugetlb_fault", "skipped"),
        (f"{mm}soft-dirty/Test test_simple", "passed"),
        (f"{mm}soft-dirty/Test test_vma_reuse dirty bit of allocated page", "error"),
        (f"{mm}soft-dirty/Test test_hugepage huge page allocation", "xfail"),
        (f"{mm}soft-dirty", "timeout"),
        (f"{mm}memfd_secret", "skipped"),
        (f"{timers}posix_timers", "passed"),
        (f"{timers}raw_skew/estimated drift is too large", "failed"),
        (f"{timers}raw_skew", "failed"),
    ]
    assert (report.plan, report.complete, report.problems) == (6, True, ())
    details = {case.name.removeprefix(mm): case.detail for case in report.cases}
    assert details["soft-dirty"] == "45 seconds"
    assert details["memfd_secret"] == "memfd_secret is not enabled"


def test_what_the_runner_of_kselftest_printed() -> None:
    """kselftest/runner.sh and kselftest.h of 6.12 themselves, with programs that end each way."""
    report = recorded("kselftest-runner.log")
    found: dict[str, list[str]] = {}
    for case in report.cases:
        found.setdefault(case.path[0].removeprefix("selftests: mm: "), []).append(
            f"{case.path[1] if case.path[1:] else 'it'} {case.status.value}"
        )
    assert found == {
        "t_1": ["it skipped"],
        "t_2": ["one 1 passed", "two skipped", "three xfail", "it passed"],
        "t_3": ["one passed", "two error", "3 not-run", "it failed"],
        "t_4": ["nothing here skipped", "1 skipped", "3 skipped", "it skipped"],
        "t_5": ["one passed", "2 not-run", "3 not-run", "it timeout"],
        "t_6": ["one passed", "2 not-run", "3 not-run", "it failed"],
        "t_7": ["t0 passed", "t1 failed", "t2 passed", "it failed"],
        "t_8": ["1 not-run", "2 not-run", "3 not-run", "it passed"],
        "helper.sh": ["first one passed", "second skipped", "third failed", "it failed"],
        "missing": ["it failed"],
    }
    assert (report.plan, report.complete) == (10, False)
    assert report.problems == (
        "line 19: selftests: mm: t_3: 3 tests planned, 2 found",
        "line 22: selftests: mm: t_3: Bail out! cannot go on",
        "line 36: selftests: mm: t_5: 3 tests planned, 1 found",
        "line 43: selftests: mm: t_6: 3 tests planned, 1 found",
        "line 59: selftests: mm: t_8: 3 tests planned, 0 found",
    )


def test_a_runner_in_a_runner() -> None:
    report = read("""\
        TAP version 13
        1..1
        # selftests: all: run
        # TAP version 13
        # 1..1
        # # selftests: mm: a
        # # TAP version 13
        # # 1..1
        # # ok 1 x
        # ok 1 selftests: mm: a
        ok 1 selftests: all: run
        """)
    outer, inner = "selftests: all: run", "selftests: mm: a"
    assert [case.path for case in report.cases] == [(outer, inner, "x"), (outer,)]
    assert report.good


def test_a_parent_that_says_what_its_subtests_do_not() -> None:
    report = read("""\
        KTAP version 1
        1..1
            1..1
            ok 1 fine
        not ok 1 suite # its exit failed
        """)
    assert cases(report) == [("suite/fine", "passed"), ("suite", "failed")]
    assert (report.cases[1].parent, report.problems) == (True, ())


# ------------------------------------------------------------------------- result lines


@pytest.mark.parametrize(
    ("line", "name", "status", "detail"),
    [
        ("ok 1 a", "a", "passed", ""),
        ("ok 1 - a b", "a b", "passed", ""),
        ("not ok 1 a", "a", "failed", ""),
        ("ok 1", "1", "passed", ""),
        ("not ok 1 -", "1", "failed", ""),
        ("ok 1 a # rcode=0", "a", "passed", "rcode=0"),
        ("not ok 1 # exit=1", "1", "failed", "exit=1"),
        ("ok 1 a #3 b", "a #3 b", "passed", ""),
        ("ok 1 a \\# b", "a # b", "passed", ""),
        ("ok 1 a # SKIP why", "a", "skipped", "why"),
        ("not ok 1 a # SKIP", "a", "skipped", ""),
        ("ok 1 a # skipped: why", "a", "skipped", "why"),
        ("ok 1 a #SKIP why", "a", "skipped", "why"),
        ("ok 1 # SKIP a", "a", "skipped", ""),
        ("ok 1 # SKIP", "1", "skipped", ""),
        ("ok 1 a # b # SKIP why", "a", "skipped", "why"),
        ("not ok 1 a # TODO later", "a", "todo", "later"),
        ("ok 1 a # TODO", "a", "todo", ""),
        ("ok 1 # XFAIL a", "a", "xfail", ""),
        ("not ok 1 a # XFAIL known", "a", "xfail", "known"),
        ("ok 1 a # XPASS surprise", "a", "passed", "XPASS surprise"),
        ("not ok 1 a # TIMEOUT 30 seconds", "a", "timeout", "30 seconds"),
        ("not ok 1 a # ERROR no disk", "a", "error", "no disk"),
        ("not ok 1 # error a", "a", "error", ""),
        ("not ok 1 a # error=-22", "a", "failed", "error=-22"),
        ("ok 1 a # error path was taken", "a", "passed", "error path was taken"),
        ("ok 1 skipping # is no directive", "skipping", "passed", "is no directive"),
    ],
)
def test_result_lines(line: str, name: str, status: str, detail: str) -> None:
    report = ktap.parse_text(f"KTAP version 1\n1..1\n{line}\n")
    assert [(case.name, case.status.value, case.detail) for case in report.cases] == [
        (name, status, detail)
    ]
    assert (report.problems, report.complete) == ((), True)
    assert report.good is not Status(status).bad


def test_ok_and_a_bad_directive_contradict_each_other() -> None:
    report = read("KTAP version 1\n1..1\nok 1 a # TIMEOUT 3\n")
    assert cases(report) == [("a", "timeout")]
    assert report.problems == ("line 3: a: says both ok and TIMEOUT",)


def test_results_without_a_number_are_taps_not_ktaps() -> None:
    log = "{} version {}\n1..2\nok - a\nok, said the driver\n  ok so far\nnot ok b\n"
    tap = ktap.parse_text(log.format("TAP", 13))
    assert cases(tap) == [("a", "passed"), ("b", "failed")]
    assert tap.problems == ()
    assert cases(ktap.parse_text(log.format("KTAP", 1))) == [("1", "not-run"), ("2", "not-run")]


# ------------------------------------------------------------------------- plans and numbers


@pytest.mark.parametrize(
    ("log", "found", "plan", "complete", "problems"),
    [
        ("ok 1 a\nok 2 b", "passed passed", None, True, ()),
        ("ok 1 a\nok 2 b\n1..2", "passed passed", 2, True, ()),
        ("1..3\nok 1 a", "passed not-run not-run", 3, False, ("line 2: 3 tests planned, 1 found",)),
        ("1..1\nok 1 a\nok 2 b", "passed passed", 1, True, ("line 2: 1 tests planned, 2 found",)),
        ("1..2\n1..2\nok 1 a\nok 2 b", "passed passed", 2, True, ("line 3: one more plan: 1..2",)),
        ("ok 1 a\nok 1 b", "passed passed", None, True, ("line 3: number 1 is there twice",)),
        ("ok 1 a\nok 3 b\nok 4 c", "passed passed passed", None, True,
         ("line 3: number 3 where 2 was due",)),
        ("1..3\nok 1 a\nok 3 c", "passed passed not-run", 3, False,
         ("line 2: 3 tests planned, 2 found", "line 4: number 3 where 2 was due")),
        ("1..0", "", 0, True, ("line 1: no tests in it",)),
        ("1..0 # SKIP no hardware", "skipped", 0, True, ()),
        ("", "", None, True, ("line 1: no tests in it",)),
        ("1..2\nok 1 a\nBail out! no memory", "passed not-run", 2, False,
         ("line 2: 2 tests planned, 1 found", "line 4: Bail out! no memory")),
    ],
)  # fmt: skip
def test_plans_and_numbers(
    log: str, found: str, plan: int | None, complete: bool, problems: tuple[str, ...]
) -> None:
    report = ktap.parse_text(f"KTAP version 1\n{log}\n")
    assert " ".join(case.status.value for case in report.cases) == found
    assert (report.plan, report.complete, report.problems) == (plan, complete, problems)


def test_the_missing_one_is_named_by_its_number() -> None:
    report = read("KTAP version 1\n1..4\nok 1 a\nok 2 b\nok 4 d\n")
    assert cases(report)[-1] == ("3", "not-run")


def test_skipping_all_says_why() -> None:
    report = read("TAP version 13\n1..0 # SKIP no hardware\n")
    assert [(case.name, case.detail) for case in report.cases] == [(ktap.ALL, "no hardware")]


def test_a_suite_without_tests() -> None:
    report = read("""\
        KTAP version 1
        1..2
            # Subtest: empty
        ok 1 empty
            KTAP version 1
            1..0 # SKIP not here
        ok 2 left out
        """)
    assert cases(report) == [("empty", "passed"), ("left out", "skipped")]
    assert report.problems == ("line 3: empty: no tests in it",)


@pytest.mark.parametrize(("version", "known"), [
    ("KTAP version 1", True), ("KTAP version 2", False), ("TAP version 12", False),
    ("TAP version 13", True), ("TAP version 14", True), ("TAP version 15", False),
])  # fmt: skip
def test_versions(version: str, known: bool) -> None:
    report = ktap.parse_text(f"{version}\n1..1\nok 1 a\n")
    assert report.problems == (() if known else (f"line 1: {version} is not known",))
    assert cases(report) == [("a", "passed")]


def test_an_absurd_plan_is_told_and_not_listed() -> None:
    report = ktap.parse_text("KTAP version 1\n1..999999999999\n" * 3)
    assert sum(case.status is Status.NOT_RUN for case in report.cases) == ktap.MOST_NOT_RUN
    assert any("are not listed" in text for text in report.problems)


# ------------------------------------------------------------------------- cut short


def test_an_oops_in_the_middle() -> None:
    report = recorded("kunit-oops.log")
    assert cases(report) == [
        ("list_sort/list_sort_test", "passed"),
        ("my_cache/cache_creates", "passed"),
        ("my_cache/cache_grows/by one page", "passed"),
        ("my_cache/cache_grows/by two pages", "failed"),
        ("my_cache/3", "not-run"),
        ("my_cache/4", "not-run"),
        ("3", "not-run"),
    ]
    assert not report.complete
    assert report.problems == (
        "line 3: 3 tests planned, 2 found",
        "line 10: my_cache: no result line",
        "line 12: my_cache: 4 tests planned, 2 found",
        "line 22: cut short: Kernel panic - not syncing: Fatal exception",
    )


def test_a_panic_after_the_last_planned_test_is_no_matter_of_theirs() -> None:
    whole = "KTAP version 1\n1..1\nok 1 a\nKernel panic - not syncing: {}\n"
    unplanned = whole.replace("1..1\n", "")
    assert ktap.parse_text(whole.format("Fatal exception")).good
    assert not ktap.parse_text(unplanned.format("Fatal exception")).complete
    assert ktap.parse_text(unplanned.format("VFS: Unable to mount root fs")).good


def test_a_test_that_froze_is_named() -> None:
    head = "TAP version 13\n1..3\n# selftests: mm: a\nok 1 selftests: mm: a\n# selftests: mm: b\n"
    frozen = ktap.parse_text(head)
    assert cases(frozen)[1:] == [("selftests: mm: b", "not-run"), ("3", "not-run")]
    report = ktap.parse_text(head + "# TAP version 13\n# 1..2\n# ok 1 x\n")
    assert cases(report)[1:] == [
        ("selftests: mm: b/x", "passed"),
        ("selftests: mm: b/2", "not-run"),
        ("selftests: mm: b", "not-run"),
        ("3", "not-run"),
    ]


def test_a_lost_result_line_leaves_the_other_suite_alone() -> None:
    report = read("""\
        KTAP version 1
        1..2
            # Subtest: a
            1..1
            ok 1 x
            # Subtest: b
            1..1
            ok 1 y
        ok 2 b
        """)
    assert cases(report) == [("a/x", "passed"), ("a", "not-run"), ("b/y", "passed")]
    assert report.problems == ("line 3: a: no result line",)
    assert not report.complete


def test_a_lost_result_line_between_sets_that_have_only_plans() -> None:
    report = read("""\
        TAP version 13
        1..2
            1..1
            ok 1 x
            1..1
            ok 1 y
        ok 2 b
        """)
    assert cases(report) == [("1/x", "passed"), ("1", "not-run"), ("b/y", "passed")]


def test_a_result_with_another_name_is_another_test() -> None:
    report = read("""\
        KTAP version 1
        1..2
            # Subtest: a
            1..1
            ok 1 x
        ok 2 b
        """)
    assert cases(report) == [("a/x", "passed"), ("a", "not-run"), ("b", "passed")]


@pytest.mark.parametrize("seed", range(20))
def test_cut_anywhere_no_result_is_lost_and_none_is_made(seed: int) -> None:
    """What was finished keeps its result; what was planned by then is there."""
    lines = textwrap.dedent(SPEC).splitlines()
    whole = dict(cases(read(SPEC)))
    cut = random.Random(seed).randrange(1, len(lines))
    report = ktap.parse_text("\n".join(lines[:cut]))
    finished = [case for case in report.cases if case.status is not Status.NOT_RUN]
    said = [line for line in lines[:cut] if line.lstrip().startswith(("ok", "not ok"))]
    leaves = [line for line in said if "example" not in line]
    assert len(finished) == len(leaves)
    for case in finished:
        full = [status for name, status in whole.items() if name.endswith(case.path[-1])]
        assert case.status.value in full
    assert not report.complete
    assert not report.good


# ------------------------------------------------------------------------- streams


def test_documents_one_after_the_other() -> None:
    report = read("""\
        TAP version 13
        1..1
        ok 1 a
        some words
        KTAP version 1
        ok 1 a
        TAP version 13
        1..2
        ok 1 b
        """)
    assert cases(report) == [("a", "passed"), ("a", "passed"), ("b", "passed"), ("2", "not-run")]
    assert [(each.line, each.version, each.plan, each.complete) for each in report.documents] == [
        (1, "TAP 13", 1, True),
        (5, "KTAP 1", None, True),
        (7, "TAP 13", 2, False),
    ]
    assert report.plan is None


def test_a_reboot_begins_anew() -> None:
    report = recorded("two-kernels.log")
    assert cases(report) == [
        ("first", "passed"), ("2", "not-run"), ("first", "passed"), ("second", "passed"),
    ]  # fmt: skip


def test_an_unfinished_document_does_not_swallow_the_next() -> None:
    report = read("TAP version 13\n1..3\nok 1 a\nTAP version 13\n1..2\nok 1 b\nok 2 c\n")
    assert [case.name for case in report.cases] == ["a", "2", "3", "b", "c"]
    assert [each.complete for each in report.documents] == [False, True]


def test_many_unfinished_documents_stay_apart() -> None:
    report = ktap.parse_text("TAP version 13\n1..2\nok 1 a\n" * 40)
    assert cases(report) == [("a", "passed"), ("2", "not-run")] * 40
    assert len(report.documents) == 40


def test_one_too_many_in_the_next_document_is_no_result_of_the_one_before() -> None:
    report = read("TAP version 13\n1..3\nok 1 a\nTAP version 13\n1..1\nok 1 b\nok 7 c\n")
    assert [case.name for case in report.cases] == ["a", "2", "3", "b", "c"]


def test_a_programs_and_the_kernels_at_once() -> None:
    report = read("""\
        TAP version 13
        1..2
        # selftests: lib: bitmap.sh
        [    9.100000] KTAP version 1
        [    9.100001] 1..1
        ok 1 selftests: lib: bitmap.sh
        [    9.100002] ok 1 bitmap
        # selftests: lib: printf.sh
        ok 2 selftests: lib: printf.sh
        """)
    assert [case.name for case in report.cases] == [
        "selftests: lib: bitmap.sh",
        "selftests: lib: printf.sh",
        "bitmap",
    ]
    assert report.good


def test_what_a_failed_test_said_is_told() -> None:
    """KUnit's expectations have lines of their own behind the one with the mark."""
    report = ktap.parse(
        b"""\
[    0.8] KTAP version 1
[    0.8] 1..1
[    0.8]     KTAP version 1
[    0.8]     # Subtest: damon
[    0.8]     1..3
[    0.8]     # split: this one goes well
[    0.8]     ok 1 split
[    0.8] usb 1-1: no word of a test's
[    0.8]     # ops: EXPECTATION FAILED at core-kunit.h:342
[    0.8]     Expected select(c) == 0, but
[    0.8]         select(c) == -22 (0xea), ok it is not
[    0.8]     not ok 2 ops
[    0.8]     not ok 3 silent
[    0.8] # damon: pass:1 fail:2
[    0.8] not ok 1 damon
""".splitlines(keepends=True)
    )
    assert {case.name: case.said for case in report.cases} == {
        "damon/split": (),
        "damon/ops": (
            "ops: EXPECTATION FAILED at core-kunit.h:342",
            "Expected select(c) == 0, but",
            "select(c) == -22 (0xea), ok it is not",
        ),
        "damon/silent": (),
    }


def test_a_log_that_lost_its_beginning() -> None:
    report = read("ok 7 a\nok 8 b\n")
    assert cases(report) == [("a", "passed"), ("b", "passed")]
    assert "no version line" in report.problems[0]
    suite = read("    # Subtest: s\n    1..1\n    ok 1 x\nok 1 s\n")
    assert cases(suite) == [("s/x", "passed")]


@pytest.mark.parametrize("text", ["", "ok\n", "all is ok 1 time\n", "# selftests: a: b\n", "1..\n"])
def test_no_ktap_at_all(text: str) -> None:
    report = ktap.parse_text(text)
    assert (report.found, report.good, report.cases) == (False, False, ())


def test_noise_never_raises_and_deep_noise_does_not_pile_up() -> None:
    words = [
        "KTAP version 1", "TAP version 13", "# Subtest: a", "# Subtest", "1..3", "1..0 # SKIP x",
        "ok 1 a", "not ok 2 b", "ok", "Bail out!", "# selftests: m: t", "ok 1 selftests: a: b",
        "Kernel panic - not syncing: x", "ok 99999999999999999999 z", "\x1b[0mtext", "\x00",
    ]  # fmt: skip
    leads = ["", "  ", "\t", "# ", "# # ", "[    1.000000] ", "<4>", "foo: ", "[    1.000000]   "]
    for seed in range(500):
        dice = random.Random(seed)
        lines = [dice.choice(leads) + dice.choice(words) for _ in range(dice.randint(1, 25))]
        report = ktap.parse_text("\n".join(lines))
        assert not report.good or report.complete
    deep = "\n".join(" " * column + "ok 1 x" for column in range(2000))
    assert len(ktap.parse_text("KTAP version 1\n" + deep).cases) > 1000
