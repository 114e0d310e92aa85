"""Warnings in the output of a build: read, kept over increments, and compared."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import diagnostics
from pipeline.model import Diagnostic

ROOTS = ("/src", "/build")

GCC = """\
  CALL    /src/scripts/checksyscalls.sh
  CC      mm/slub.o
/src/mm/slub.c: In function 'slab_alloc':
/src/mm/slub.c:123:13: warning: unused variable 'order' [-Wunused-variable]
  123 |         int order;
      |             ^~~~~
/src/mm/slub.c:130:9: warning: 'size' may be used uninitialized [-Wmaybe-uninitialized]
/src/mm/slub.c:125:13: note: 'size' was declared here
/src/mm/slub.c: At top level:
/src/mm/slub.c:150:12: warning: 'nobody' defined but not used [-Wunused-function]
  CC      mm/slab_common.o
  AR      mm/built-in.a
"""

INLINED = """\
  CC [M]  fs/some/some.o
In file included from /src/include/linux/string.h:253,
                 from /src/fs/some/some.c:1:
In function 'fortify_memcpy_chk',
    inlined from 'copy' at /src/fs/some/some.c:6:2,
    inlined from 'outer.constprop.0' at /src/fs/some/some.c:60:2:
/src/include/linux/fortify-string.h:588:25: warning: call to '__read_overflow2_field' declared \
with attribute warning: detected read beyond size of field [-Wattribute-warning]
  588 |                         __read_overflow2_field(q_size_field, size);
"""

CLANG = """\
  CC      mm/slub.o
/src/mm/../mm/slub.c:12:6: warning: unused variable 'x' [-Wunused-variable]
   12 |         int x;
      |             ^
