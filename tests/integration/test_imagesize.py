"""Sizes of what a real compiler made, held against size(1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import imagesize, process
from pipeline.model import Growth, Sizes
from pipeline.scope import Scope

SOURCE = """\
struct pageset { int count; long lists[PER]; };
struct pageset boot_pageset = { 1 };
static char buffer[500];
const char linux_banner[PER] = "differs in any two builds";
const int table[6] = { 1, 2, 3 };
int copy(int x) __asm__("work.constprop.0");
int copy(int x) { return x * 3 + buffer[x]; }
int other(int x) __asm__("work.constprop.12");
int other(int x) { buffer[x] = 1; return x; }
#if PER > 40
int added(int x) { return table[x] + copy(x); }
#else
int gone(int x) { return copy(x); }
#endif
int _start(void) { return 0; }
"""


def built(tmp_path: Path, scope: Scope, per: int) -> Path:
    (tmp_path / "source.c").write_text(SOURCE)
    made = tmp_path / f"made{per}"
    argv = ("gcc", "-O1", f"-DPER={per}", "-nostdlib", "-static", "-Wl,--build-id=none")
    done = process.run((*argv, str(tmp_path / "source.c"), "-o", str(made)), scope=scope.child(60))
    assert done.ok, done.text
    return made


def test_sections_as_size_has_them(tmp_path: Path, scope: Scope) -> None:
    made = built(tmp_path, scope, 40)
    told = process.run(("size", str(made)), scope=scope.child(30)).text.splitlines()[1].split()
    text, data, bss = map(int, told[:3])
    assert imagesize.read(made.read_bytes()).sizes == Sizes(text=text, data=data, bss=bss)


def test_symbols_are_variables_and_functions_by_name(tmp_path: Path, scope: Scope) -> None:
    symbols = imagesize.read(built(tmp_path, scope, 40).read_bytes()).symbols
    assert symbols["boot_pageset"] == 8 + 40 * 8
    assert symbols["buffer"] == 500
    assert symbols["table"] == 24
    assert "linux_banner" not in symbols
    assert symbols["work.constprop"] > 8  # two copies, added up
    assert not [name for name in symbols if name.startswith("work.constprop.")]


def test_growth_begins_with_what_grew_most(tmp_path: Path, scope: Scope) -> None:
    before, after = (imagesize.read(built(tmp_path, scope, n).read_bytes()) for n in (40, 60))
    found = imagesize.growth(before, after)
    assert found.symbols[0] == ("boot_pageset", 328, 488)
    assert {name for name, old, _ in found.symbols if not old} == {"added"}
    assert {name for name, _, new in found.symbols if not new} == {"gone"}
    assert found.changed == 3
    assert found.added == 160 + after.symbols["added"]
    assert found.taken == before.symbols["gone"]
    assert imagesize.growth(before, before).changed == 0


@pytest.mark.parametrize("keep", [0, 5, 64, 1000, 0.5, 0.95])
def test_what_is_cut_off_is_told(tmp_path: Path, scope: Scope, keep: float) -> None:
    data = built(tmp_path, scope, 40).read_bytes()
    with pytest.raises(ValueError, match="ELF file"):
        imagesize.read(data[: int(keep if keep >= 1 else keep * len(data))])


def test_only_the_largest_are_shown() -> None:
    symbols = tuple((f"f{n}", 10, 40 - n) for n in range(12))
    sizes = Sizes(text=1000, data=200, bss=30)
    found = Growth(
        before=sizes,
        after=Sizes(text=1300, data=200, bss=20),
        added=294,
        taken=0,
        changed=12,
        symbols=(*symbols[:9], ("new", 0, 7), ("gone", 5, 0)),
    )
    assert list(imagesize.lines(found, most=2)) == [
        "text 1300 (+300), data 200 (+0), bss 20 (-10) bytes; 12 symbols changed: +294 -0 bytes",
        "        +30  f0 (10 to 40)",
        "        +29  f1 (10 to 39)",
        "    … and 10 more",
    ]
    last = list(imagesize.lines(found, most=11))[-3:]
    assert last == ["         +7  new (new)", "         -5  gone (gone)", "    … and 1 more"]
