"""The records of `pipeline/data/console/*.toml` and the search that skips harmless text.

Almost all of a console is harmless. One compiled search over whole chunks finds the literals
that reports have; only a line with one of them is decoded and tried. Pure but for
`read_families`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from pathlib import Path

from pipeline import schema
from pipeline.splat import Search, Skips

SUBTEST = "# Subtest: "  # how KTAP names a suite


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """`regex` is matched at the start of a message, `literal` stands in every line it matches.

    `title` may name the regex's groups, those of `details` (regexes searched in the lines
    behind) and `function`, which `places`, `skip` and `pick` find (see `splat.Search`).
    `anywhere`: words that no other message has, looked for in the middle of a line too.
    `consequence`: says what an earlier report led to, and starts one only where there is none.
    """

    literal: str
    regex: str
    title: str
    details: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    pick: str = "first"
    anywhere: bool = False
    consequence: bool = False
    fatal: bool | None = None  # None: as its family

    @property
    def search(self) -> Search:
        return Search(places=self.places, skip=self.skip, pick=self.pick)


@dataclass(frozen=True, kw_only=True)
class Sign:
    """A line that says how far a boot is: firmware, loader, kernel, userspace or end; killed where
    QEMU says that it was ended from outside."""

    stage: str
    literal: str
    regex: str


@dataclass(frozen=True, kw_only=True)
class Family:
    """pipeline/data/console/NAME.toml: one kind of report.

    `heads`: of these words every line of its patterns has one; their literals where it is
    empty. `order`: families with lower numbers are tried first. `suites`: KUnit suites that provoke
    its reports. `leads`: families whose reports, shortly behind one of this, follow from it.
    `ignore`: lines that are none of its reports after all. `skips`, `signs` and
    `noise` serve all families.
    """

    name: str
    description: str
    kind: str = ""
    fatal: bool = False
    order: int = 0
    heads: tuple[str, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    suites: tuple[str, ...] = ()
    leads: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    skips: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    signs: tuple[Sign, ...] = ()
    noise: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Match:
    """A line that is the first one of a report."""

    family: Family
    pattern: Pattern
    groups: Mapping[str, str]

    @property
    def fatal(self) -> bool:
        return self.family.fatal if self.pattern.fatal is None else self.pattern.fatal


class Patterns:
    """All families, ready to be tried."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = sorted(families, key=lambda each: (each.order, each.name))
        tried = [(each, pattern) for each in self._families for pattern in each.patterns]
        self._by_literal: dict[str, list[tuple[int, Family, Pattern]]] = {}
        for number, (each, pattern) in enumerate(tried):
            self._by_literal.setdefault(pattern.literal, []).append((number, each, pattern))
        self._signs = [sign for each in self._families for sign in each.signs]
        self._sign_words = _any_of(sign.literal for sign in self._signs)
        self.skips = Skips({n: w for each in self._families for n, w in each.skips.items()})
        self.suites = frozenset(suite for each in self._families for suite in each.suites)
        self.noise = compiled("|".join(w for each in self._families for w in each.noise) or "(?!)")
        self._words = _needed(
            {word for each in self._families for word in each.heads or _literals(each)}
            | {sign.literal for sign in self._signs}
            | ({SUBTEST} if self.suites else set())
        )
        rare = [word for word in self._words if not word[0].islower() and word[0] != " "]
        self._common = [word.encode() for word in self._words if word not in rare]
        self._rare = _any_of(rare)

    def triggers(self, block: bytes) -> list[int]:
        """Where words stand that a line of interest has, in their order."""
        # Most letters of a console are small: one search is for the words that begin with
        # another one, and what is left is faster looked for word by word.
        places = [found.start() for found in self._rare.finditer(block)]
        for word in self._common:
            at = block.find(word)
            while at >= 0:
                places.append(at)
                at = block.find(word, at + len(word))
        return sorted(places)

    def match(self, text: str) -> Match | None:
        likely = [
            each for literal, tried in self._by_literal.items() if literal in text for each in tried
        ]
        for _, family, pattern in sorted(likely, key=itemgetter(0)):
            regex = compiled(pattern.regex)
            found = regex.search(text) if pattern.anywhere else regex.match(text)
            if found and not any(compiled(each).match(text) for each in family.ignore):
                groups = {name: words or "" for name, words in found.groupdict().items()}
                return Match(family=family, pattern=pattern, groups=groups)
        return None

    def may_be_sign(self, raw: bytes) -> bool:
        """Whether a line has a word that signs have: most have none."""
        return bool(self._sign_words.search(raw))

    def stage(self, text: str) -> str:
        """The stage of a boot that a line tells of, or ""."""
        for sign in self._signs:
            if sign.literal in text and compiled(sign.regex).match(text):
                return sign.stage
        return ""


def read_families(folder: Path) -> tuple[Family, ...]:
    """All families of a folder. The only function here that reads files."""
    return tuple(
        schema.read(path, Family, name=path.stem) for path in sorted(folder.glob("*.toml"))
    )


@lru_cache(maxsize=1024)
def compiled(regex: str) -> re.Pattern[str]:
    return re.compile(regex)


def _literals(family: Family) -> tuple[str, ...]:
    return tuple(pattern.literal for pattern in family.patterns)


def _needed(words: set[str]) -> list[str]:
    """The words without those that hold another one."""
    ordered = sorted(words, key=lambda word: (len(word), word))
    return [w for n, w in enumerate(ordered) if not any(o in w for o in ordered[:n])]


def _any_of(words: Iterable[str]) -> re.Pattern[bytes]:
    """A search for any of them, ordered by their first letter: `re` tries these one by one."""
    firsts: dict[str, list[str]] = {}
    for word in words:
        firsts.setdefault(word[0], []).append(re.escape(word[1:]))
    branches = [f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in firsts.items()]
    return re.compile("|".join(branches).encode() or b"(?!)")