1 warning generated.
ld.lld: warning: vmlinux.a(mm/slub.o):(.odd) is being placed in '.odd'
"""


def read(log: str, tool: str = "compiler") -> dict[str, tuple[Diagnostic, ...]]:
    return diagnostics.read(log, roots=ROOTS, tool=tool)


def only(log: str, tool: str = "compiler") -> Diagnostic:
    (found,) = diagnostics.flat(read(log, tool))
    return found


def warning(
    text: str = "unused variable 'x'", *, file: str = "mm/slub.c", line: int = 1, function: str = ""
) -> Diagnostic:
    return Diagnostic(tool="compiler", file=file, line=line, function=function, text=text)


# ---------------------------------------------------------------------- read


def test_gcc_by_function() -> None:
    found = read(GCC)
    assert [(d.line, d.function, d.kind) for d in found["mm/slub.o"]] == [
        (123, "slab_alloc", "-Wunused-variable"),
        (130, "slab_alloc", "-Wmaybe-uninitialized"),
        (150, "", "-Wunused-function"),
    ]
    assert {d.file for d in found["mm/slub.o"]} == {"mm/slub.c"}
    assert found["mm/slub.o"][0].text == "unused variable 'order'"


def test_target_that_said_nothing_is_there() -> None:
    assert read(GCC)["mm/slab_common.o"] == ()


def test_inlined_code_is_the_function_s_that_it_went_into() -> None:
    found = only(INLINED)
    assert (found.file, found.function) == ("include/linux/fortify-string.h", "outer")
    assert found.kind == "-Wattribute-warning"
    assert list(read(INLINED)) == ["", "fs/some/some.o"]


def test_function_ends_with_the_target() -> None:
    log = GCC + "  CC      mm/a.o\n/src/mm/a.c:3:1: warning: odd [-Wodd]\n"
    (found,) = read(log)["mm/a.o"]
    assert found.function == ""


def test_clang_and_lld() -> None:
    first, second = diagnostics.flat(read(CLANG))
    assert (first.file, first.kind) == ("mm/slub.c", "-Wunused-variable")
    assert second.kind == "ld"
    assert second.text == "vmlinux.a(mm/slub.o):(.odd) is being placed in '.odd'"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "mm/slub.o: warning: objtool: slab_alloc.cold+0x1f: unreachable instruction",
            ("mm/slub.o", "slab_alloc", "unreachable instruction", "objtool"),
        ),
        (
            "mm/slub.o: warning: objtool: slab_alloc()+0x1f: return with modified stack frame",
            ("mm/slub.o", "slab_alloc", "return with modified stack frame", "objtool"),
        ),
        (
            "WARNING: modpost: vmlinux: section mismatch in reference: late+0x5 "
            "(section: .text) -> early (section: .init.text)",
            (
                "vmlinux.symvers",
                "late",
                "vmlinux: section mismatch in reference: late (section: .text) -> early "
                "(section: .init.text)",
                "modpost",
            ),
        ),
        (
            "WARNING: modpost: vmlinux.o(.text+0x1a): Section mismatch in reference from the "
            "function late() to the function .init.text:early()",
            (
                "vmlinux.symvers",
                "late",
                "vmlinux.o(.text): Section mismatch in reference from the function late() to the "
                "function .init.text:early()",
                "modpost",
            ),
        ),
        (
            "x86_64-linux-gnu-ld: warning: orphan section `.odd' from `mm/slub.o' being placed in "
            "section `.odd'",
            (
                "vmlinux.symvers",
                "",
                "orphan section `.odd' from `mm/slub.o' being placed in section `.odd'",
                "ld",
            ),
        ),
        (
            "ld: warning: mm/a.o: missing .note.GNU-stack section implies executable stack",
            ("mm/a.o", "", "missing .note.GNU-stack section implies executable stack", "ld"),
        ),
        (
            "/src/arch/arm64/boot/dts/a.dts:12.3-14.5: Warning (unit_address_vs_reg): /soc: node",
            ("arch/arm64/boot/dts/a.dts", "", "/soc: node", "unit_address_vs_reg"),
        ),
        (
            "/src/mm/Kconfig:7:warning: config symbol defined without type",
            ("mm/Kconfig", "", "config symbol defined without type", ""),
        ),
        (
            "<stdin>:1501:2: warning: #warning syscall clone3 not implemented [-Wcpp]",
            ("<stdin>", "", "#warning syscall clone3 not implemented", "-Wcpp"),
        ),
    ],
)
def test_other_tools(line: str, expected: tuple[str, str, str, str]) -> None:
    found = only(f"  MODPOST vmlinux.symvers\n{line}\n")
    assert (found.file, found.function, found.text, found.kind) == expected


def test_count_of_mismatches_is_none() -> None:
    assert not diagnostics.flat(read("WARNING: modpost: Found 3 section mismatch(es).\n"))


def test_what_shifts_is_not_in_the_text() -> None:
    log = (
        "  CC      mm/a.o\n"
        "/src/mm/a.c:3:1: warning: 'x' shadows the one at mm/a.c:99:3, see line 12 [-Wshadow]\n"
    )
    moved = log.replace("99:3", "105:3").replace("line 12", "line 18").replace("a.c:3:1", "a.c:9:1")
    assert only(log).key == only(moved).key
    assert only(log).text == "'x' shadows the one at mm/a.c, see line"


def test_sparse_s_types_belong_to_what_they_explain() -> None:
    log = (
        "  CC      mm/a.o\n"
        "  CHECK   /src/mm/a.c\n"
        "/src/mm/a.c:5:19: warning: incorrect type in initializer (different address spaces)\n"
        "/src/mm/a.c:5:19:    expected int *to\n"
        "/src/mm/a.c:5:19:    got int [noderef] __user *from\n"
        "/src/mm/a.c:9:1: error: undefined identifier 'odd'\n"
    )
    first, second = read(log, "sparse")["mm/a.o"]
    assert first.text == (
        "incorrect type in initializer (different address spaces); expected int *to; "
        "got int [noderef] __user *from"
    )
    assert second.text == "undefined identifier 'odd'"
    assert len(read(log)["mm/a.o"]) == 1  # an error of the build is no warning


def test_made_again_within_a_log_replaces() -> None:
    once = "  MODPOST Module.symvers\nWARNING: modpost: missing MODULE_LICENSE() in a.o\n"
    assert len(diagnostics.flat(read(once + once))) == 1


# ---------------------------------------------------------------------- keep


def test_made_anew_replaces_what_was() -> None:
    before = {"mm/slub.o": (warning(),), "mm/a.o": (warning("old", file="mm/a.c"),)}
    now = {"mm/slub.o": (), "mm/b.o": (warning("b", file="mm/b.c"),)}
    merged = diagnostics.merge(before, now)
    assert [d.text for d in diagnostics.flat(merged)] == ["old", "b"]
    assert "mm/slub.o" not in merged


def test_nothing_is_said_of_a_file_that_is_gone() -> None:
    before = {"mm/a.o": (warning(file="mm/a.c"),), "mm/b.o": (warning(file="mm/b.c"),)}
    merged = diagnostics.merge(before, {}, exists=lambda path: path != "mm/a.c")
    assert [d.file for d in diagnostics.flat(merged)] == ["mm/b.c"]


def test_same_of_a_header_from_many_objects_is_one() -> None:
    header = warning(file="include/linux/slab.h", function="kmalloc")
    twice = (header, replace(header, line=9))
    spoken = {f"mm/{n}.o": (header,) for n in range(100)} | {"mm/x.o": twice}
    assert diagnostics.flat(spoken) == twice


def test_dump_and_load() -> None:
    spoken = {target: found for target, found in read(GCC).items() if found}
    assert diagnostics.load(diagnostics.dump(read(GCC))) == spoken


# ---------------------------------------------------------------------- new

lines = st.integers(min_value=1, max_value=50)
warnings = st.lists(
    st.builds(
        warning,
        st.sampled_from(["unused variable 'x'", "odd"]),
        file=st.sampled_from(["mm/a.c", "mm/b.c"]),
        line=lines,
        function=st.sampled_from(["", "one"]),
    )
)


@given(warnings, lines)
def test_moved_code_brings_nothing_new(base: list[Diagnostic], by: int) -> None:
    moved = [replace(each, line=each.line + by) for each in base]
    assert diagnostics.new(base, moved) == ()
    assert diagnostics.new(base, moved[::-1]) == ()


@given(warnings, warnings)
def test_as_many_are_new_as_were_added(base: list[Diagnostic], added: list[Diagnostic]) -> None:
    found = diagnostics.new(base, [*base, *added])
    assert len(found) == len(added)
    assert sorted(d.key for d in found) == sorted(d.key for d in added)


@given(warnings, warnings)
def test_what_is_gone_is_not_new(base: list[Diagnostic], gone: list[Diagnostic]) -> None:
    assert diagnostics.new([*base, *gone], base) == ()


def test_of_two_alike_the_one_in_another_line_is_new() -> None:
    old, more = warning(line=7), warning(line=3)
    assert diagnostics.new([old], [more, old]) == (more,)


def test_renamed_file_brings_nothing_new() -> None:
    base, patched = [warning(file="mm/a.c")], [warning(file="mm/b.c")]
    assert diagnostics.new(base, patched) == tuple(patched)
    assert diagnostics.new(base, patched, renamed={"mm/a.c": "mm/b.c"}) == ()


def test_frame_of_another_size_is_not_new() -> None:
    log = (
        "  CC      mm/a.o\n/src/mm/a.c:5:1: warning: the frame size of 2064 bytes is larger than "
        "2048 bytes [-Wframe-larger-than=]\n"
    )
    base, patched = read(log)["mm/a.o"], read(log.replace("2064", "2080"))["mm/a.o"]
    assert diagnostics.new(base, patched) == ()
    assert "2080 bytes" in patched[0].text
    assert diagnostics.new((), patched) == patched


# ---------------------------------------------------------------------- whose function

SOURCE = """\
#include <linux/slab.h>
#define WRAP(x) f(x)
static int global;

static struct kmem_cache *
alloc(int size,
      int flags)
{
	if (size)
		return NULL;
label:
	return other(size);
}
EXPORT_SYMBOL(alloc);

int declared(int);
static int last;

static int __attribute__((unused)) odd(int one)
{
	return one;
}
"""


@pytest.mark.parametrize(
    ("line", "function"),
    [
        (1, ""),
        (3, ""),
        (6, "alloc"),
        (9, "alloc"),
        (12, "alloc"),
        (13, "alloc"),
        (16, ""),
        (17, ""),
        (18, ""),
        (19, "odd"),
        (21, "odd"),
    ],
)
def test_enclosing_function(line: int, function: str) -> None:
    assert diagnostics.enclosing(SOURCE, line) == function


def test_function_that_the_tool_told_stays() -> None:
    told, untold = warning(function="told", line=9), warning(line=9)
    found = diagnostics.placed([told, untold], lambda _: SOURCE)
    assert [each.function for each in found] == ["told", "alloc"]
