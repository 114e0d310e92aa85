"""Rust's mangled symbols (`_RNvNtCs…_4ring4push`) as people write them (`ring::push`). Pure.

The v0 scheme, which is what the kernel's Makefile asks rustc for. Hashes of crates, which differ
from compiler to compiler, are left out. Source: the rustc book, "v0 Symbol Format" (RFC 2603).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase, digits

_DEEPEST = 64  # a damaged name may refer to itself
_MOST_STEPS = 4000  # and a short one may unfold to a long one
_BASE_62 = digits + ascii_lowercase + ascii_uppercase
_BASIC = {
    **{"a": "i8", "b": "bool", "c": "char", "d": "f64", "e": "str", "f": "f32", "h": "u8"},
    **{"i": "isize", "j": "usize", "l": "i32", "m": "u32", "n": "i128", "o": "u128"},
    **{"p": "_", "s": "i16", "t": "u16", "u": "()", "v": "...", "x": "i64", "y": "u64"},
    **{"z": "!"},
}
_AROUND = {"S": "[{}]", "P": "*const {}", "O": "*mut {}"}
_SHIMS = {"C": "closure", "S": "shim"}
_HEX = re.compile(r"[0-9a-f]*")
_NUMBER = re.compile(r"[1-9][0-9]*|0")


@lru_cache(maxsize=4096)
def demangled(symbol: str) -> str:
    """The path that a symbol stands for; the symbol itself where it is none of Rust's, or cut."""
    if not symbol.startswith("_R"):
        return symbol
    try:
        return _Reader(symbol[2:]).whole()
    except (_Damaged, ValueError, KeyError, RecursionError):
        return symbol


class _Damaged(Exception):
    """The name does not follow the scheme."""


