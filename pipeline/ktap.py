"""KTAP and TAP read: cases, and what is wrong with the document that holds them. Pure.

A case is a test without subtests. Its name is the path to it, `suite/test/subtest`, of the
names on the result lines (the test's number where it has none). A test *with* subtests is a
case of its own only where it says something bad that its subtests do not: it failed although
none of them did, it ran out of time, it has no result line. A program that kselftest's runner
ran always is one: its exit status is evidence beside the subtests that it printed. Every test
that was planned and has no result is a case as well: `not-run`.

A directive counts for its own line only: a test that failed below one that is TODO has failed.
But where a test was skipped, so is what it planned and did not run, and its numbers are not
looked at (`ksft_exit_skip()` gives the wrong one once there is a plan).

Not every oddity is a problem: a missing plan is none (ktap.rst allows it), a test that failed
is a case. A problem is what makes the document less than what it should be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain, islice

from pipeline import ktapline, ktaptree
from pipeline.ktapline import Line
from pipeline.ktaptree import Group, Test

# A plan of a billion tests is damage, not work to be listed.
MOST_NOT_RUN = 10_000
VERSIONS = {"KTAP": (1,), "TAP": (13, 14)}
ALL = "(all)"  # the case of a document that skips all of its tests


class Status(Enum):
    """`todo` and `xfail`: not expected to pass, whether the line says ok or not. `error`: the
    test could not do its work. `not-run`: planned or begun, and no result of it.
    """

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    TODO = "todo"
    XFAIL = "xfail"
    TIMEOUT = "timeout"
    ERROR = "error"
    NOT_RUN = "not-run"

    @property
    def bad(self) -> bool:
        return self in (Status.FAILED, Status.TIMEOUT, Status.ERROR, Status.NOT_RUN)


_DIRECTIVES = {
    "SKIP": Status.SKIPPED,
    "TODO": Status.TODO,
    "XFAIL": Status.XFAIL,
    "TIMEOUT": Status.TIMEOUT,
    "ERROR": Status.ERROR,
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """`path`: the names from the outermost test to this one. `line`: where its result stands
    in the log, or where what was to hold it begins, from 1. `detail`: what the result line
    says behind its directive. `commented`: in lines that kselftest's runner put a `# ` before.
    `parent`: a test with subtests that says what they do not. `said`: the diagnostics of one that
    is not ok, such as KUnit's EXPECTATION FAILED.
    """

    path: tuple[str, ...]
    status: Status
    line: int
    detail: str = ""
    commented: bool = False
    parent: bool = False
    said: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return "/".join(self.path)


@dataclass(frozen=True, kw_only=True)
class Document:
    """One of those in a stream. `plan`: of its outermost tests, None where it has none.

    `complete`: all tests that were planned or begun have a result, and nothing cut it short.
    """

    line: int
    version: str
    plan: int | None
    complete: bool


@dataclass(frozen=True, kw_only=True)
class Report:
    """All documents of a stream in their order; `found` is False where there is none."""

    cases: tuple[Case, ...]
    documents: tuple[Document, ...]
    problems: tuple[str, ...]

    @property
    def found(self) -> bool:
        return bool(self.documents)

    @property
    def plan(self) -> int | None:
        """The outermost tests planned in all documents; None where one has no plan."""
        plans = [each.plan for each in self.documents if each.plan is not None]
        return sum(plans) if self.found and len(plans) == len(self.documents) else None

    @property
    def complete(self) -> bool:
        return self.found and all(each.complete for each in self.documents)

    @property
    def good(self) -> bool:
        """Something ran or was skipped, nothing is bad, nothing is missing."""
        fine = not any(case.status.bad for case in self.cases)
        return bool(self.cases) and fine and self.complete and not self.problems


def parse(lines: Iterable[bytes]) -> Report:
    """A log's lines, as a file opened in binary gives them; other output may be between them."""
    auditor = _Auditor()
    read = [auditor.document(group) for group in ktaptree.build(ktapline.read(lines))]
    return Report(
        cases=tuple(case for cases, _ in read for case in cases),
        documents=tuple(document for _, document in read),
        problems=tuple(text for _, text in sorted(auditor.problems)),
    )


def parse_text(text: str) -> Report:
    """The same for a text that is at hand, such as the output of a workload."""
    return parse(text.encode("utf-8", errors="replace").split(b"\n"))


