"""Kconfig fragments and .config files: reading them, and finding symbols that got lost.

`merge_config.sh` and `olddefconfig` drop a symbol whose dependencies are not met without
a word; the guest then comes up without a disk or a network card. So each requested symbol
is compared with the final .config. Pure; see `kconfig_tree` for why a symbol was lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from pipeline.errors import UserError
from pipeline.model import Fragment, LostSymbol

NOT_SET = "n"
PREFIX = "CONFIG_"
DESCRIPTION = re.compile(r"#\s*ktrial:\s*(?P<text>.*\S)")
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


def parse_description(text: str) -> str:
    """What `# ktrial: …` in the first line of a fragment says."""
    found = DESCRIPTION.match(text)
    return found["text"] if found else ""


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
