"""Kconfig fragments and .config files: reading them, and finding symbols that got lost.

`merge_config.sh` and `olddefconfig` drop a symbol whose dependencies are not met without
a word; the guest then comes up without a disk or a network card. So each requested symbol
is compared with the final .config. What a tree or an architecture does not have, a fragment
says itself (`# ktrial-only: …`): it is then not asked for.
Pure; see `kconfig_tree` for why a symbol was lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline import schema
from pipeline.errors import UserError
from pipeline.model import Claim, Fragment, LostSymbol

NOT_SET = "n"
NOTE = re.compile(r"#\s*ktrial(?:-(?P<key>[\w-]+))?:\s*(?P<text>.*\S)")
NOTES = ("only", "base", "slower", "cmdline", "reserves")
CLAIM = re.compile(
    r"(?P<symbols>(?:CONFIG_\w+\s+)*)(?:on\s+(?P<architectures>[\w-]+(?:,\s*[\w-]+)*)\s*)?"
    r"(?:from\s+(?P<since>\d+(?:\.\d+)+)\s*)?(?:to\s+(?P<until>\d+(?:\.\d+)+)\s*)?:\s*(?P<reason>.+)"
)
TINY = "tinyconfig"
RANDOM = "randconfig"
BASES: Mapping[str, bool] = {  # make target -> whether a guest can boot what comes of it
    TINY: True,
    "defconfig": True,
    "allnoconfig": False,
    "allmodconfig": False,
    RANDOM: False,
}
RANDOM_WORDS = re.compile(r"\s+\d+(\s+(100|\d{1,2}))?")  # seed, probability
SET = re.compile(r"(?P<symbol>CONFIG_\w+)=(?P<value>.*)")
UNSET = re.compile(r"#\s*(?P<symbol>CONFIG_\w+) is not set\s*$")

Reason = Callable[[str, str], str]  # (symbol, wanted value) -> why it is not so


def parse_config(text: str) -> dict[str, str]:
    """The symbols of a .config: CONFIG_X -> value as written ("n" for `is not set`)."""
    symbols = {}
    for line in text.splitlines():
        if found := SET.match(line):
            symbols[found["symbol"]] = found["value"].strip()
        elif found := UNSET.match(line):
            symbols[found["symbol"]] = NOT_SET
    return symbols


def parse_fragment(text: str, *, name: str = "fragment") -> dict[str, str]:
    """The symbols of a fragment, in its order.

    Raises:
        UserError: a line that is neither a symbol, a comment nor empty (merge_config.sh
            would pass over it), or a symbol that is given two values.
    """
    symbols: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        found = SET.fullmatch(line) or UNSET.match(line)
        if not found:
            if line.strip() and not line.startswith("#"):
                raise UserError(
                    f"{name}, line {number}: “{line.strip()}” is no kconfig symbol",
                    hint="write CONFIG_X=y, or # CONFIG_X is not set",
                )
            continue
        symbol, value = found["symbol"], found.groupdict().get("value", NOT_SET).strip()
        if symbols.setdefault(symbol, value) != value:
            raise UserError(f"{name}, line {number}: {symbol} is given a second value")
    return symbols


def read_fragment(text: str, *, path: Path) -> Fragment:
    """A fragment with what its `# ktrial…:` lines say of it.

    Raises:
        UserError: a line that cannot be read, or one that names what is not there.
    """
    symbols = parse_fragment(text, name=str(path))
    notes = list(_notes(text))
    for key, words in notes:
        if key and key not in NOTES:
            raise UserError(
                f"{path}: unknown line “# ktrial-{key}: {words}”", hint=schema.nearest(key, NOTES)
            )
    base, seed, probability = _base(_one(notes, "base", path), path)
    return Fragment(
        name=path.stem,
        path=path,
        symbols=symbols,
        description=next((words for key, words in notes if not key), ""),
        claims=tuple(_claim(words, symbols, path) for key, words in notes if key == "only"),
        base=base,
        seed=seed,
        probability=probability,
        slower=_number(notes, "slower", path, default=1, most=1000),
        reserves=_number(notes, "reserves", path, default=0, most=0.5),
        cmdline=tuple(_one(notes, "cmdline", path).split()),
    )


def _notes(text: str) -> Iterator[tuple[str, str]]:
    """(key, text) of each `# ktrial-KEY: TEXT`; the key of `# ktrial: …` is ""."""
    for line in text.splitlines():
        if found := NOTE.match(line):
            yield found["key"] or "", found["text"]


def _one(notes: Iterable[tuple[str, str]], wanted: str, path: Path) -> str:
    texts = [words for key, words in notes if key == wanted]
    if len(texts) > 1:
        raise UserError(f"{path}: “# ktrial-{wanted}:” is there twice")
    return texts[0] if texts else ""


def _claim(words: str, symbols: Collection[str], path: Path) -> Claim:
    found = CLAIM.fullmatch(words)
    if not found:
        raise UserError(
            f"{path}: “# ktrial-only: {words}” cannot be read",
            hint="write [CONFIG_X …] [on ARCH, …] [from 5.17] [to 6.6]: the reason",
        )
    named = tuple(found["symbols"].split())
    for symbol in named:
        if symbol not in symbols:
            raise UserError(f"{path}: “# ktrial-only: {words}”: the fragment has no {symbol}")
    return Claim(
        symbols=named,
        architectures=tuple(re.findall(r"[\w-]+", found["architectures"] or "")),
        since=found["since"] or "",
        until=found["until"] or "",
        reason=found["reason"],
    )


def _base(words: str, path: Path) -> tuple[str, int, str]:
    """Make target, seed, and the % of symbols that a randconfig sets ("" for the tree's own)."""
    name, seed, probability = (*words.split(), "", "", "")[:3]
    if name and name not in BASES:
        raise UserError(f"{path}: unknown base “{name}”", hint=schema.nearest(name, BASES))
    random = bool(RANDOM_WORDS.fullmatch(words.removeprefix(RANDOM)))
    if random != (name == RANDOM) or (seed and not random):
        raise UserError(
            f"{path}: “# ktrial-base: {words}”: a randconfig has a seed, and nothing else has",
            hint="write # ktrial-base: randconfig 42, or with the % of symbols that are set behind",
        )
    return name, int(seed or 0), probability


def _number(
    notes: Iterable[tuple[str, str]], key: str, path: Path, *, default: float, most: float
) -> float:
    """What `# ktrial-KEY:` gives, from `default`, which is the least, to `most`."""
    words = _one(notes, key, path)
    try:
        number = float(words or default)
    except ValueError:
        number = -1.0
    if not default <= number <= most:
        raise UserError(
            f"{path}: “# ktrial-{key}: {words}” is no such number",
            hint=f"write one from {default:g} to {most:g}",
        )
    return number


def seeded(fragment: Fragment, name: str, seed: str) -> Fragment:
    """A randconfig's fragment with another seed: `randconfig@42`."""
    if fragment.base != RANDOM or not seed.isdecimal():
        raise UserError(
            f"“{name}”: a seed is a number, of a fragment that starts from randconfig",
            hint="write randconfig@42",
        )
    return replace(fragment, name=name, seed=int(seed))


# ------------------------------------------------------------------- what is asked of a tree


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What the configuration of one tree is made from: a make target, and fragments on top."""

    base: str
    seed: int
    fragments: tuple[Fragment, ...]
    probability: str = ""


def select(
    fragments: Sequence[Fragment], *, always: Collection[str], architecture: str, version: str
) -> Selection:
    """What these fragments ask of a tree: no more than they claim for it.

    `always`: names of those that every kernel has; a fragment with a base of its own takes
    their place. `version` is the kernel's.

    Raises:
        UserError: two fragments that start from different bases.
    """
    bases = {(each.base, each.seed, each.probability): each.name for each in fragments if each.base}
    if len(bases) > 1:
        raise UserError(
            f"fragments {' and '.join(bases.values())} start from different configurations",
            hint="take one of them",
        )
    base, seed, probability = next(iter(bases), (TINY, 0, ""))
    return Selection(
        base=base,
        seed=seed,
        probability=probability,
        fragments=tuple(
            replace(each, symbols=_claimed(each, architecture, version))
            for each in fragments
            if not (bases and each.name in always)
        ),
    )


def refusal(fragment: Fragment, architecture: str, version: str = "") -> str:
    """Why a fragment is not for a tree, or "". Without a version only the architecture counts."""
    whole = [claim for claim in fragment.claims if not claim.symbols]
    if not whole or any(_holds(claim, architecture, version) for claim in whole):
        return ""
    here = [claim for claim in whole if _holds(claim, architecture, "")]
    ranges = " or ".join(filter(None, map(_range, here or whole)))
    reason = (here or whole)[0].reason
    return f"kconfig fragment {fragment.name} is only for {ranges}: {reason}"


def slower(fragments: Iterable[Fragment]) -> float:
    """How many times as long everything in a guest may take with these fragments."""
    factor = 1.0
    for fragment in fragments:
        factor *= fragment.slower
    return factor


def boots(fragments: Iterable[Fragment]) -> bool:
    """Whether a guest can boot what is built with these; else it is built only."""
    return all(BASES[fragment.base or TINY] for fragment in fragments)


def _claimed(fragment: Fragment, architecture: str, version: str) -> dict[str, str]:
    def holds(symbol: str) -> bool:
        claims = [claim for claim in fragment.claims if symbol in claim.symbols]
        return not claims or any(_holds(claim, architecture, version) for claim in claims)

    return {symbol: value for symbol, value in fragment.symbols.items() if holds(symbol)}


def _holds(claim: Claim, architecture: str, version: str) -> bool:
    if claim.architectures and architecture not in claim.architectures:
        return False
    at, since, until = map(_numbers, (version, claim.since, claim.until))
    return not at or (at >= since and (not until or at[: len(until)] <= until))


def _numbers(version: str) -> tuple[int, ...]:
    """5.10.262-rc1 as numbers to compare by: (5, 10, 262)."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("-")[0]))


def _range(claim: Claim) -> str:
    words = [", ".join(claim.architectures), claim.since and f"from {claim.since} on"]
    return " ".join(filter(None, (*words, claim.until and f"up to {claim.until}")))


# ------------------------------------------------------------------- what came of it


def requested(fragments: Iterable[Fragment]) -> dict[str, tuple[str, str]]:
    """Symbol -> (wanted value, name of the fragment): the last fragment that names one wins."""
    return {
        symbol: (value, fragment.name)
        for fragment in fragments
        for symbol, value in fragment.symbols.items()
    }


def render_fragment(fragment: Fragment) -> str:
    """A fragment in the form that every version of merge_config.sh understands."""
    return "".join(
        f"# {symbol} is not set\n" if value == NOT_SET else f"{symbol}={value}\n"
        for symbol, value in fragment.symbols.items()
    )


def wish(fragment: Fragment) -> str:
    """All of a fragment that has a say in what is built, for keys."""
    claims = [
        f"# only {' '.join(each.symbols)} {_range(each)}".rstrip() + "\n"
        for each in fragment.claims
        if each.symbols  # others only say whether it is built at all
    ]
    words = " ".join(filter(None, (fragment.base, str(fragment.seed), fragment.probability)))
    base = f"# base {words}\n" if fragment.base else ""
    return "".join((base, *claims, render_fragment(fragment)))


def lost_symbols(
    fragments: Iterable[Fragment], config: Mapping[str, str], reason_of: Reason
) -> tuple[LostSymbol, ...]:
    """The symbols that `config` does not have as the fragments ask for.

    A symbol that is not in `config` at all is not set: that is as good as "n".
    """
    return tuple(
        LostSymbol(
            symbol=symbol,
            wanted=wanted,
            got="not set" if config.get(symbol, NOT_SET) == NOT_SET else config[symbol],
            fragment=fragment,
            reason=reason_of(symbol, wanted),
        )
        for symbol, (wanted, fragment) in requested(fragments).items()
        if not _same(wanted, config.get(symbol, NOT_SET))
    )


def _same(wanted: str, got: str) -> bool:
    if wanted == got:
        return True
    try:
        return int(wanted, 0) == int(got, 0)  # 0x10 and 16
    except ValueError:
        return {wanted, got} == {'""', NOT_SET}  # an empty string may be left out
