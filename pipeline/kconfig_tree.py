"""What a tree's Kconfig files say of a symbol: enough to tell why it was lost.

Not a second Kconfig: choices, ranges and macros are not evaluated. A term that is not
understood counts as met, so that what is named as unmet really is. Pure but for `read`,
which is given (path relative to the tree -> text, or None).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

Read = Callable[[str], str | None]

TYPES = frozenset(
    ["bool", "boolean", "tristate", "int", "hex", "string", "def_bool", "def_tristate"]
)
ENTRIES = frozenset(["config", "menuconfig", "choice", "menu", "comment"])
TOKEN = re.compile(
    r"""\s*(?:(?P<op>&&|\|\||!=|<=|>=|=|<|>|!|\(|\))|"(?P<quoted>[^"]*)"|(?P<macro>\$\([^)]*\))"""
    r"""|(?P<word>[\w./-]+))"""
)
LEVEL = {"n": 0, "m": 1, "y": 2}


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """One `config X` of a tree. `needs`: its own and its surroundings' conditions, in order."""

    symbol: str  # without CONFIG_
    file: str
    line: int
    needs: tuple[str, ...]
    prompt: bool
    choice: bool


@dataclass
class _Block:
    """An `if`, `menu`, `choice` or `config` that is being read."""

    kind: str
    needs: list[str]
    symbol: str = ""
    prompt: bool = False
    file: str = ""
    line: int = 0


def declarations(read: Read, *, root: str, variables: Mapping[str, str]) -> list[Declaration]:
    """All symbols below the Kconfig file `root`; `variables` replaces $(NAME), such as SRCARCH."""
    reader = _Reader(read, variables)
    reader.file(root)
    return reader.found


