"""What a series changed, and which of its lines were compiled: the pure parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from pipeline import (
    changedlines,
    changekind,
    conditionals,
    coverage,
    coverview,
    examine,
    makefiles,
    objectindex,
    preprocessed,
    takespart,
)
from pipeline.changekind import Side
from pipeline.model import Change, ChangedFile, ChangeKind, Examination, HiddenLines
from pipeline.objectindex import Object

TEXT = """#include <a.h>
#ifdef CONFIG_NUMA
int a; /* x
y */
#else
int b;
#endif
#if IS_ENABLED(CONFIG_A) && CONFIG_N > 3
int c;
#endif
"""


def test_changed_lines_are_of_the_new_side_and_content_is_no_header() -> None:
    diff = "--- a/f.c\n+++ b/f.c\n@@ -3 +3,2 @@\n--- x\n+++ y\n+z\n@@ -9,2 +9,0 @@\n-a\n-b\n"
    gone = "--- a/g.c\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
    assert changedlines.read(diff + gone) == {"f.c": (3, 4), "g.c": ()}


def test_hidden_lines_are_named_with_what_brings_them_in() -> None:
    found = coverage.of_file("f.c", (3, 4, 6, 9), text=TEXT, seen={6}, config={"CONFIG_N": "2"})
    assert found.compiled == (6,)
    assert [(each.lines, each.by, each.options) for each in found.hidden] == [
        ((3,), "#ifdef CONFIG_NUMA", ("CONFIG_NUMA=y",)),
        ((9,), "#if IS_ENABLED(CONFIG_A) && CONFIG_N > 3", ("CONFIG_A=y", "CONFIG_N=4")),
    ]
    examined = Examination(change=Change(kind=ChangeKind.CODE), files=(found,))
    assert coverage.uncovered([examined]) == {"f.c": (3, 9)}
    cover = coverage.bring_in([examined])
    assert cover.symbols == {"CONFIG_NUMA": "y", "CONFIG_A": "y", "CONFIG_N": "4"}
    assert (cover.conflicts, cover.beyond) == ((), {})
    fragment = coverage.coverfragment([examined])
    assert fragment is not None
    assert (fragment.name, fragment.symbols) == ("cover", cover.symbols)
    text = "\n".join(coverview.lines({("x86_64", "fix"): examined}))
    assert "1 of 3" in text
    assert "no target compiles these changed lines of fix: f.c:3,9" in text


@pytest.mark.parametrize(
    ("condition", "config", "options"),
    [
        ("#ifndef CONFIG_X", {"CONFIG_X": "y"}, {"CONFIG_X=n"}),
        ("#ifdef CONFIG_X", {"CONFIG_X": "m"}, {"CONFIG_X=y"}),
        ("#if IS_ENABLED(CONFIG_X)", {"CONFIG_X": "m"}, set()),
        ("#if defined(CONFIG_X) || defined(Y)", {}, {"CONFIG_X=y"}),
        ("#if !(defined(CONFIG_X) || defined CONFIG_Y)", {"CONFIG_Y": "y"}, {"CONFIG_Y=n"}),
        ("#if 0", {}, None),
        ("#ifdef Y", {}, None),
    ],
)
def test_conditions(condition: str, config: dict[str, str], options: set[str] | None) -> None:
    branch = conditionals.read(f"{condition}\nint x;\n#endif\n").branches[0]
    assert conditionals.needed(branch, config) == options


def kind(old: str, new: str) -> ChangeKind:
    return preprocessed.kind(preprocessed.tokens(old, "/s"), preprocessed.tokens(new, "/s"))


OLD = '# 5 "/s/f.c"\nint f(void) { g(5, "i", "at 5"); }\nint h(void) { return 900; }\n'


def test_each_kind_of_change_is_told() -> None:
    moved = OLD.replace("# 5", "# 7").replace("5, ", "7, ").replace("at 5", "at 7")
    assert kind(OLD, OLD) is ChangeKind.NOTHING
    assert kind(OLD, moved) is ChangeKind.LINES
    assert kind(OLD, OLD.replace('"i"', '"j"')) is ChangeKind.STRINGS
    assert kind(OLD, OLD.replace("900", "901")) is ChangeKind.CODE
    assert kind(OLD, OLD.replace("5, ", "7, ")) is ChangeKind.CODE
    streams = [preprocessed.tokens(each, "/s") for each in (OLD, moved.replace("900", "901"))]
    assert preprocessed.names(*streams) == (("h",), ())


FILE_SCOPE = """
typedef unsigned int u32; struct later; extern u32 elsewhere; u32 proto(u32 a);
struct pair { int a; int b; };
static int plain;
static u32 __attribute__((__section__(".x"))) sized[sizeof(u32)] = { 1, 2 };
static const struct ops { int (*f)(void); } table = { .f = 0 };
int (*called)(void) = 0;
static __attribute__((noinline)) u32 work(struct pair *p) { return p->a; }
asm(".text");
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("int b;", "long b;", ((), ("struct pair",))),
        ("plain;", "plain = 3;", ((), ("plain",))),
        ("1, 2", "1, 3", ((), ("sized",))),
        (".f = 0", ".f = 1", ((), ("table",))),
        ("p->a", "p->b", (("work",), ())),
        ("a);", "b);", ((), ())),
        ("asm", "int fresh; asm", ((), ("fresh",))),
        ("static int plain;", "", ((), ("plain",))),
    ],
)
def test_what_changed_is_named(
    old: str, new: str, expected: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    changed = FILE_SCOPE.replace(old, new, 1)
    streams = [preprocessed.tokens(f'# 1 "/s/f.c"\n{each}', "/s") for each in (FILE_SCOPE, changed)]
    assert preprocessed.names(*streams) == expected


def test_text_without_comments() -> None:
    one = 'a /* x\ny */ b;\n\n// gone\nchar  *s = "/*kept*/";\n'
    assert conditionals.plain(one) == ["a b;", 'char *s = "/*kept*/";']
    assert conditionals.plain("int  a;\n/* x */\n") == conditionals.plain("\n\nint a; // y\n")
    for old, new in [
        ("int a;", "int b;"),
        ('"a b"', '"a  b"'),
        ("#define A /*\n*/ 3", "#define A\n3"),
    ]:
        assert conditionals.plain(old) != conditionals.plain(new)


# ---------------------------------------------------------------------- both sides of an object


def side(texts: Mapping[str, str], *, more: Sequence[str] = (), used: Sequence[str] = ()) -> Side:
    """A kernel whose objects all have f.h; `more` are those that were not looked at."""
    names = [*texts, *more]
    having = dict.fromkeys(names, ("f.h",))
    return Side(root="/s", objects=names, having=having, texts=texts, used=used)


STRINGS = OLD.replace('"i"', '"j"')


def test_change_of_what_was_looked_at() -> None:
    found = changekind.change(side({"f.o": OLD}), side({"f.o": STRINGS}), only_moved=False)
    assert found == Change(kind=ChangeKind.STRINGS, files=("f.h",), functions=("f",))
    assert coverview.change(found) == "only strings: f"


@pytest.mark.parametrize("only_moved", [True, False])
def test_change_is_not_guessed_where_objects_were_left_out(only_moved: bool) -> None:
    sides = side({"f.o": OLD}, more=["g.o"]), side({"f.o": OLD}, more=["g.o"])
    found = changekind.change(*sides, only_moved=only_moved)
    assert (found.kind is ChangeKind.LINES) == only_moved
    assert (found.files, found.left) == (("f.h",), 1)
    assert ("1 object with changed files not looked at" in coverview.change(found)) != only_moved


def test_linker_script_that_has_a_header_too_was_not_looked_at() -> None:
    sides = side({"f.o": OLD}, used=["f.h"]), side({"f.o": OLD})
    found = changekind.change(*sides, only_moved=False)
    assert (found.kind, found.left) == (ChangeKind.UNKNOWN, 1)


def test_code_stays_code_whatever_was_left_out() -> None:
    sides = side({"f.o": OLD}, more=["g.o"]), side({"f.o": OLD.replace("900", "1")}, more=["g.o"])
    found = changekind.change(*sides, only_moved=False)
    assert (found.kind, found.functions, found.left) == (ChangeKind.CODE, ("h",), 1)
    text = coverview.change(found)
    assert text == "code or data (1 object with changed files not looked at): h"


def test_object_on_one_side_alone_and_other_files_are_code() -> None:
    assert changekind.change(side({}), side({"f.o": OLD}), only_moved=False) == Change(
        kind=ChangeKind.CODE, files=("f.h",)
    )
    found = changekind.change(side({}), side({}), only_moved=False, other=["mm/Makefile"])
    assert found == Change(kind=ChangeKind.CODE, files=("mm/Makefile",))


# ---------------------------------------------------------------------- which objects


def command(name: str, *depends: str, flags: str = "-D__KERNEL__") -> str:
    """As kbuild writes it."""
    source = f"/src/{name.removesuffix('.o')}.c"
    lines = "".join(f"  /src/{each} \\\n" for each in depends)
    return (
        f"savedcmd_{name} := gcc -Wp,-MMD,mm/.x.o.d {flags} -DS='\\#x' -c -o {name} {source}"
        " ; ./tools/objtool/objtool --orc x\n\n"
        f"source_{name} := {source}\n\ndeps_{name} := \\\n{lines}\n{name}: $(deps_{name})\n"
    )


def test_object_of_a_command_file() -> None:
    text = command("mm/a.o", "mm/a.h", "include/b.h")
    found = objectindex.read(text, "/src", ["mm/a.c", "include/b.h", "include/b", "a.h"])
    assert found == Object(
        name="mm/a.o",
        preprocess="gcc  -D__KERNEL__ -DS='#x' -E -dD",
        source="/src/mm/a.c",
        within=("mm/a.c", "include/b.h"),
    )
    host = command("scripts/mod.o", "scripts/mod.h", flags="-O2")
    assert objectindex.read(host, "/src", ["scripts/mod.h"]) is None
    assert objectindex.named(host, ["scripts/mod.h", "scripts/mod", "mod.h"]) == {
        "scripts/mod.h",
        "mod.h",
    }


def test_objects_to_look_at() -> None:
    """Every C file's, for a header the near ones first and no more than so many."""
    headers = [f"lib/{number:02}.o" for number in range(20)]
    objects = {
        name: Object(name=name, preprocess="", source="", within=("mm/h.h",))
        for name in [*headers, "mm/z.o"]
    }
    objects["mm/a.o"] = Object(name="mm/a.o", preprocess="", source="", within=("mm/a.c",))
    assert objectindex.choose(["mm/h.h", "mm/a.c"], objects) == [
        "mm/a.o",
        "mm/z.o",
        *headers[: objectindex.MOST - 1],
    ]


@pytest.mark.parametrize(
    ("path", "does"),
    [
        ("MAINTAINERS", False),
        ("Documentation/mm/a.c", False),
        ("mm/README", False),
        ("fs/.gitignore", False),
        ("tools/testing/selftests/mm/Makefile", False),
        ("tools/perf/perf.c", False),
        ("scripts/checkpatch.pl", False),
        ("drivers/never/built.c", False),
        ("tools/objtool/check.c", True),
        ("scripts/kallsyms.c", True),
        ("scripts/link-vmlinux.sh", True),
        ("scripts/Makefile.build", True),
        ("mm/Makefile", True),
        ("mm/Kconfig.debug", True),
        ("arch/x86/kernel/vmlinux.lds.S", True),
        ("rust/kernel/lib.rs", True),
    ],
)
def test_what_takes_part_in_a_build(path: str, does: bool) -> None:
    used = ["scripts/kallsyms.c", "arch/x86/kernel/vmlinux.lds.S"]
    callers = "sh $(srctree)/scripts/link-vmlinux.sh\n# see checkpatch.pl.txt\n"
    assert takespart.in_build(path, used=used, callers=callers) == does


# ---------------------------------------------------------------------- a configuration that covers


def examination(*hidden: tuple[int, tuple[str, ...]]) -> Examination:
    files = ChangedFile(
        path="f.c",
        hidden=tuple(HiddenLines(lines=(line,), by="#if", options=each) for line, each in hidden),
    )
    return Examination(change=Change(kind=ChangeKind.LINES), files=(files,))


def test_wishes_that_one_kernel_cannot_fulfil_are_named() -> None:
    cover = coverage.bring_in(
        [examination((3, ("CONFIG_X=y",)), (5, ("CONFIG_X=n", "CONFIG_Y=y")), (7, ()))]
    )
    assert cover.symbols == {"CONFIG_X": "y", "CONFIG_Y": "y"}
    assert cover.conflicts == ("CONFIG_X: y for f.c:3, n for f.c:5; taken: y",)
    assert cover.beyond == {"f.c": (7,)}
    assert list(coverview.cover(cover)) == [
        "configuration cover: CONFIG_X=y, CONFIG_Y=y",
        "!! one kernel cannot have both: CONFIG_X: y for f.c:3, n for f.c:5; taken: y",
        "!! no setting is known that would compile f.c:7",
    ]


def test_nothing_to_cover() -> None:
    hidden = examination((3, ("CONFIG_X=y",)))
    seen = replace(hidden, files=(ChangedFile(path="f.c", compiled=(3,)),))
    assert coverage.coverfragment([hidden, seen]) is None
    assert coverage.coverfragment([examination((3, ()))]) is None
    assert coverage.coverfragment([]) is None


def test_what_another_architecture_compiles_is_not_brought_in() -> None:
    hidden = examination((3, ("CONFIG_X=y",)), (5, ("CONFIG_Y=y",)))
    seen = replace(hidden, files=(ChangedFile(path="f.c", compiled=(3,)),))
    assert coverage.bring_in([hidden], [seen]).symbols == {"CONFIG_Y": "y"}


def test_what_is_kept_of_another_version_is_not_read() -> None:
    kept = examine.to_json(examination((3, ("CONFIG_X=y",))))
    assert examine.from_json(kept) == examination((3, ("CONFIG_X=y",)))
    with pytest.raises(ValueError, match="another version"):
        examine.from_json(kept.replace(f'"version": {examine.VERSION}', '"version": 0'))


@pytest.mark.parametrize(
    ("path", "why", "options"),
    [
        ("arch/arm64/mm/a.c", "of another architecture: arm64", ()),
        ("tools/a.c", "not kernel code", ()),
        ("d/e/a.c", "obj-$(CONFIG_A) and obj-$(CONFIG_E)", ("CONFIG_A=y", "CONFIG_E=y")),
        ("d/e/part.c", "obj-$(CONFIG_P) and obj-$(CONFIG_E)", ("CONFIG_P=y", "CONFIG_E=y")),
    ],
)
def test_files_that_are_not_built(path: str, why: str, options: tuple[str, ...]) -> None:
    tree = {
        "d/Makefile": "obj-$(CONFIG_E) += e/\n",
        "d/e/Makefile": "obj-$(CONFIG_A) += \\\n a.o\nobj-y += big.o\nbig-$(CONFIG_P) += part.o\n",
    }
    found = makefiles.absence(path, source_dir="x86", config={}, read=tree.get)
    assert (found.why, found.options) == (why, options)
