"""Diffs read line by line: names, hunks, and damage that git would pass over."""

from __future__ import annotations

import pytest

from pipeline import diffstat, difftext, patchcut

HEAD = "diff --git a/mm/x.c b/mm/x.c\nindex 1111111..2222222 100644\n"
NAMES = "--- a/mm/x.c\n+++ b/mm/x.c\n"
HUNK = "@@ -1,3 +1,3 @@\n a\n-\tb\n+\tB\n c\n"


def scan(text: str) -> tuple[difftext.FileDiff, ...]:
    return difftext.scan(text.removesuffix("\n").split("\n"))


def only(text: str) -> difftext.FileDiff:
    (found,) = scan(text)
    return found


def test_a_diff_between_prose() -> None:
    found = only(f"words\n\n{HEAD}{NAMES}{HUNK}-- \n2.39\n\nfooter\n")
    assert "\n".join(found.lines) + "\n" == HEAD + NAMES + HUNK
    assert (found.path, found.damage, found.doubts) == ("mm/x.c", (), ())


@pytest.mark.parametrize(
    ("damaged", "word"),
    [
        (HUNK.replace(" a\n", "a\n"), "whitespace damage"),
        (HUNK.replace(" a\n", "\ta\n"), "whitespace damage"),
        (HUNK.replace("\tB\n", "\tB and\nmore\n"), "whitespace damage"),
        (HUNK + "more\n", "left over"),
        (HUNK.replace(" c\n", ""), "cut off"),
        (HUNK.replace("+\tB\n", ""), "cut off"),
        (HUNK.replace(" c\n", " c\n d\n"), "left over"),
    ],
)
def test_damage_is_seen(damaged: str, word: str) -> None:
    assert word in " ".join(only(HEAD + NAMES + damaged).damage)


def test_an_empty_context_line_without_its_space_is_none() -> None:
    found = only(HEAD + NAMES + HUNK.replace(" a\n", "\n"))
    assert not found.damage
    assert " " in found.lines


def test_lost_header_lines_are_put_back_where_they_are_certain() -> None:
    for lost in ("+++ b/mm/x.c\n", "--- a/mm/x.c\n"):
        found = only(HEAD + NAMES.replace(lost, "") + HUNK)
        assert "\n".join(found.lines) + "\n" == HEAD + NAMES + HUNK
        assert found.doubts
    assert only(NAMES.replace("+++ b/mm/x.c\n", "") + HUNK).damage


def test_a_new_file_is_held_against_its_name() -> None:
    new = (
        "diff --git a/n b/n\nnew file mode 100644\nindex 0000000..257cc56\n"
        "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+foo\n"
    )
    assert not only(new).doubts
    assert "not what its index line names" in only(new.replace("+foo", "+fo")).doubts[0]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("a/x b/x", ("x", "x")),
        ("a/with space b/with space", ("with space", "with space")),
        ('"a/\\303\\244" "b/\\303\\244"', ("ä", "ä")),
        ('a/x "b/a\\tb"', ("x", "a\tb")),
    ],
)
def test_names(line: str, names: tuple[str, str]) -> None:
    assert difftext.split_names(line) == names


def test_what_has_no_hunk() -> None:
    rename = "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n"
    mode = "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n"
    empty = "diff --git a/e b/e\nnew file mode 100644\nindex 0000000..e69de29\n"
    found = scan(rename + mode + empty)
    assert [each.path for each in found] == ["y", "x", "e"]
    assert not any(each.damage for each in found)
    assert only("diff --git a/x b/x\nand so on\n").damage


def test_tabs_that_became_spaces_are_doubted() -> None:
    spaces = HEAD + NAMES + HUNK.replace("\t", "        ")
    assert difftext.tabs_lost(scan(spaces))
    assert not difftext.tabs_lost(scan(HEAD + NAMES + HUNK))
    assert not difftext.tabs_lost(scan(spaces.replace("x.c", "x.rst")))


