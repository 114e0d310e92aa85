"""Paths that a series must not have, and what it has that a reader should see."""

from __future__ import annotations

import pytest

from pipeline.diffs import Change
from pipeline.pathsafety import deceives, examine, leads_out, refused, visible


def new(
    path: str,
    mode: str = "100644",
    content: str = "",
    *,
    outside: bool = False,
    binary: bool = False,
) -> Change:
    return Change(old="", new=path, new_mode=mode, content=content, outside=outside, binary=binary)


def told(*changes: Change) -> list[tuple[str, bool]]:
    return [(each.words, each.refused) for each in examine([(1, changes)])]


@pytest.mark.parametrize(
    "path",
    [
        "../up", "a/../../b", "/etc/passwd", "a/./b", ".git/config", "sub/.git/hooks/x",
        ".GIT/config", ".gIt/x", ".git ", ".git./x", ".git . ./x", "git~1/config", "GIT~2/x",
        ".git::$INDEX_ALLOCATION/x", ".g\u200cit/x", "\ufeff.git/x", ".gi\u202et/config",
        ".git\u200f/x", "a\\.git\\x", "\uff0egit/x",
    ],
)  # fmt: skip
def test_names_that_are_refused(path: str) -> None:
    bad = refused(examine([(3, [new(path)])]))
    assert bad is not None
    assert bad.number == 3
    assert str(bad).startswith("refused: patch 3: ")
    assert visible(str(bad)) == str(bad)


@pytest.mark.parametrize(
    "path",
    ["mm/slub.c", ".gitignore", "a/.gitkeep", "git/x", "x.git/y", "git~/x", "..a/b", "Ä/ü.c",
     "a b", "tools/hooks.c", "fs/hooks/inode.c", "my..c"],
)  # fmt: skip
def test_names_that_are_fine(path: str) -> None:
    assert told(new(path)) == []


def test_a_link_of_an_earlier_patch_is_not_gone_through() -> None:
    link = new("way", "120000", "mm")
    bad = refused(examine([(1, [link]), (2, [new("way/x")])]))
    assert bad is not None
    assert (bad.number, bad.path) == (2, "way/x")
    assert "symbolic link way of patch 1" in bad.words
    assert refused(examine([(1, [new("way/x"), link])])) is not None
    gone = Change(old="way", new="", old_mode="120000")
    assert refused(examine([(1, [link]), (2, [gone]), (3, [new("way/x")])])) is None


@pytest.mark.parametrize(
    ("path", "target", "bad"),
    [
        ("a/l", "../b", False),
        ("a/l", "../../b", True),
        ("l", "/etc", True),
        ("l", "a/../../b", True),
        ("l", "C:\\x", True),
        ("a/l", "../.git/config", True),
        ("l", ".", False),
    ],
)
def test_where_symbolic_links_may_lead(path: str, target: str, bad: bool) -> None:
    assert bool(leads_out(path, target)) is bad
    assert (refused(examine([(1, [new(path, "120000", target)])])) is not None) is bad


def test_gitlinks_and_absolute_names_are_refused() -> None:
    assert told(new("sub", "160000")) == [
        ("is a gitlink (a submodule), whose content is elsewhere", True)
    ]
    assert told(new("etc/passwd", outside=True)) == [("is an absolute path", True)]
    assert told(new("l", "120000", binary=True))[0][1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (new(".gitmodules"), "repositories to fetch"),
        (new("sub/.LFSconfig"), "server to fetch from"),
        (new(".gitattributes", content="*.c filter=evil\n*.h text"), "(filter=evil)"),
        (new(".githooks/anything"), "hook of git"),
        (new("scripts/hooks/pre-commit"), "hook of git"),
        (new("a\u202eb.c"), "do not show"),
    ],
)
def test_what_is_worth_a_look_is_flagged(change: Change, words: str) -> None:
    ((said, is_refused),) = told(change)
    assert words in said
    assert not is_refused


def test_what_does_not_show_is_shown() -> None:
    assert visible("a\x1b[31mb\u202ec\n\td\x7f\u200b\udcff\U000e0041") == (
        "a\\x1b[31mb\\u202ec\\n\\td\\x7f\\u200b\\xff\\U000e0041"
    )
    assert visible("Jürgen Groß, 日本 – “x”") == "Jürgen Groß, 日本 – “x”"
    assert deceives("x\u2066y")
    assert not deceives("plain")