class _Reader:
    def __init__(self, read: Read, variables: Mapping[str, str]) -> None:
        self._read = read
        self._variables = variables
        self._outer: list[_Block] = []
        self._entry: _Block | None = None
        self._seen: set[tuple[str, tuple[str, ...]]] = set()
        self.found: list[Declaration] = []

    def file(self, path: str) -> None:
        path = self._expand(path)
        here = (path, tuple(need for block in self._outer for need in block.needs))
        text = None if here in self._seen else self._read(path)
        self._seen.add(here)
        for number, line in _lines(text or ""):
            self._line(path, number, line)
        self._finish()

    def _expand(self, text: str) -> str:
        for name, value in self._variables.items():
            text = text.replace(f"$({name})", value).replace(f"${name}", value)
        return text

    def _line(self, path: str, number: int, line: str) -> None:
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        if word in ENTRIES:
            self._begin(word, rest, path, number)
        elif word == "if":
            self._finish()
            self._outer.append(_Block(kind="if", needs=[rest]))
        elif word in {"endif", "endmenu", "endchoice"}:
            self._finish()
            if self._outer:
                self._outer.pop()
        elif word in {"source", "rsource", "osource"}:
            self._finish()
            self.file(rest.strip("\"'"))
        else:
            self._attribute(word, rest)

    def _begin(self, word: str, rest: str, path: str, number: int) -> None:
        self._finish()
        block = _Block(kind=word, needs=[], symbol=rest, file=path, line=number)
        if word in {"menu", "choice"}:
            self._outer.append(block)
        self._entry = block

    def _attribute(self, word: str, rest: str) -> None:
        """A line within an entry: only its dependencies and its prompt matter here."""
        if self._entry is None:
            return
        if word == "depends":
            self._entry.needs.append(rest.removeprefix("on").strip())
        elif word == "visible":
            self._entry.needs.append(rest.removeprefix("if").strip())
        elif (word in TYPES and rest.startswith(('"', "'"))) or word == "prompt":
            self._entry.prompt = True
            _, found, condition = rest.rpartition(" if ")
            if found and not condition.rstrip().endswith(('"', "'")):
                self._entry.needs.append(condition)

    def _finish(self) -> None:
        entry, self._entry = self._entry, None
        if entry is None or entry.kind not in {"config", "menuconfig"}:
            return
        around = [need for block in self._outer for need in block.needs]
        self.found.append(
            Declaration(
                symbol=entry.symbol,
                file=entry.file,
                line=entry.line,
                needs=(*around, *entry.needs),
                prompt=entry.prompt,
                choice=any(block.kind == "choice" for block in self._outer),
            )
        )


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Stripped lines without comments and help texts, continued ones joined."""
    help_indent: int | None = None
    waiting_for_help = False
    joined, start = "", 0
    for number, raw in enumerate(text.expandtabs(8).splitlines(), 1):
        indent = len(raw) - len(raw.lstrip())
        line = raw.strip()
        if waiting_for_help and line:
            help_indent, waiting_for_help = (indent or None), False
        if help_indent is not None and (not line or indent >= help_indent):
            continue
        help_indent = None
        if line in {"help", "---help---"}:
            waiting_for_help = True
            continue
        start = start if joined else number
        joined += line.removesuffix("\\")
        if line.endswith("\\"):
            continue
        statement = joined.split(" #")[0].strip()
        joined = ""
        if statement and not statement.startswith("#"):
            yield start, " ".join(statement.split())


def unmet(expression: str, config: Mapping[str, str]) -> tuple[str, ...]:
    """The parts of a condition that `config` does not meet: its false conjuncts.

    Each is a text such as "VIRTIO_MENU (n)"; a disjunction is named whole.
    """
    parts = _split(expression, "&&")
    if len(parts) > 1:
        return tuple(text for part in parts for text in unmet(part, config))
    stripped = _unwrapped(expression)
    if stripped != expression.strip():
        return unmet(stripped, config)
    if _Evaluation(stripped, config).result() > 0:
        return ()
    if re.fullmatch(r"\w+", stripped):
        return (f"{stripped} ({config.get(f'CONFIG_{stripped}', 'n')})",)
    return (stripped,)


def _split(expression: str, operator: str) -> list[str]:
    """The operands of `operator` outside all parentheses; || binds weaker than &&."""
    depth, parts, current = 0, [], ""
    for piece in re.split(r"(&&|\|\||[()])", expression):
        depth += (piece == "(") - (piece == ")")
        if depth == 0 and piece == "||":
            return [expression]
        if depth == 0 and piece == operator:
            parts.append(current)
            current = ""
        else:
            current += piece
    return [*parts, current]


def _unwrapped(expression: str) -> str:
    text = expression.strip()
    while text.startswith("(") and text.endswith(")"):
        inner, depth = text[1:-1], 0
        for character in inner:
            depth += (character == "(") - (character == ")")
            if depth < 0:
                return text
        text = inner.strip()
    return text


class _Evaluation:
    """Value of a condition: 0, 1 or 2 as n, m or y. What is not understood is y."""

    def __init__(self, expression: str, config: Mapping[str, str]) -> None:
        self._config = config
        self._tokens = [match for match in TOKEN.finditer(expression) if match[0].strip()]
        self._at = 0

    def result(self) -> int:
        return self._or()

    def _operator(self, *operators: str) -> str:
        if self._at < len(self._tokens) and self._tokens[self._at]["op"] in operators:
            self._at += 1
            return str(self._tokens[self._at - 1]["op"])
        return ""

    def _or(self) -> int:
        value = self._and()
        while self._operator("||"):
            value = max(value, self._and())
        return value

    def _and(self) -> int:
        value = self._not()
        while self._operator("&&"):
            value = min(value, self._not())
        return value

    def _not(self) -> int:
        if self._operator("!"):
            return 2 - self._not()
        if self._operator("("):
            value = self._or()
            self._operator(")")
            return value
        return self._comparison()

    def _comparison(self) -> int:
        left = self._operand()
        operator = self._operator("=", "!=", "<", ">", "<=", ">=")
        if not operator:
            return 2 if left is None else LEVEL.get(left, 0)
        right = self._operand()
        if left is None or right is None or operator not in {"=", "!="}:
            return 2
        return 2 if (left == right) == (operator == "=") else 0

    def _operand(self) -> str | None:
        """The text of a word: a symbol's value, or the constant itself; None for a macro."""
        if self._at >= len(self._tokens):
            return None
        token = self._tokens[self._at]
        self._at += 1
        if token["quoted"] is not None:
            return str(token["quoted"])
        word = token["word"]
        if word is None:
            return None
        if word in LEVEL or word[0].isdigit():
            return str(word)
        return self._config.get(f"CONFIG_{word}", "n").strip('"')


def reason(symbol: str, wanted: str, found: list[Declaration], config: Mapping[str, str]) -> str:
    """Why `symbol` is not `wanted` in `config`, in one line, as far as the Kconfig files tell."""
    name = symbol.removeprefix("CONFIG_")
    declared = [declaration for declaration in found if declaration.symbol == name]
    if not declared:
        return "this tree has no such symbol for this architecture"
    wrong = [
        tuple(dict.fromkeys(text for need in declaration.needs for text in unmet(need, config)))
        for declaration in declared
    ]
    where = f"{declared[0].file}:{declared[0].line}"
    if all(wrong):
        fewest = min(wrong, key=len)
        return f"unmet dependency: {', '.join(fewest)} ({where})"
    if not any(declaration.prompt for declaration in declared):
        return f"only other symbols can set it, it has no prompt ({where})"
    if any(declaration.choice for declaration in declared):
        return f"another member of the same choice is set ({where})"
    if wanted == "n":
        return f"another symbol selects it ({where})"
    return f"the tree's Kconfig gave it another value ({where})"
