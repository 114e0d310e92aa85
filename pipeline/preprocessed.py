"""What `gcc -E -dD` writes: where its tokens are from, and how two such texts differ. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

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
_WORD = re.compile(r"[A-Za-z_]\w*")
_TAGS = frozenset(["struct", "union", "enum"])
_NO_CALLS = frozenset(["typeof", "__typeof__", "asm", "__asm__", "_Alignas"])
_KEYWORDS = frozenset(["__attribute__", "__attribute", "__extension__", *_TAGS, *_NO_CALLS])
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


def names(old: list[Token], new: list[Token]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Functions, and variables and types, that differ by more than line numbers, in the order of
    `new`."""
    was = {item.name: item for item in _items(old)}
    now = {item.name: item for item in _items(new)}
    small = {ChangeKind.NOTHING, ChangeKind.LINES}
    differ = [
        item
        for item in [*now.values(), *(item for name, item in was.items() if name not in now)]
        if kind(_tokens(was, item.name), _tokens(now, item.name)) not in small
    ]
    return (
        tuple(item.name for item in differ if item.is_function),
        tuple(item.name for item in differ if not item.is_function),
    )


def _tokens(items: Mapping[str, _Item], name: str) -> list[Token]:
    return items[name].tokens if name in items else []


@dataclass
class _Item:
    """A definition at file scope. `called`: the word before its first bracket, where that is no
    attribute's; `word`: the last word of the declarator so far; `tag`: "struct foo"."""

    tokens: list[Token] = field(default_factory=list)
    is_function: bool = False
    called: str = ""
    word: str = ""
    tag: str = ""
    initialized: bool = False

    @property
    def name(self) -> str:
        """ "" of what defines nothing: prototypes, typedefs, asm()."""
        first = self.tokens[0].text
        if self.is_function:
            return self.called
        if self.called or first in {"typedef", "extern", ";"}:
            return ""
        if self.initialized:
            return self.word
        if "{" in (token.text for token in self.tokens) and self.tag.endswith(f" {self.word}"):
            return self.tag
        forward = first in _TAGS and len(self.tokens) == len(("struct", "name", ";"))
        return "" if forward else self.word

    def see(self, text: str, before: str) -> None:
        """A token outside of all brackets."""
        if text in {"(", "["} and not self.initialized:
            known = before.startswith("__attribute") or before in _NO_CALLS
            if text == "(" and not self.called and not known:
                self.called = before
        elif text == "=":
            self.initialized = True
        elif text == "{" and before == ")" and self.called and not self.initialized:
            self.is_function = True
        elif not self.initialized and _WORD.fullmatch(text) and text not in _KEYWORDS:
            self.tag = f"{before} {text}" if before in _TAGS else self.tag
            self.word = text


def _items(stream: list[Token]) -> Iterator[_Item]:
    """The named definitions of a translation unit with all their tokens."""
    item = _Item()
    depth = 0
    last = ""
    for token in stream:
        text = token.text
        item.tokens.append(token)
        if not depth:
            item.see(text, last)
        depth += (text in "([{") - (text in ")]}")
        last = text
        if not depth and (text == "}" if item.is_function else text == ";"):
            if item.name:
                yield item
            item = _Item()
