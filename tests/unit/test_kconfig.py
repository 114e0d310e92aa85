"""Fragments, final configurations, and the symbols that got lost between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import kconfig
from pipeline.errors import UserError
from pipeline.model import Claim, Fragment

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


def read(text: str) -> Fragment:
    return kconfig.read_fragment(text, path=Path("kconfigs/odd.config"))


def test_what_a_fragment_says_of_itself() -> None:
    odd = read(
        "# ktrial: what it is for \n# ktrial-slower: 2.5\n# ktrial-cmdline: a=on b\n"
        "# ktrial-reserves: 0.1\n"
        "# ktrial-only: CONFIG_A CONFIG_B on x86_64, aarch64 from 5.8 to 6.1: it came in 5.8\n"
        "CONFIG_A=y\nCONFIG_B=n\n"
    )
    assert (odd.name, odd.description, odd.slower) == ("odd", "what it is for", 2.5)
    assert (odd.cmdline, odd.reserves) == (("a=on", "b"), 0.1)
    assert odd.claims == (
        Claim(
            symbols=("CONFIG_A", "CONFIG_B"),
            architectures=("x86_64", "aarch64"),
            since="5.8",
            until="6.1",
            reason="it came in 5.8",
        ),
    )
    plain = read("CONFIG_A=y\n")
    assert (plain.description, plain.claims, plain.base, plain.slower) == ("", (), "", 1)
    assert plain.reserves == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# ktrial-olny: on x86_64: why\n", "unknown line “# ktrial-olny"),
        ("# ktrial-only: on x86_64\n", "cannot be read"),
        ("# ktrial-only: from 6: why\n", "cannot be read"),
        ("# ktrial-only: CONFIG_A from 6.1: why\n", "the fragment has no CONFIG_A"),
        ("# ktrial-base: tinyconf\n", "unknown base “tinyconf”"),
        ("# ktrial-base: defconfig 7\n", "a randconfig has a seed"),
        ("# ktrial-base: randconfig\n", "a randconfig has a seed"),
        ("# ktrial-base: randconfig 1 101\n", "a randconfig has a seed"),
        ("# ktrial-base: randconfig 1 10 10\n", "a randconfig has a seed"),
        ("# ktrial-base: randconfig few\n", "a randconfig has a seed"),
        ("# ktrial-base: defconfig\n# ktrial-base: defconfig\n", "is there twice"),
        ("# ktrial-slower: 0.5\n", "is no such number"),
        ("# ktrial-reserves: 2\n", "is no such number"),
        ("# ktrial-slower: very\n", "is no such number"),
    ],
)
def test_bad_notes_are_refused(text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        read(text)


def select(
    *fragments: Fragment, architecture: str = "x86_64", version: str = "6.12"
) -> kconfig.Selection:
    return kconfig.select(
        fragments, always={"base", "x86_64"}, architecture=architecture, version=version
    )


@pytest.mark.parametrize(
    ("architecture", "version", "expected"),
    [
        ("x86_64", "5.10", {"CONFIG_K": "y", "CONFIG_OLD": "y", "CONFIG_V": "y"}),
        ("x86_64", "5.10.262", {"CONFIG_K": "y", "CONFIG_OLD": "y", "CONFIG_V": "y"}),
        ("x86_64", "5.11", {"CONFIG_K": "y", "CONFIG_V": "y"}),
        ("aarch64", "5.12", {"CONFIG_K": "y"}),
        ("aarch64", "5.13-rc1", {"CONFIG_K": "y", "CONFIG_V": "y"}),
        ("aarch64", "6.1", {"CONFIG_K": "y", "CONFIG_V": "y"}),
    ],
)
def test_no_more_is_asked_than_is_claimed(
    architecture: str, version: str, expected: dict[str, str]
) -> None:
    odd = read(
        "# ktrial-only: CONFIG_V on x86_64: always\n"
        "# ktrial-only: CONFIG_V on aarch64 from 5.13: it came then\n"
        "# ktrial-only: CONFIG_OLD to 5.10: it went then\n"
        "CONFIG_K=y\nCONFIG_OLD=y\nCONFIG_V=y\n"
    )
    (chosen,) = select(odd, architecture=architecture, version=version).fragments
    assert chosen.symbols == expected


@pytest.mark.parametrize(
    ("architecture", "version", "expected"),
    [
        ("x86_64", "5.10", ""),
        ("x86_64", "5.4", "only for x86_64 from 5.8 on: it came in 5.8"),
        ("aarch64", "5.10", "only for aarch64 from 5.17 on: arm64 came later"),
        ("aarch64", "", ""),
        ("riscv64", "", "only for x86_64 from 5.8 on or aarch64 from 5.17 on: it came in 5.8"),
    ],
)
def test_a_tree_that_a_fragment_is_not_for(architecture: str, version: str, expected: str) -> None:
    odd = read(
        "# ktrial-only: on x86_64 from 5.8: it came in 5.8\n"
        "# ktrial-only: on aarch64 from 5.17: arm64 came later\nCONFIG_K=y\n"
    )
    found = kconfig.refusal(odd, architecture, version)
    assert found == (expected and f"kconfig fragment odd is {expected}")


def test_a_base_of_its_own_takes_the_place_of_what_every_kernel_has() -> None:
    base, more = fragment("base", A="y"), fragment("more", A="n")
    assert select(base, more) == kconfig.Selection(
        base="tinyconfig", seed=0, fragments=(base, more)
    )
    odd = read("# ktrial-base: randconfig 7\n")
    assert select(base, more, odd) == kconfig.Selection(
        base="randconfig", seed=7, fragments=(more, odd)
    )
    few = read("# ktrial-base: randconfig 7 10\n")
    assert select(few) == kconfig.Selection(
        base="randconfig", seed=7, probability="10", fragments=(few,)
    )
    assert kconfig.seeded(few, "few@8", "8").probability == "10"
    assert kconfig.boots((base, more))
    assert not kconfig.boots((base, odd))
    with pytest.raises(UserError, match="odd and odd@8 start from different"):
        select(odd, kconfig.seeded(odd, "odd@8", "8"))
    for name, seed in (("more", "8"), ("odd", "x"), ("odd", "")):
        with pytest.raises(UserError, match="a seed is a number"):
            kconfig.seeded(odd if name == "odd" else more, f"{name}@{seed}", seed)


def test_what_slows_a_guest_down_adds_up() -> None:
    two = replace(fragment("two"), slower=2.0)
    assert kconfig.slower(()) == 1
    assert kconfig.slower((two, fragment("one"), replace(two, slower=1.5))) == 3


def test_keys_hold_what_has_a_say_in_the_build_and_nothing_else() -> None:
    plain = read("CONFIG_A=y\n# CONFIG_B is not set\n")
    assert kconfig.wish(plain) == kconfig.render_fragment(plain)
    silent = read("# ktrial-only: on x86_64: why\n# ktrial-slower: 9\nCONFIG_A=y\n")
    assert kconfig.wish(silent) == "CONFIG_A=y\n"
    claims = [f"# ktrial-only: CONFIG_A {words}: why\n" for words in ("from 5.1", "to 5.1")]
    bases = [f"# ktrial-base: randconfig {seed}\n" for seed in ("1", "2", "2 10")]
    wishes = [kconfig.wish(read(f"{line}CONFIG_A=y\n")) for line in (*claims, *bases, "")]
    assert len(set(wishes)) == len(wishes)


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
    own = kconfig.read_fragment(path.read_text(), path=path)
    assert own.symbols or own.base
    assert 10 < len(own.description) < 100


def test_the_shipped_base_asks_for_the_same_as_ever() -> None:
    """Every cached kernel hangs on these: they claim nothing that a key would hold."""
    for name in ("base", "x86_64", "aarch64", "arm64-64k"):
        (path,) = [path for path in FRAGMENTS if path.stem == name]
        own = kconfig.read_fragment(path.read_text(), path=path)
        assert kconfig.wish(own) == kconfig.render_fragment(own)
