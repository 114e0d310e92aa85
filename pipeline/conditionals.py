"""The conditionals of a C file: which lines are code, and what the preprocessor asks of each.
Pure.

What would bring a line in is found from the text of the conditions alone: CONFIG_ symbols,
defined(), IS_ENABLED() and its like, !, &&, || and comparisons with a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_DIRECTIVE = re.compile(r"\s*#\s*(ifdef|ifndef|if|elifdef|elifndef|elif|else|endif)\b(.*)", re.S)
_OPAQUE = re.compile(
    r"""/\*.*?(?:\*/|\Z)|//(?:\\\n|[^\n])*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S
)
_TOKEN = re.compile(r"\s*(\|\||&&|[!=<>]=|[!<>()]|\w+|\S)")
_ENABLED = frozenset(["IS_ENABLED", "IS_REACHABLE", "IS_BUILTIN", "IS_MODULE"])
_COMPARE = frozenset(["==", "!=", "<", ">", "<=", ">="])
Options = frozenset[str] | None  # settings that make a condition hold; None: none are known


@dataclass(frozen=True, kw_only=True)
class Branch:
    """A branch of an #if: `text`, as the source has it; it holds where `wants` does and none of
    `before`. `lines`: of its inside. `outer`: index of the branch around it, -1 for none."""

    text: str
    wants: str
    before: tuple[str, ...]
    first: int
    last: int
    outer: int


@dataclass(frozen=True, kw_only=True)
class Source:
    """`code`: lines with anything but space and comments, directives among them. `within`: the
    innermost branch of each line that is in one."""

    code: frozenset[int]
    branches: tuple[Branch, ...]
    within: Mapping[int, int]

    def chain(self, line: int) -> Iterator[int]:
        """The branches around a line, from the innermost one."""
        at = self.within.get(line, -1)
        while at >= 0:
            yield at
            at = self.branches[at].outer


@dataclass
class _Open:
    text: str
    wants: str
    before: tuple[str, ...]
    index: int


def read(text: str) -> Source:
    """The conditionals and code lines of a source text."""
    plain = _OPAQUE.sub(_blank, text)
    lines = plain.split("\n")
    shown = text.split("\n")
    code = frozenset(number for number, line in enumerate(lines, 1) if line.strip(" \t\r\\"))
    branches: list[Branch] = []
    within: dict[int, int] = {}
    stack: list[_Open] = []
    number = 0
    while number < len(lines):
        start = number
        whole = lines[number]
        while whole.endswith("\\") and number + 1 < len(lines):
            number += 1
            whole = whole[:-1] + " " + lines[number]
        number += 1
        match = _DIRECTIVE.match(whole)
        if match:
            outside = stack[:-1] if not match[1].startswith("if") else stack
            _turn(match[1], match[2].strip(), shown[start].strip(), start, stack, branches=branches)
            here = outside[-1].index if outside else -1
        else:
            here = stack[-1].index if stack else -1
        if here >= 0:
            within.update(dict.fromkeys(range(start + 1, number + 1), here))
    return Source(code=code, branches=tuple(branches), within=within)


def plain(text: str) -> list[str]:
    """A source text without comments, empty lines and the space around what is left: where two
    are the same, nothing but line numbers can differ in what is made of them."""

    def bare(match: re.Match[str]) -> str:
        literal = match[0].replace(" ", "\0").replace("\t", "\1")
        return " " if match[0][0] == "/" else literal

    lines = (" ".join(line.split()) for line in _OPAQUE.sub(bare, text).split("\n"))
    return [line for line in lines if line]


def _blank(match: re.Match[str]) -> str:
    """Comments become space, literals a word, each as many lines as before."""
    if match[0][0] == "/":
        return re.sub(r"[^\n]", " ", match[0])
    return '""'


def _turn(
    word: str, rest: str, shown: str, at: int, stack: list[_Open], *, branches: list[Branch]
) -> None:
    """Close the branch that ends at a directive (line `at` + 1) and open the one that begins."""
    before: tuple[str, ...] = ()
    if not word.startswith("if"):
        if not stack:
            return
        ended = stack.pop()
        branch = branches[ended.index]
        branches[ended.index] = Branch(**{**branch.__dict__, "last": at})
        before = (*ended.before, ended.wants)
        if word == "endif":
            return
        shown = f"{shown} of {ended.text}" if word == "else" else shown
    wants = "1" if word == "else" else rest
    if word.endswith("ndef"):
        wants = f"!defined({rest})"
    elif word.endswith("def"):
        wants = f"defined({rest})"
    outer = stack[-1].index if stack else -1
    branches.append(
        Branch(text=shown, wants=wants, before=before, first=at + 2, last=at + 2, outer=outer)
    )
    stack.append(_Open(text=shown, wants=wants, before=before, index=len(branches) - 1))