def test_the_patch_is_what_the_diffstat_counts() -> None:
    quoted = HEAD.replace("x.c", "y.c") + NAMES.replace("x.c", "y.c") + HUNK
    stat = " mm/x.c | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\n"
    text = f"words\n\n{quoted}\n---\nv1 had\n\n{quoted}\n{stat}\n{HEAD}{NAMES}{HUNK}"
    found = patchcut.cut(text.split("\n"))
    assert [each.path for each in found.diffs] == ["mm/x.c"]
    assert found.separated
    assert not found.damage
    unsure = patchcut.cut(f"words\n---\n{quoted}---\n{HEAD}{NAMES}{HUNK}".split("\n"))
    assert unsure.damage == (patchcut.UNCERTAIN,)


def test_paths_without_prefixes_get_them() -> None:
    """git would take "mm" for the prefix, and put the file elsewhere."""
    for bare, whole in (
        (HEAD.replace("a/", "").replace("b/", ""), HEAD),
        ("", ""),  # as diff -u writes it
    ):
        found = only(bare + NAMES.replace("a/", "").replace("b/", "") + HUNK)
        assert "\n".join(found.lines) + "\n" == whole + NAMES + HUNK
        assert found.path == "mm/x.c"
        assert "--no-prefix" in found.doubts[0]
    new = (
        'diff --git "mm/\\303\\244.c" "mm/\\303\\244.c"\n'
        "new file mode 100644\nindex 0000000..257cc56\n"
        '--- /dev/null\n+++ "mm/\\303\\244.c"\n@@ -0,0 +1 @@\n+foo\n'
    )
    assert only(new).path == "mm/ä.c"
    assert '+++ "b/mm/\\303\\244.c"' in only(new).lines
    assert not only(HEAD + NAMES + HUNK).doubts
    lost = only(HEAD.replace("a/", "").replace("b/", "") + "--- mm/x.c\n" + HUNK)
    assert "\n".join(lost.lines) + "\n" == HEAD + NAMES + HUNK


STAT = " mm/x.c | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\n"


def test_a_blank_behind_a_name_is_doubted() -> None:
    assert "whitespace damage" in only(HEAD + NAMES.replace(".c\n", ".c \n") + HUNK).doubts[0]
    spaced = only(HEAD + NAMES.replace(".c\n", ".c \t\n") + HUNK)
    assert (spaced.path, spaced.doubts) == ("mm/x.c ", ())


def test_what_follows_the_signature_is_talk() -> None:
    talk = HEAD.replace("x.c", "y.c") + NAMES.replace("x.c", "y.c") + HUNK
    text = f"words\n---\n{STAT}\n{HEAD}{NAMES}{HUNK}-- \n2.39\n\nFor a look:\n\n{talk}"
    assert [each.path for each in patchcut.cut(text.split("\n")).diffs] == ["mm/x.c"]
    both = patchcut.cut(text.replace("1 file changed", "2 files changed").split("\n"))
    assert [each.path for each in both.diffs] == ["mm/x.c", "mm/y.c"]


def test_a_rule_in_a_message_does_not_end_it() -> None:
    text = f"one\n---\ntwo\n\nSigned-off-by: A <a@b.c>\n---\n{STAT}\n{HEAD}{NAMES}{HUNK}"
    assert patchcut.cut(text.split("\n")).end == 5
    unsigned = text.replace("Signed-off-by", "Seen-by")
    assert patchcut.cut(unsigned.split("\n")).end == 1


def test_a_diffstat() -> None:
    found = diffstat.parse(
        [
            " mm/{a.c => b.c}  |  4 ++--",
            " .../long/path.c  | 10 ++++++++++",
            " data.bin         | Bin 0 -> 10 bytes",
            " 3 files changed, 12 insertions(+), 2 deletions(-)",
        ]
    )
    assert found is not None
    assert (found.files, found.insertions, found.deletions) == (3, 12, 2)
    assert found.lines == {"mm/b.c": 4}
    assert diffstat.parse(["no stat"]) is None
