"""Frames to addresses and back to lines: symbols of one name, calls, inlined functions."""

from __future__ import annotations

import pytest

from pipeline import framelines
from pipeline.framelines import Frame, Place

MAP = """\
ffffffff81000000 T _text
ffffffff81001000 t ring_add
ffffffff81001040 T ring_take
ffffffff81001040 T ring_take_alias
ffffffff81001100 t ring_add
ffffffff81001200 t helper
ffffffff81001240 t helper
ffffffff81001280 D data_between
ffffffff81001300 T last
"""
REPORT = """\
[   12.100001] WARNING: CPU: 1 PID: 71 at lib/ring.c:12 ring_take+0x20/0xc0
[   12.100002] RIP: 0010:ring_take+0x20/0xc0
[   12.100003] Call Trace:
[   12.100004]  <TASK>
[   12.100005]  ? ring_add+0x10/0x40
[   12.100006]  ring_open+0x30/0x90 [ring]
[   12.100007]  unknown+0x30/0x90
[   12.100008]  </TASK>"""


def frame(name: str, offset: int, size: int, *, module: str = "", exact: bool = False) -> Frame:
    return Frame(name=name, offset=offset, size=size, module=module, exact=exact)


TAKE = frame("ring_take", 0x20, 0xC0, exact=True)
ADD = frame("ring_add", 0x10, 0x40)
OPEN = frame("ring_open", 0x30, 0x90, module="ring")


def test_the_frames_of_a_report_each_once() -> None:
    found = framelines.frames([REPORT, REPORT])
    assert found == [TAKE, ADD, OPEN, frame("unknown", 0x30, 0x90)]


def test_a_call_is_looked_up_before_the_place_that_it_returns_to() -> None:
    assert (TAKE.place, ADD.place) == (0x20, 0xF)


def test_a_function_that_nothing_returned_to_is_not_the_one_that_called() -> None:
    text = "target: done+0x0/0x10\nCall trace:\n first+0x0/0x10\n panic+0x8/0x10\n next+0x0/0x10"
    assert [(each.name, each.place) for each in framelines.frames([text])] == [
        ("done", 0),
        ("first", 0),  # 5.10 of arm64 begins a stack with the walker itself
        ("panic", 7),
        ("next", -1),
    ]


def test_a_stack_that_begins_with_the_pointer_is_exact_there() -> None:
    arm = (
        "pc : ring_take+0x20/0xc0\nlr : f+0x8/0x10\nCall trace:\n ring_take+0x20/0xc0\n f+0x8/0x10"
    )
    assert [(each.name, each.exact) for each in framelines.frames([arm])] == [
        ("ring_take", True),
        ("f", False),
    ]


def test_sizes_are_distances_to_the_next_code() -> None:
    names = ["ring_add", "ring_take", "ring_take_alias", "helper", "last"]
    assert framelines.symbols(MAP, names) == {
        "ring_add": [(0xFFFFFFFF81001100, 0x100), (0xFFFFFFFF81001000, 0x40)],
        "ring_take": [(0xFFFFFFFF81001040, 0xC0)],
        "ring_take_alias": [(0xFFFFFFFF81001040, 0xC0)],
        "helper": [(0xFFFFFFFF81001240, 0xC0), (0xFFFFFFFF81001200, 0x40)],
        "last": [(0xFFFFFFFF81001300, 0)],
    }


@pytest.mark.parametrize(
    ("asked", "candidates", "address"),
    [
        (ADD, [(0x1100, 0x100), (0x1000, 0x40)], 0x100F),  # told apart by the size
        (ADD, [(0x1100, 0x100)], 0x110F),  # only one, though of another size
        (ADD, [(0x1100, 0x8)], None),  # too small for the offset
        (ADD, [(0x1100, 0x40), (0x1000, 0x40)], None),  # either
        (ADD, [(0x1000, 0x40), (0x1000, 0x40)], 0x100F),
        (ADD, [(0x1300, 0)], 0x130F),
        (ADD, [], None),
    ],
)
def test_addresses(asked: Frame, candidates: list[tuple[int, int]], address: int | None) -> None:
    assert framelines.address(asked, candidates) == address


def test_a_module_s_function_may_have_padding_behind_it() -> None:
    assert framelines.nearly(OPEN, [(0x10, 0x8C), (0x200, 0x20)]) == [(0x10, 0x90)]
    assert framelines.nearly(OPEN, [(0x10, 0x20)]) == [(0x10, 0x20)]


def test_what_addr2line_says() -> None:
    text = (
        "0xffffffff81001000\nslot\n/src/lib/ring.h:7\n"
        "ring_add\n/src/lib/ring.c:40 (discriminator 3)\n"
        "0x0000000000000010\n??\n??:0\n0x0000000000000020\nf\n/src/lib/ring.c:?\n"
    )
    assert framelines.answers(text) == {
        0xFFFFFFFF81001000: [
            Place(function="slot", file="/src/lib/ring.h", line=7),
            Place(function="ring_add", file="/src/lib/ring.c", line=40),
        ]
    }


def test_a_decoded_report() -> None:
    places = {
        TAKE: [Place(function="peek", file="lib/ring.h", line=3),
               Place(function="ring_take", file="lib/ring.c", line=12)],
        ADD: [Place(function="slot", file="lib/ring.h", line=7),
              Place(function="ring_add", file="lib/ring.c", line=40)],
        OPEN: [Place(function="ring_open", file="drivers/ring.c", line=9)],
    }  # fmt: skip
    assert framelines.decode(REPORT, places).splitlines() == [
        "[   12.100001] WARNING: CPU: 1 PID: 71 at lib/ring.c:12 ring_take+0x20/0xc0"
        " (lib/ring.h:3 lib/ring.c:12)",
        "[   12.100002] RIP: 0010:ring_take+0x20/0xc0 (lib/ring.h:3 lib/ring.c:12)",
        "[   12.100003] Call Trace:",
        "[   12.100004]  <TASK>",
        "[   12.100005]  ? slot (lib/ring.h:7) [inline]",
        "[   12.100005]  ? ring_add+0x10/0x40 (lib/ring.c:40)",
        "[   12.100006]  ring_open+0x30/0x90 [ring] (drivers/ring.c:9)",
        "[   12.100007]  unknown+0x30/0x90",
        "[   12.100008]  </TASK>",
    ]


def test_old_stacks_keep_their_addresses() -> None:
    line = " [<ffffffff81001010>] ring_add+0x10/0x40"
    places = {
        ADD: [Place(function="slot", file="a.h", line=7), Place(function="x", file="a.c", line=1)]
    }
    assert framelines.decode(line, places).splitlines() == [
        " [<ffffffff81001010>] slot (a.h:7) [inline]",
        " [<ffffffff81001010>] ring_add+0x10/0x40 (a.c:1)",
    ]
