"""KTAP lines put together: which test has which subtests. Pure.

Indentation tells, not plans or names: plans may be wrong and names missing. Where the
indentation was lost on the way (some loggers strip it), headers, plans and numbers tell.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from pipeline.ktapline import Depth, Kind, Line

# Deeper lines belong to the last level: nobody nests tests so deep, but noise may.
DEEPEST = 32
# Suite, case and parameter: no test in the kernel has more levels.
MOST_FLAT = 3
# A kernel that finds no root or no init after its tests has done all it was to do.
_NO_ROOT = ("VFS:", "No working init", "No init found", "Requested init")


@dataclass(kw_only=True)
class Test:
    """One result. `result` is None where the result line of a test with subtests is missing."""

    name: str
    line: int
    result: Line | None = None
    group: Group | None = None


@dataclass(kw_only=True)
class Group:
    """The tests of a document, or the subtests of one test.

    `name` is what a `# Subtest:` header says of it, `title` what kselftest's runner said of the
    test that printed it. `started`: the test in it that the runner began and that has no result
    yet. `cut`: the panic that ended it. `flat`: its lines are not indented against those around.
    """

    depth: Depth
    line: int
    name: str = ""
    title: str = ""
    version: Line | None = None
    plan: Line | None = None
    other_plans: list[Line] = field(default_factory=list)
    tests: list[Test] = field(default_factory=list)
    started: Line | None = None
    bailed: Line | None = None
    cut: Line | None = None
    flat: bool = False

    @property
    def fresh(self) -> bool:
        return not (self.name or self.plan or self.tests or self.bailed)

    @property
    def full(self) -> bool:
        """Whether all planned tests have a result; False where nothing is planned."""
        return self.plan is not None and len(self.tests) >= (self.plan.count or 0)

    @property
    def following(self) -> int:
        """The number that the next test is to have."""
        return len(self.tests) + 1


class Document:
    """One document as it is read: a stack of groups, the outermost first."""

    def __init__(self, first: Line) -> None:
        known = first.kind is Kind.VERSION
        depth = first.depth if known else (0, 0)  # its beginning is lost: no telling
        self._stack = [Group(depth=depth, line=first.number, version=first if known else None)]
        self._kernel = first.kernel
        self._header: Line | None = None
        if not known:
            self.take(first)

    @property
    def _root(self) -> Group:
        return self._stack[0]

    @property
    def _top(self) -> Group:
        return self._stack[-1]

    @property
    def unfinished(self) -> bool:
        return not self._root.full and not self._root.bailed

    def nests(self, version: Line) -> bool:
        """Whether a version line begins subtests in this document, not a document of its own."""
        if version.depth > self._root.depth:
            return True
        waiting = self._root.plan is not None and self.unfinished
        return waiting and sum(group.flat for group in self._stack) < MOST_FLAT

    def take(self, line: Line) -> None:
        line = self._rebased(line)
        if line.kind is Kind.RESULT and line.count is None and not self._trusts(line):
            return
        if line.kind is Kind.SUBTEST:
            self._settle(line)
            self._subtest(line)
        elif line.kind is Kind.STARTED:
            self._leave(line.depth)
            self._top.started = line
        else:
            self._settle(line)
            {
                Kind.VERSION: self._version,
                Kind.PLAN: self._plan,
                Kind.RESULT: self._result,
                Kind.BAIL: self._bail,
            }[line.kind](line)

    def finish(self, end: Line | None = None) -> list[Group]:
        """No more lines will come; `end` says why. One group, or several where it was several.

        A document that looked like the subtests of another one, without indentation, and after
        which the other did not go on, was a document of its own.
        """
        if self._header:
            self._settle(self._header)
        if end and _is_crash(end.text) and (len(self._stack) > 1 or self.unfinished):
            self._root.cut = end
        split: list[Group] = []
        while len(self._stack) > 1:
            if self._top.flat and self._top.version:
                split.insert(0, self._stack.pop())
            else:
                self._drop()
        return [self._root, *split]

    # ------------------------------------------------------------------ levels

    def _trusts(self, line: Line) -> bool:
        """Whether "ok" without a number is a result: TAP allows that, KTAP does not, and drivers
        say it too."""
        tap = self._root.version is None or self._root.version.text == "TAP"
        placed = any(group.depth == line.depth for group in self._stack)
        return tap and placed and line.kernel == self._kernel

    def _rebased(self, line: Line) -> Line:
        """Nothing lies outside the document; what its first line stood behind was no indentation
        (the prompt of a shell, for instance) where the second one is further left."""
        root = self._root
        if line.depth >= root.depth:
            return line
        if root.fresh and len(self._stack) == 1:
            root.depth = line.depth
            return line
        return replace(line, depth=root.depth)

    def _open(self, depth: Depth, line: Line, *, name: str = "", flat: bool = False) -> None:
        if len(self._stack) >= DEEPEST:
            return
        title = self._top.started.text if self._top.started else ""
        self._stack.append(Group(depth=depth, line=line.number, name=name, title=title, flat=flat))

    def _drop(self) -> None:
        """Leave the innermost level, whose parent has no result line."""
        group = self._stack.pop()
        name = group.name or group.title
        self._top.tests.append(Test(name=name, line=group.line, group=group))
        if group.title:
            self._top.started = None

    def _leave(self, depth: Depth) -> None:
        """Leave the levels deeper than `depth`: the result lines of their parents are missing."""
        while len(self._stack) > 1 and self._top.depth > depth:
            self._drop()

    def _settle(self, line: Line) -> None:
        """Open what a `# Subtest:` header announced: only the line after it tells where."""
        header, self._header = self._header, None
        if header is None:
            return
        if header.depth > self._top.depth or line.depth > header.depth:
            self._open(max(header.depth, line.depth), header, name=header.text)
        elif line.kind is Kind.RESULT and line.text == header.text and line.depth == header.depth:
            inside = (header.depth[0], header.depth[1] + 1)  # a header, and no test behind it
            self._open(inside, header, name=header.text)
        else:
            self._next_to(header, name=header.text)

    def _next_to(self, line: Line, *, name: str = "") -> None:
        """Open a level as deep as the innermost one: instead of it, or without indentation."""
        flat = len(self._stack) == 1 or self._top.flat
        if not flat:
            self._drop()
        self._open(line.depth, line, name=name, flat=flat)

    # ------------------------------------------------------------------ lines

    def _subtest(self, line: Line) -> None:
        self._leave(line.depth)
        top = self._top
        if top.depth == line.depth and top.version and top.fresh and len(self._stack) > 1:
            top.name = line.text
        else:
            self._header = line

    def _version(self, line: Line) -> None:
        self._leave(line.depth)
        if line.depth > self._top.depth:
            self._open(line.depth, line)
        elif self._top.version or self._top.plan or self._top.tests:
            self._next_to(line)
        self._top.version = line

    def _plan(self, line: Line) -> None:
        self._leave(line.depth)
        if line.depth > self._top.depth:
            self._open(line.depth, line)
        elif len(self._stack) > 1 and self._top.full and not self._top.flat:
            self._next_to(line)
        if self._top.plan is None:
            self._top.plan = line
        else:
            self._top.other_plans.append(line)

    def _result(self, line: Line) -> None:
        inner = self._inner(line)
        if line.depth > self._top.depth:
            self._open(line.depth, line)
        if inner and inner.name and line.text and inner.name != line.text:
            self._top.tests.append(Test(name=inner.name, line=inner.line, group=inner))
            inner = None
        self._top.tests.append(Test(name=line.text, line=line.number, result=line, group=inner))
        self._top.started = None

    def _inner(self, line: Line) -> Group | None:
        """Leave the levels that this result ends; the outermost of them has its subtests."""
        inner: Group | None = None
        while len(self._stack) > 1 and self._ends(self._top, line):
            group = self._stack.pop()
            if inner:
                name = inner.name or inner.title
                group.tests.append(Test(name=name, line=inner.line, group=inner))
            inner = group
        return inner

    def _ends(self, group: Group, line: Line) -> bool:
        if group.depth > line.depth:
            return True
        outer = self._stack[-2]
        ends = (bool(group.name) and group.name == line.text) or group.full
        return group.flat and ends and line.count in (None, outer.following)

    def _bail(self, line: Line) -> None:
        self._leave(line.depth)
        if line.depth > self._top.depth:
            self._open(line.depth, line)
        self._top.bailed = self._top.bailed or line


def _is_crash(text: str) -> bool:
    return "not syncing" in text and not any(each in text for each in _NO_ROOT)


class Shelf:
    """All documents of a stream. A program's and the kernel's may be mixed line by line: while
    both are open they are told apart by printk's prefix."""

    def __init__(self) -> None:
        self._open: dict[bool, Document] = {}
        self._closed: list[Group] = []

    def take(self, line: Line) -> None:
        if line.kind is Kind.END:
            self._close(*self._open, end=line)
            return
        document = self._open.get(line.kernel) or self._open.get(not line.kernel)
        if document is None:
            if _may_begin(line):
                self._open[line.kernel] = Document(line)
        elif line.kind is Kind.VERSION and not self._nests(document, line):
            self._open[line.kernel] = Document(line)
        else:
            document.take(line)

    def finish(self) -> list[Group]:
        """The documents in the order in which they began."""
        self._close(*self._open)
        return sorted(self._closed, key=lambda group: group.line)

    def _nests(self, document: Document, line: Line) -> bool:
        """False once the way is free for a document of its own."""
        own = line.kernel in self._open
        if (own or line.depth > (0, 0)) and document.nests(line):
            return True
        if own:
            self._close(line.kernel)
        elif not document.unfinished:
            self._close(not line.kernel)
        return False

    def _close(self, *which: bool, end: Line | None = None) -> None:
        for each in which:
            self._closed += self._open.pop(each).finish(end)


def _may_begin(line: Line) -> bool:
    """A log may have lost its beginning; `ok` alone is an ordinary word."""
    if line.kind is Kind.RESULT:
        return line.count is not None
    return line.kind is not Kind.STARTED


def build(lines: Iterable[Line]) -> list[Group]:
    """The documents that these lines make."""
    shelf = Shelf()
    for line in lines:
        shelf.take(line)
    return shelf.finish()
