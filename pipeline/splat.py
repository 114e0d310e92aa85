"""The function at fault in a report of the kernel, and the frames that tell it from others. Pure.

The top of a stack is the machinery that found the fault: the checker, the trap's entry, the
lock primitive, memcpy. The first function below that is what a report is named by. The lists of
machinery are data (`skips` in `pipeline/data/console/stack.toml`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from pipeline.rustnames import demangled

TOP_FRAMES = 5  # how many frames make a fingerprint
_EXACT = ("header", "pointer")
REMEMBERED = 20000  # functions looked up

_NAME = r"[A-Za-z_$][\w.$]*"
_PC = r"\(?\[<?(?:0x)?[0-9a-f]+>?\]\s*"
_FRAME = re.compile(
    rf"\s*(?:<[A-Z/]+>\s*)?(?:{_PC}){{0,2}}(?P<doubt>\?\s+)?(?P<name>{_NAME})"
    r"(?:\+0x[0-9a-f]+(?P<rest>.*)| \S+\.[chS]:\d+ \[inline\])"
)
# 32-bit ARM names the function and its caller in one line.
_ARM_FRAME = re.compile(rf"\s*(?:{_PC})?\(?(?P<name>{_NAME})(?:\+0x[^)]*)?\)? from [\[(A-Za-z_]")
# The kernel's own instruction pointer: x86, arm, arm64 and riscv, mips and loongarch, powerpc,
# s390. A user's has no symbol.
_POINTER = re.compile(
    r"(?:\b[RE]?IP:? (?:[0-9a-f]{2,4}:)?|\b(?:e?pc|era) *: (?:[0-9a-f]{8,16} )?"
    r"|\bPC is at |\bNIP:? (?:\[[0-9a-f]+\] )?"
    r"|\bKrnl PSW : \S+ \S+ \(|--- interrupt: [0-9a-f]+ at )"
    rf"(?:{_PC}){{0,2}}(?P<name>{_NAME})(?:\+0x| \S+:\d+ \[inline\])"
)
_AT = re.compile(rf"\bat: (?:{_PC})?(?P<name>{_NAME})\+0x")
_TRACE = re.compile(r"(?i)call trace|backtrace:")
# Behind these come the stacks of other moments: who allocated, who freed.
_OTHER_STACK = (
    "---[ end ",
    "Uninit was ",
    "Local variable ",
    "Memory state around",
    "Last potentially related",
    "Second to last potentially",
    "The buggy address",
)
_SUFFIX = re.compile(r"\.(?:part|isra|constprop|cold|llvm|lto_priv|\d)[.\w]*")
_SYSCALL = re.compile(r"^(?:__x64_|__ia32_|__arm64_|__riscv_|(?:compat_)?(?:SYSC|SyS)_|__se_)")

Texts = Callable[[], Iterator[str]]  # a report's lines, from its first one on, read as needed


class Skips:
    """The lists of functions that a report is not named by: regexes, searched in a name."""

    def __init__(self, lists: Mapping[str, Sequence[str]]) -> None:
        self._lists = lists
        self._regexes: dict[tuple[str, ...], re.Pattern[str]] = {}
        self._known: dict[tuple[tuple[str, ...], str], bool] = {}

    def has(self, names: tuple[str, ...], function: str) -> bool:
        """Whether one of the lists has the function."""
        key = (names, function)
        known = self._known.get(key)
        if known is None:
            if len(self._known) > REMEMBERED:
                self._known.clear()
            known = self._known[key] = bool(self._regex(names).search(function))
        return known

    def _regex(self, names: tuple[str, ...]) -> re.Pattern[str]:
        if names not in self._regexes:
            words = [word for name in names for word in self._lists.get(name, ())]
            self._regexes[names] = re.compile("|".join(words) or "(?!)")
        return self._regexes[names]


@dataclass(frozen=True, kw_only=True)
class Search:
    """Where the function at fault is looked for.

    `places`, in this order: "header" (the line that began the report), "at" (lockdep's `at:`),
    "pointer" (the instruction pointer and the frames behind it), "trace" (the frames of the
    stack), "first" (the frames from the report's beginning on, stack or not). `skip`: names of
    lists of machinery. `pick`: "first" function that is no machinery; "stall", "hung": what a
    CPU or task that does not get on is named by.
    """

    places: tuple[str, ...]
    skip: tuple[str, ...]
    pick: str


def function_at_fault(search: Search, header: str, texts: Texts, skips: Skips) -> str:
    """The name, or "" where the report does not tell. `header`: the name in its first line."""
    if search.pick == "stall":
        return _pick_stall(_interrupted(texts), skips)
    if search.pick == "hung":
        return _pick_hung(list(_trace(texts)), skips)
    lists = ("machinery", *search.skip)
    for name in _candidates(search, header, texts):
        if not skips.has(lists, name):
            return name
    # Nothing but machinery: where it happened is better than nothing.
    exact = Search(places=tuple(p for p in search.places if p in _EXACT), skip=(), pick="first")
    return next(_candidates(exact, header, texts), "")


def top_frames(texts: Texts, skips: Skips) -> tuple[str, ...]:
    """The first frames of the report that are no machinery."""
    names = (name for name in _frames(texts()) if not skips.has(("machinery",), name))
    return tuple(islice(names, TOP_FRAMES))


def plain(name: str) -> str:
    """A function as people call it: without what compilers add to the names of its clones."""
    if name.startswith("_R"):
        return demangled(name)
    return _SUFFIX.sub("", name).rstrip(".") if "." in name else name


def _candidates(search: Search, header: str, texts: Texts) -> Iterator[str]:
    for place in search.places:
        if place == "header" and header:
            yield plain(header)
        elif place == "at":
            yield from (plain(found["name"]) for found in map(_AT.search, texts()) if found)
        elif place == "pointer":
            yield from _behind_pointer(texts, plain(header))
        elif place == "first":
            yield from _frames(texts())
        elif place == "trace":
            yield from _trace(texts)


def _behind_pointer(texts: Texts, header: str) -> Iterator[str]:
    """The kernel's instruction pointer, those inlined at it, and the frames behind.

    Where two CPUs report at once, theirs is the pointer that the header names too.
    """
    lines = texts()
    for line in lines:
        if _of_another_moment(line):
            return
        found = _POINTER.search(line)
        if found:
            if header and header != plain(found["name"]) and header in _pointers(texts):
                continue
            yield plain(found["name"])
            if "[inline]" not in line:
                yield from _frames(lines)
                return


def _pointers(texts: Texts) -> set[str]:
    return {plain(found["name"]) for line in texts() if (found := _POINTER.search(line))}


def _trace(texts: Texts) -> Iterator[str]:
    """The frames behind `Call Trace:`, or all where there is no such line."""
    lines = texts()
    for line in lines:
        if _TRACE.search(line):
            return _frames(lines)
    return _frames(texts())


def _interrupted(texts: Texts) -> Iterator[str]:
    """The stack that the timer interrupted: behind the interrupt's own frames, with the
    instruction pointers among its frames."""
    lines = texts()
    if any(_TIMER_ENTRY.search(line) for line in lines):
        return _frames(lines, pointers=True)
    lines = texts()
    found = next((f for f in map(_POINTER.search, lines) if f), None)
    return chain([plain(found["name"])], _frames(lines)) if found else _trace(texts)


def _frames(lines: Iterator[str], *, pointers: bool = False) -> Iterator[str]:
    """The functions of a stack, without those that the unwinder is not sure of."""
    for line in lines:
        found = _FRAME.match(line) or _ARM_FRAME.match(line)
        if found is None and pointers:
            found = _POINTER.search(line)
        if found is None:
            if _of_another_moment(line):
                return
            continue
        groups = found.groupdict()
        doubtful = groups.get("doubt") and "<EOI>" not in line
        if not doubtful and "(unreliable)" not in (groups.get("rest") or ""):
            yield plain(found["name"])


def _of_another_moment(line: str) -> bool:
    if line[-1:] == ":" and ("llocated" in line or "reed" in line):
        return True
    return line.startswith(_OTHER_STACK)


_TIMER_ENTRY = re.compile(
    r"(?<!\? )\b(?:asm_sysvec_|smp_)?apic_timer_interrupt\+0x|\bel1h?_(?:64_)?irq(?:_handler)?\+0x"
)


def _pick_stall(frames: Iterator[str], skips: Skips) -> str:
    """A stall is found anywhere in a loop: the function that the dispatcher called is stable."""
    last = ""
    for name in frames:
        if skips.has(("stall",), name):
            continue
        if skips.has(("dispatch",), name):
            return _SYSCALL.sub("", last)
        last = name
    return ""


def _pick_hung(frames: Sequence[str], skips: Skips) -> str:
    """What a task waits for where many wait for it, else the function that waits."""
    for name in frames:
        if name.startswith("rtnl_lock"):
            return name
        if name.startswith(_GRACE_PERIOD):
            return "synchronize_rcu"
    return next((name for name in frames if not skips.has(("waiting",), name)), "")


_GRACE_PERIOD = (
    "synchronize_rcu",
    "synchronize_srcu",
    "synchronize_net",
    "synchronize_sched",
)