class _Reader:
    """Reads a symbol without its `_R`, to which offsets of references are counted."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._steps = 0

    def whole(self) -> str:
        """The path; behind it only the crate that it was made for, or what a compiler adds."""
        name = self.path(value=True)
        if self._at < len(self._text) and self._text[self._at] not in ".$":
            self.path(value=False)
            if self._at < len(self._text):
                raise _Damaged
        return name

    def path(self, *, value: bool) -> str:
        """`value`: of a function, whose generic arguments are written with `::` before them."""
        self._step()
        kind = self._next()
        if kind == "C":
            return self._identifier()[1]
        if kind == "N":
            return self._nested(value=value)
        if kind in "MX":
            self._disambiguator()
            self.path(value=False)  # where the implementation stands tells nobody anything
            return f"<{self._type()}>" if kind == "M" else self._of_trait()
        if kind == "Y":
            return self._of_trait()
        if kind == "I":
            name = self.path(value=value)
            arguments = ", ".join(self._until_end(self._argument))
            return f"{name}{'::' * value}<{arguments}>"
        if kind == "B":
            return self._back(lambda: self.path(value=value))
        raise _Damaged

    def _nested(self, *, value: bool) -> str:
        space = self._next()
        parent = self.path(value=value)
        number, name = self._identifier()
        if space.isupper():
            what = _SHIMS.get(space, space)
            inner = f"{{{what}:{name}#{number}}}" if name else f"{{{what}#{number}}}"
            return f"{parent}::{inner}"
        return f"{parent}::{name}" if name else parent

    def _of_trait(self) -> str:
        kind = self._type()
        return f"<{kind} as {self.path(value=False)}>"

    def _argument(self) -> str:
        if self._taken("L"):
            return self._lifetime()
        return self._constant() if self._taken("K") else self._type()

    def _lifetime(self) -> str:
        return "'_" if self._base_62() == 0 else "'a"

    def _type(self) -> str:
        self._step()
        kind = self._next()
        if kind in _BASIC:
            return _BASIC[kind]
        compound = {"A": self._array, "T": self._tuple, "F": self._function, "D": self._dynamic}
        if kind in compound:
            return compound[kind]()
        if kind in "RQ":
            if self._taken("L"):
                self._base_62()
            return f"&{'mut ' * (kind == 'Q')}{self._type()}"
        if kind in _AROUND:
            return _AROUND[kind].format(self._type())
        if kind == "B":
            return self._back(self._type)
        self._at -= 1
        return self.path(value=False)

    def _array(self) -> str:
        item = self._type()
        return f"[{item}; {self._constant()}]"

    def _tuple(self) -> str:
        items = self._until_end(self._type)
        return f"({', '.join(items)}{',' * (len(items) == 1)})"

    def _function(self) -> str:
        self._binder()
        words = "unsafe " * self._taken("U")
        if self._taken("K"):
            abi = "C" if self._taken("C") else self._plain_identifier().replace("_", "-")
            words += f'extern "{abi}" '
        arguments = ", ".join(self._until_end(self._type))
        result = self._type()
        return f"{words}fn({arguments})" + (f" -> {result}" if result != "()" else "")

    def _dynamic(self) -> str:
        self._binder()
        traits = self._until_end(self._trait)
        if not self._taken("L"):
            raise _Damaged
        self._base_62()
        return f"dyn {' + '.join(traits)}"

    def _trait(self) -> str:
        name = self.path(value=False)
        bound = []
        while self._taken("p"):
            item = self._plain_identifier()
            bound.append(f"{item} = {self._type()}")
        return f"{name}<{', '.join(bound)}>" if bound else name

    def _constant(self) -> str:
        self._step()
        if self._taken("p"):
            return "_"
        if self._taken("B"):
            return self._back(self._constant)
        kind = _BASIC[self._next()]
        sign = "-" * self._taken("n")
        figures = self._match(_HEX)
        if not self._taken("_"):
            raise _Damaged
        number = int(figures or "0", 16)
        if kind == "bool":
            return "true" if number else "false"
        return repr(chr(number)) if kind == "char" else f"{sign}{number}"

    def _until_end(self, item: Callable[[], str]) -> list[str]:
        found = []
        while not self._taken("E"):
            found.append(item())
        return found

    def _identifier(self) -> tuple[int, str]:
        """Its number among those of one name, and the name."""
        return self._disambiguator(), self._plain_identifier()

    def _plain_identifier(self) -> str:
        coded = self._taken("u")
        length = int(self._match(_NUMBER))
        self._taken("_")
        name = self._text[self._at : self._at + length]
        if len(name) < length:
            raise _Damaged
        self._at += length
        return _unicode(name) if coded else name

    def _disambiguator(self) -> int:
        return self._base_62() + 1 if self._taken("s") else 0

    def _binder(self) -> None:
        if self._taken("G"):
            self._base_62()

    def _base_62(self) -> int:
        end = self._text.find("_", self._at)
        if end < 0:
            raise _Damaged
        figures, self._at = self._text[self._at : end], end + 1
        number = 0
        for figure in figures:
            number = number * 62 + _BASE_62.index(figure)
        return number + 1 if figures else 0

    def _back(self, read: Callable[[], str]) -> str:
        """What stands at an earlier place."""
        begun = self._at - 1
        target = self._base_62()
        if target >= begun:
            raise _Damaged
        self._depth += 1
        here, self._at = self._at, target
        words = read()
        self._at = here
        self._depth -= 1
        return words

    def _match(self, regex: re.Pattern[str]) -> str:
        found = regex.match(self._text, self._at)
        if found is None:
            raise _Damaged
        self._at = found.end()
        return found[0]

    def _taken(self, letter: str) -> bool:
        if self._text.startswith(letter, self._at):
            self._at += 1
            return True
        return False

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise _Damaged
        self._at += 1
        return self._text[self._at - 1]

    def _step(self) -> None:
        self._steps += 1
        if self._depth > _DEEPEST or self._steps > _MOST_STEPS:
            raise _Damaged


def _unicode(name: str) -> str:
    """Punycode with `_` for its `-`."""
    plain, _, coded = name.rpartition("_")
    whole = f"{plain}-{coded}" if plain else coded
    return whole.encode().decode("punycode")
