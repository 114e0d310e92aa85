"""What a series changed, and which of its lines were compiled: the pure parts."""

from __future__ import annotations

import pytest

from pipeline import changedlines, conditionals, coverage, coverview, makefiles, preprocessed
from pipeline.model import Change, ChangeKind, Examination

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
    assert changedlines.read(diff + gone) == {"f.c": (3, 4, 9), "g.c": ()}


def test_hidden_lines_are_named_with_what_brings_them_in() -> None:
    found = coverage.of_file("f.c", (3, 4, 6, 9), text=TEXT, seen={6}, config={"CONFIG_N": "2"})
    assert found.compiled == (6,)
    assert [(each.lines, each.by, each.options) for each in found.hidden] == [
        ((3,), "#ifdef CONFIG_NUMA", ("CONFIG_NUMA=y",)),
        ((9,), "#if IS_ENABLED(CONFIG_A) && CONFIG_N > 3", ("CONFIG_A=y", "CONFIG_N=4")),
    ]
    examined = Examination(change=Change(kind=ChangeKind.CODE), files=(found,))
    assert coverage.uncovered([examined]) == {"f.c": (3, 9)}
    assert coverage.bring_in([examined])["CONFIG_NUMA"] == "y"
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
    assert preprocessed.functions(*streams) == ("h",)


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
