"""Why a symbol was lost, from Kconfig files."""

from __future__ import annotations

import pytest

from pipeline.kconfig_tree import declarations, reason, unmet

FILES = {
    "Kconfig": 'mainmenu "M"\nsource "arch/$(SRCARCH)/Kconfig"\nsource "drivers/Kconfig"\n',
    "arch/x86/Kconfig": "config X86\n\tdef_bool y\n\nconfig ODD\n\tint\n\tdefault 3\n",
    "drivers/Kconfig": """\
# a comment
menu "Devices"
        depends on HAS_IOMEM

menuconfig VIRTIO_MENU
        bool "Virtio" if EXPERT
        help
          depends on nothing at all
          default y is a word of this help text

          config NOT_ONE

if VIRTIO_MENU
config VIRTIO_BLK
        tristate "Block"
        depends on BLOCK && \\
                (PCI || MMIO)  # either
source "drivers/net/Kconfig"
endif # VIRTIO_MENU

choice
        prompt "Allocator"
config SLUB
        bool "SLUB"
config SLOB
        bool "SLOB"
endchoice
endmenu

config TWICE
        bool "One way"
        depends on A && B

config TWICE
        bool "Another"
        depends on C
""",
    "drivers/net/Kconfig": 'config VIRTIO_NET\n\ttristate "Net"\n\tdepends on NET\n',
}
FOUND = declarations(FILES.get, root="Kconfig", variables={"SRCARCH": "x86"})


def why(symbol: str, wanted: str = "y", **config: str) -> str:
    values = {f"CONFIG_{name}": value for name, value in config.items()}
    return reason(f"CONFIG_{symbol}", wanted, FOUND, values)


def test_all_declarations_are_found_with_file_and_line() -> None:
    places = {(each.symbol, each.file, each.line) for each in FOUND}
    assert ("VIRTIO_BLK", "drivers/Kconfig", 14) in places
    assert ("VIRTIO_NET", "drivers/net/Kconfig", 1) in places
    assert "NOT_ONE" not in {each.symbol for each in FOUND}


def test_unmet_surroundings_are_named() -> None:
    assert why("VIRTIO_NET", HAS_IOMEM="y", NET="y") == (
        "unmet dependency: VIRTIO_MENU (n) (drivers/net/Kconfig:1)"
    )


def test_unmet_alternatives_are_named_whole() -> None:
    text = why("VIRTIO_BLK", HAS_IOMEM="y", VIRTIO_MENU="y", BLOCK="y")
    assert text == "unmet dependency: PCI || MMIO (drivers/Kconfig:14)"


def test_help_is_not_read_as_attributes() -> None:
    assert why("VIRTIO_MENU", HAS_IOMEM="y") == "unmet dependency: EXPERT (n) (drivers/Kconfig:5)"


def test_of_two_declarations_the_nearer_one_is_named() -> None:
    assert "unmet dependency: C (n)" in why("TWICE", A="n")


@pytest.mark.parametrize(
    ("symbol", "words"),
    [
        ("NONSENSE", "no such symbol"),
        ("X86", "only other symbols can set it"),
        ("SLUB", "another member of the same choice"),
        ("TWICE", "another value"),
    ],
)
def test_other_reasons(symbol: str, words: str) -> None:
    assert words in why(symbol, HAS_IOMEM="y", SLOB="y", A="y", B="y", C="y")


def test_symbol_that_cannot_be_switched_off() -> None:
    assert "selects it" in why("TWICE", wanted="n", A="y", B="y", C="y")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("A", ()),
        ("B", ("B (n)",)),
        ("A && B && D", ("B (n)", "D (n)")),
        ("A && (B || A)", ()),
        ("(B && D)", ("B (n)", "D (n)")),
        ("(A) && (B)", ("B (n)",)),
        ("!A", ("!A",)),
        ("!B && M", ()),
        ("M = y", ("M = y",)),
        ("M=y || B", ("M=y || B",)),
        ("N != 64", ("N != 64",)),
        ('S = "text"', ()),
        ("$(cc-option,-fodd)", ()),
        ("$(success,test -e x) && B", ("B (n)",)),
        ("N > 3", ()),
        ("y", ()),
        ("", ()),
    ],
)
def test_unmet(expression: str, expected: tuple[str, ...]) -> None:
    config = {"CONFIG_A": "y", "CONFIG_M": "m", "CONFIG_N": "64", "CONFIG_S": '"text"'}
    assert unmet(expression, config) == expected


def test_files_that_include_each_other_end() -> None:
    files = {"Kconfig": 'config A\n\tbool "A"\nsource "Kconfig"\nsource "gone"\n'}
    assert [each.symbol for each in declarations(files.get, root="Kconfig", variables={})] == ["A"]
