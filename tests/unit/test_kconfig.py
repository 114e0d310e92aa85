"""Fragments, final configurations, and the symbols that got lost between them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline import kconfig
from pipeline.errors import UserError
from pipeline.model import Fragment

FRAGMENTS = sorted((Path(__file__).parents[2] / "kconfigs").glob("*.config"))


def fragment(name: str, **symbols: str) -> Fragment:
    return Fragment(
        name=name,
        path=Path(name),
        symbols={f"CONFIG_{symbol}": value for symbol, value in symbols.items()},
    )


def lost(fragments: tuple[Fragment, ...], config: Mapping[str, str]) -> list[str]:
    found = kconfig.lost_symbols(fragments, config, lambda symbol, wanted: f"{symbol} {wanted}?")
    return [str(symbol) for symbol in found]


def test_parse_config() -> None:
    text = '#\n# Automatically generated\n#\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_S="a=b"\n'
    assert kconfig.parse_config(text) == {"CONFIG_A": "y", "CONFIG_B": "n", "CONFIG_S": '"a=b"'}


def test_parse_fragment_keeps_order_and_reads_every_way_to_say_no() -> None:
    text = "# ktrial: words\n\nCONFIG_B=n\n# CONFIG_A is not set\nCONFIG_N=0x10\n# CONFIG_C=y\n"
    symbols = kconfig.parse_fragment(text)
    assert list(symbols.items()) == [("CONFIG_B", "n"), ("CONFIG_A", "n"), ("CONFIG_N", "0x10")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CONFIG_A=y\nSLUB=y\n", "odd, line 2: “SLUB=y”"),
        (" CONFIG_A=y\n", "line 1"),
        ("CONFIG_A=y\nCONFIG_A=n\n", "CONFIG_A is given a second value"),
    ],
)
def test_bad_fragments_are_refused(text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        kconfig.parse_fragment(text, name="odd")


def test_description() -> None:
    assert kconfig.parse_description("# ktrial: what it is for \nCONFIG_A=y\n") == "what it is for"
    assert kconfig.parse_description("CONFIG_A=y\n") == ""


def test_the_last_fragment_wins() -> None:
    fragments = (fragment("base", A="y", B="y"), fragment("more", A="n"))
    assert kconfig.requested(fragments) == {
        "CONFIG_A": ("n", "more"),
        "CONFIG_B": ("y", "base"),
    }
    assert lost(fragments, {"CONFIG_B": "y"}) == []


def test_rendered_fragment_is_read_back() -> None:
    one = fragment("one", A="y", B="n", C='"text"')
    assert kconfig.parse_fragment(kconfig.render_fragment(one)) == one.symbols


def test_lost_symbols_are_told_with_their_fragment() -> None:
    fragments = (fragment("base", A="y", B="n", C="64", D="y"),)
    config = {"CONFIG_A": "m", "CONFIG_B": "y", "CONFIG_C": "8"}
    assert lost(fragments, config) == [
        "CONFIG_A=y (fragment base) is m: CONFIG_A y?",
        "CONFIG_B=n (fragment base) is y: CONFIG_B n?",
        "CONFIG_C=64 (fragment base) is 8: CONFIG_C 64?",
        "CONFIG_D=y (fragment base) is not set: CONFIG_D y?",
    ]


def test_equal_numbers_and_absent_symbols_are_not_lost() -> None:
    fragments = (fragment("base", A="0x10", B="n", C='""'),)
    assert lost(fragments, {"CONFIG_A": "16"}) == []


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.stem)
def test_own_fragments_can_be_read_and_say_what_they_are(path: Path) -> None:
    text = path.read_text()
    assert kconfig.parse_fragment(text, name=path.stem)
    assert 10 < len(kconfig.parse_description(text)) < 100
