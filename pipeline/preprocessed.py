"""What `gcc -E -dD` writes: where its tokens are from, and how two such texts differ. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from pipeline.model import ChangeKind

_MARKER = re.compile(r'# (\d+) "((?:[^"\\]|\\.)*)"((?: \d)*)')
_TOKEN = re.compile(
    r'(?:u8|[uUL])?"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|\.?\d(?:[eEpP][+-]|[\w.])*|\w+|[^\s\w]'
)
_INTEGER = re.compile(r"(\d+)[uUlL]*")
_NUMBERED = re.compile(r"(\D*\w*?\D)(\d+)")
# Names made with __COUNTER__: a new use moves those of all that follows.
_NUMBER = re.compile(r"(\d+)")
_COUNTED = re.compile(r"(__UNIQUE_ID_\w*?|__compiletime_assert_|__already_done)\d+")
# gcc gives __LINE__ in a call over several lines that of a later one of them.
CALL_LINES = 100
_ORDER = (ChangeKind.NOTHING, ChangeKind.LINES, ChangeKind.STRINGS, ChangeKind.CODE)


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    line: int


def _lines(text: str, root: str) -> Iterator[tuple[str, int, str]]:
    """(file, line, text) of each line; files relative to the source folder `root`.

    After an #include comes a marker for the line behind it: evidence of the directive itself.
    """
    path, number = "", 0
    for line in text.split("\n"):
        if line.startswith("# ") and (match := _MARKER.match(line)):
            path, number = match[2].removeprefix(root.rstrip("/") + "/"), int(match[1])
            if " 2" in match[3]:
                yield path, number - 1, "#include"
            continue
        if line and not line.isspace():
            yield path, number, line
        number += 1


def seen(text: str, root: str, paths: Collection[str]) -> dict[str, set[int]]:
    """The lines of `paths` that something in a preprocessed text is from, #defines too."""
    found: dict[str, set[int]] = {path: set() for path in paths}
    for path, number, _ in _lines(text, root):
        if path in found:
            found[path].add(number)
    return found


def tokens(text: str, root: str) -> list[Token]:
    """All that the compiler gets; adjacent string literals are one."""
    found: list[Token] = []
    for _, number, line in _lines(text, root):
        if line.startswith("#"):
            continue
        for word in _TOKEN.findall(line):
            if word[-1] == '"' and found and found[-1].text[-1] == '"':
                found[-1] = Token(found[-1].text[:-1] + word[word.index('"') + 1 :], found[-1].line)
            else:
                found.append(Token(word, number))
    return found


def kind(old: list[Token], new: list[Token]) -> ChangeKind:
    """The most that differs between two token streams."""
    if len(old) != len(new):
        return ChangeKind.CODE
    worst = 0
    for left, right in zip(old, new, strict=True):
        if left.text != right.text:
            worst = max(worst, _ORDER.index(_pair(left, right)))
            if worst == len(_ORDER) - 1:
                break
    return _ORDER[worst]


def _pair(left: Token, right: Token) -> ChangeKind:
    if left.text[-1] == right.text[-1] == '"':
        return ChangeKind.LINES if _only_lines(left, right) else ChangeKind.STRINGS
    counted = _COUNTED.sub(r"\1", left.text), _COUNTED.sub(r"\1", right.text)
    if counted[0] == counted[1]:
        return ChangeKind.NOTHING
    for pattern in (_INTEGER, _NUMBERED):
        one, other = pattern.fullmatch(left.text), pattern.fullmatch(right.text)
        if one and other and (pattern is _INTEGER or one[1] == other[1]):
            moved = [int(m[pattern.groups]) - t.line for m, t in ((one, left), (other, right))]
            if _moved(*moved):
                return ChangeKind.LINES
    return ChangeKind.CODE


def _only_lines(left: Token, right: Token) -> bool:
    """Whether two literals differ in line numbers alone: __stringify(__LINE__), often in asm."""
    old, new = (_NUMBER.split(_COUNTED.sub(r"\1", each.text)) for each in (left, right))
    return len(old) == len(new) and all(
        one == other or (at % 2 and _moved(int(one) - left.line, int(other) - right.line))
        for at, (one, other) in enumerate(zip(old, new, strict=True))
    )


def _moved(above: int, after: int) -> bool:
    return above == after and 0 <= above <= CALL_LINES


def functions(old: list[Token], new: list[Token]) -> tuple[str, ...]:
    """Names of the functions that differ by more than line numbers, in the order of `new`."""
    was, now = dict(_items(old)), dict(_items(new))
    names = [*now, *(name for name in was if name not in now)]
    empty: list[Token] = []
    small = {ChangeKind.NOTHING, ChangeKind.LINES}
    return tuple(
        name for name in names if kind(was.get(name, empty), now.get(name, empty)) not in small
    )


def _items(stream: list[Token]) -> Iterator[tuple[str, list[Token]]]:
    """The function definitions of a translation unit: name and all its tokens."""
    item: list[Token] = []
    braces = parens = 0
    name = last = ""
    is_function = False
    for token in stream:
        item.append(token)
        text = token.text
        if text == "(":
            if not braces and not parens and not name and not last.startswith("__attribute"):
                name = "" if last in {"typeof", "__typeof__", "asm", "__asm__"} else last
            parens += 1
        elif text == ")":
            parens -= 1
        elif text == "{" and not parens:
            is_function = is_function or (not braces and bool(name) and last == ")")
            braces += 1
        elif text == "}" and not parens:
            braces -= 1
        over = (text == ";" and not is_function) or (text == "}" and is_function)
        if over and not braces and not parens:
            if is_function:
                yield name, item
            item, name, is_function = [], "", False
        last = text