@dataclass
class _Auditor:
    """Goes through documents: hands out their cases, and notes what is wrong.

    `spare`: how many tests that did not run may still be listed.
    """

    problems: list[tuple[int, str]] = field(default_factory=list)
    spare: int = MOST_NOT_RUN
    complete: bool = True

    def document(self, group: Group) -> tuple[list[Case], Document]:
        self.complete = True
        if group.version is None:
            self._note(group.line, (), "no version line before it: the beginning may be lost")
        if group.cut:
            self.complete = False
            self._note(group.cut.number, (), f"cut short: {group.cut.text}")
        cases = list(self._group(group, (), skipped=None)) or self._nothing(group)
        return cases, Document(
            line=group.line,
            version=f"{group.version.text} {group.version.count}" if group.version else "",
            plan=group.plan.count if group.plan else None,
            complete=self.complete,
        )

    def _nothing(self, group: Group) -> list[Case]:
        """What to say of a document without a test."""
        if group.plan and group.plan.directive:
            detail = group.plan.text
            return [Case(path=(ALL,), status=Status.SKIPPED, line=group.plan.number, detail=detail)]
        if not group.bailed:
            self._note(group.line, (), "no tests in it")
        return []

    def _note(self, line: int, path: tuple[str, ...], text: str) -> None:
        where = f"{'/'.join(path)}: " if path else ""
        self.problems.append((line, f"line {line}: {where}{text}"))

    # ------------------------------------------------------------------ a set of tests

    def _group(
        self, group: Group, path: tuple[str, ...], *, skipped: Line | None
    ) -> Iterator[Case]:
        """`skipped`: the result of the test that has these subtests, where it was skipped."""
        self._version(group, path)
        for position, test in enumerate(group.tests, 1):
            number = test.result.count if test.result else None
            name = test.name or str(number if number is not None else position)
            yield from self._test(test, (*path, name), commented=group.depth[0] > 0)
        if group.bailed:
            self.complete = False
            self._note(group.bailed.number, path, f"Bail out! {group.bailed.text}".strip())
        if skipped is None:
            self._plan(group, path)
            self._numbers(group, path)
        yield from self._missing(group, path, skipped=skipped)

    def _version(self, group: Group, path: tuple[str, ...]) -> None:
        version = group.version
        if version and version.count not in VERSIONS[version.text]:
            self._note(version.number, path, f"{version.text} version {version.count} is not known")

    def _plan(self, group: Group, path: tuple[str, ...]) -> None:
        if group.plan and len(group.tests) != group.plan.count:
            text = f"{group.plan.count} tests planned, {len(group.tests)} found"
            self._note(group.plan.number, path, text)
        for other in group.other_plans:
            self._note(other.number, path, f"one more plan: 1..{other.count}")

    def _numbers(self, group: Group, path: tuple[str, ...]) -> None:
        """Each number is to be one more than the one before it; a slip is told once."""
        seen: set[int] = set()
        expected = 1
        for test in group.tests:
            number = test.result.count if test.result else None
            if number is not None and number in seen:
                self._note(test.line, path, f"number {number} is there twice")
            elif number is not None and number != expected:
                self._note(test.line, path, f"number {number} where {expected} was due")
            if number is not None:
                seen.add(number)
            expected = (expected if number is None else number) + 1

    def _missing(
        self, group: Group, path: tuple[str, ...], *, skipped: Line | None
    ) -> Iterator[Case]:
        """The planned tests without a result, and the one that kselftest's runner had begun."""
        count, names = _missing_names(group)
        if count and skipped is None:
            self.complete = False
        listed = min(count, self.spare)
        self.spare -= listed
        if listed < count:
            self._note(group.line, path, f"{count - listed} tests that did not run are not listed")
        for name in islice(names, listed):
            yield Case(
                path=(*path, name),
                status=Status.NOT_RUN if skipped is None else Status.SKIPPED,
                line=group.line,
                detail=skipped.detail if skipped else "",
                commented=group.depth[0] > 0,
            )

    # ------------------------------------------------------------------ one test

    def _test(self, test: Test, path: tuple[str, ...], *, commented: bool) -> Iterator[Case]:
        result, group, status = test.result, test.group, _status(test)
        if result is None:
            self.complete = False
            self._note(test.line, path, "no result line")
        elif result.passed and status in (Status.TIMEOUT, Status.ERROR):
            self._note(result.number, path, f"says both ok and {result.directive}")
        inner: list[Case] = []
        if group:
            skipped = result if status is Status.SKIPPED else None
            inner = list(self._group(group, path, skipped=skipped))
            if not inner and status is Status.PASSED and not group.bailed:
                self._note(group.line, path, "no tests in it")
        yield from inner
        program = not commented and any(case.commented for case in inner)
        if not inner or program or _speaks(status, inner):
            yield Case(
                path=path,
                status=status,
                line=test.line,
                detail=_detail(test),
                commented=commented,
                parent=bool(inner) and not program,
                said=result.said if result and not inner else (),
            )


def _status(test: Test) -> Status:
    result, group = test.result, test.group
    if result is None:
        return Status.NOT_RUN
    if result.directive:
        return _DIRECTIVES[result.directive]
    if result.passed and group and not group.tests and group.plan and group.plan.directive:
        return Status.SKIPPED  # 1..0 # SKIP why
    return Status.PASSED if result.passed else Status.FAILED


def _detail(test: Test) -> str:
    """What the result line says more; of a test that skipped all of its subtests, why."""
    said = test.result.detail if test.result else ""
    plan = test.group.plan if test.group else None
    return said or (plan.text if plan and plan.directive else "")


def _speaks(status: Status, inner: list[Case]) -> bool:
    """Whether a test says something bad that its subtests do not."""
    told = any(case.status.bad for case in inner)
    return status in (Status.TIMEOUT, Status.ERROR) or (status.bad and not told)


def _missing_names(group: Group) -> tuple[int, Iterator[str]]:
    """How many tests have no result, and what to call them: the numbers that nobody has had."""
    planned = (group.plan.count or 0) if group.plan else 0
    begun = [group.started.text] if group.started else []
    taken = {_number(test, place) for place, test in enumerate(group.tests, 1)}
    free = (n for n in range(1, planned + 1) if n not in taken)
    names = chain(begun, (str(number) for number in islice(free, len(begun), None)))
    return max(planned - len(group.tests), len(begun)), names


def _number(test: Test, place: int) -> int:
    number = test.result.count if test.result else None
    return place if number is None else number