def needed(branch: Branch, config: Mapping[str, str]) -> Options:
    """Settings that a branch lacks in `config`: empty where it holds, None where unknown."""
    parts = [_Solver(text, config).solve(False) for text in branch.before]
    return _all([*parts, _Solver(branch.wants, config).solve(True)])


def _all(parts: Sequence[Options]) -> Options:
    known = [part for part in parts if part is not None]
    return frozenset().union(*known) if len(known) == len(parts) else None


def _any(parts: Sequence[Options]) -> Options:
    return min((part for part in parts if part is not None), key=_effort, default=None)


def _effort(options: frozenset[str]) -> tuple[int, list[str]]:
    return len(options), sorted(options)


class _Solver:
    """Recursive descent over a condition; each rule gives what makes it (True, False)."""

    def __init__(self, text: str, config: Mapping[str, str]) -> None:
        self._config = config
        self._tokens = _TOKEN.findall(text)

    def solve(self, wanted: bool) -> Options:
        yes, no = self._or()
        return None if self._tokens else (yes if wanted else no)

    def _take(self, *tokens: str) -> str:
        if self._tokens and self._tokens[0] in tokens:
            return str(self._tokens.pop(0))
        return ""

    def _or(self) -> tuple[Options, Options]:
        parts = [self._and()]
        while self._take("||"):
            parts.append(self._and())
        return _any([yes for yes, _ in parts]), _all([no for _, no in parts])

    def _and(self) -> tuple[Options, Options]:
        parts = [self._unary()]
        while self._take("&&"):
            parts.append(self._unary())
        return _all([yes for yes, _ in parts]), _any([no for _, no in parts])

    def _unary(self) -> tuple[Options, Options]:
        if self._take("!"):
            yes, no = self._unary()
            return no, yes
        if self._take("("):
            found = self._or()
            self._take(")")
            return found
        word = self._tokens.pop(0) if self._tokens else ""
        if word == "defined" or word in _ENABLED:
            bracket = self._take("(")
            name = self._tokens.pop(0) if self._tokens else ""
            if bracket:
                self._take(")")
            return self._symbol(name, word)
        if self._tokens and self._tokens[0] in _COMPARE:
            operator = self._tokens.pop(0)
            return self._compared(word, operator, self._tokens.pop(0) if self._tokens else "")
        if re.fullmatch(r"\d+[uUlL]*", word):
            truth = int(word.rstrip("uUlL")) != 0
            return (frozenset(), None) if truth else (None, frozenset())
        return self._symbol(word, "defined")

    def _symbol(self, name: str, how: str) -> tuple[Options, Options]:
        if not name.startswith("CONFIG_"):
            return None, None
        module = how == "IS_MODULE" or (name.endswith("_MODULE") and name not in self._config)
        name = name.removesuffix("_MODULE") if module else name
        value = self._config.get(name, "n")
        if module:
            holds = value == "m"
        else:
            holds = value != "n" and (value != "m" or how in {"IS_ENABLED", "IS_REACHABLE"})
        setting = f"{name}={'m' if module else 'y'}"
        if holds:
            return frozenset(), frozenset([f"{name}=n"])
        return frozenset([setting]), frozenset()

    def _compared(self, name: str, operator: str, text: str) -> tuple[Options, Options]:
        if not name.startswith("CONFIG_") or not text.isdigit():
            return None, None
        bound = int(text)
        value = self._config.get(name, "0")
        now = int(value, 0) if re.fullmatch(r"\d+|0x[0-9a-fA-F]+", value) else 0
        results: dict[bool, Options] = {True: None, False: None}
        for number in (bound + 1, bound - 1, bound):
            results[_holds(number, operator, bound)] = frozenset([f"{name}={number}"])
        results[_holds(now, operator, bound)] = frozenset()
        return results[True], results[False]


def _holds(left: int, operator: str, right: int) -> bool:
    order = (left > right) - (left < right)
    return {"==": order == 0, "!=": order != 0, "<": order < 0, ">": order > 0,
            "<=": order <= 0, ">=": order >= 0}[operator]  # fmt: skip
