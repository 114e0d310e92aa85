"""`ktrial series` and what `ktrial run` takes in: real mails, real git, no builds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pipeline import ranges, seriesverb
from pipeline.errors import UserError
from pipeline.intake import Desk, Request
from pipeline.model import Role
from pipeline.repository import Git
from pipeline.scope import Scope
from tests.integration.test_apply import added, edit
from tests.minikernel_repo import TAG, change, commit, format_patches, git, make_repository


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = make_repository(tmp_path / "linux")
    git(repo, "checkout", "-q", "-b", "topic")
    change(repo, order=3)
    change(repo, order=2)
    git(repo, "checkout", "-q", "main")
    return repo


def shown(desk: Desk, *sources: str, **more: Any) -> tuple[dict[str, Any], int]:
    text, code = seriesverb.show(Request(sources=sources, **more), desk, as_json=True)
    found = json.loads(text)
    assert isinstance(found, dict)
    assert found["schema"] == 1
    return found, code


def box(repo: Path, revisions: str, path: Path) -> str:
    path.write_text(git(repo, "format-patch", "--stdout", revisions) + "\n")
    return str(path)


# --------------------------------------------------------------------------- exit codes


def test_a_series_that_applies(repo: Path, tmp_path: Path, desk: Desk) -> None:
    mbox = box(repo, f"{TAG}..topic", tmp_path / "my.mbox")
    found, code = shown(desk, mbox, tree=str(repo))
    assert (code, found["applies"], found["version"]) == (0, True, 1)
    assert found["base"] == git(repo, "rev-parse", TAG)
    assert found["patches"][1]["subject"] == "mm: slub: set order 2"
    assert found["patches"][0]["n"] == 1
    assert found["commits"] == [
        {
            "id": each["id"], "author": "Ada Author", "email": "ada@example.org",
            "subject": f"mm: slub: set order {order}", "files": ["mm/slub.c"],
        }
        for each, order in zip(found["commits"], (3, 2), strict=True)
    ]  # fmt: skip
    assert (found["problems"], found["missing"], found["left_out"]) == ([], [], [])


def test_without_a_tree_only_the_mails_speak(repo: Path, tmp_path: Path, desk: Desk) -> None:
    mbox = box(repo, f"{TAG}..topic", tmp_path / "my.mbox")
    found, code = shown(desk, mbox)
    assert (code, found["applies"], found["commits"], found["base"]) == (0, None, [], None)
    text, code = seriesverb.show(Request(sources=("-",), stdin=Path(mbox).read_bytes()), desk)
    assert code == 0
    assert text.startswith("standard input: v1, 2 patches\n  1  mm: slub: set order 3\n")


def test_a_series_that_does_not_apply(repo: Path, tmp_path: Path, desk: Desk) -> None:
    mbox = box(repo, "topic~1..topic", tmp_path / "my.mbox")
    found, code = shown(desk, mbox, tree=str(repo), base=TAG)
    assert (code, found["applies"], found["commits"]) == (1, False, [])
    assert "“mm: slub: set order 2” does not apply: mm/slub.c at line" in found["failure"]
    assert found["failure"] in found["problems"]
    text, code = seriesverb.show(Request(sources=(mbox,), tree=str(repo), base=TAG), desk)
    assert code == 1
    assert "applies: no" in text


def test_blanks_that_keep_it_from_applying(repo: Path, tmp_path: Path, desk: Desk) -> None:
    """git's own --ignore-whitespace does not know a blank that must not break."""
    mbox = Path(box(repo, "topic~2..topic~1", tmp_path / "my.mbox"))
    mbox.write_text(re.sub(r"^( .*\S) (\S)", "\\1\xa0\\2", mbox.read_text(), flags=re.M))
    found, code = shown(desk, str(mbox), tree=str(repo))
    assert code == 1
    assert any("white space is damaged" in each for each in found["problems"]), found
    assert "git send-email" in found["details"]


def test_a_patch_is_missing(repo: Path, tmp_path: Path, desk: Desk) -> None:
    first, second = format_patches(repo, f"{TAG}..topic", tmp_path / "p")
    found, code = shown(desk, str(second))
    assert (code, found["missing"], found["patches"]) == (2, [1], [])
    assert "1/2" in found["problems"][0]
    text, code = seriesverb.show(Request(sources=(str(second),)), desk)
    assert code == 2
    assert "no series to take" in text
    assert "missing: 1" in text
    found, code = shown(desk, str(second), str(first), tree=str(repo))
    assert (code, len(found["commits"])) == (0, 2)


@pytest.mark.parametrize("content", ["", "no mail\n", "From: a@b.c\nSubject: hello\n\nhello\n"])
def test_what_holds_no_series(tmp_path: Path, desk: Desk, content: str) -> None:
    (tmp_path / "x").write_text(content)
    found, code = shown(desk, "x")
    assert (code, found["patches"], found["applies"]) == (2, [], None)
    assert found["problems"]


def test_bad_input_of_other_kinds(repo: Path, tmp_path: Path, desk: Desk) -> None:
    mbox = box(repo, f"{TAG}..topic", tmp_path / "my.mbox")
    for request, words in (
        (Request(sources=(mbox,), tree=str(tmp_path / "none")), "there is no"),
        (Request(sources=("nothing",)), "nothing"),
        (Request(), "no series is named"),
        (Request(sources=("main..topic",), tree=str(repo), base=TAG), "--base has no meaning"),
    ):
        with pytest.raises(UserError, match=words):
            seriesverb.show(request, desk)
        text, code = seriesverb.show(request, desk, as_json=True)
        assert code == 2
        assert words in json.loads(text)["problems"][0]


def test_a_refusal_names_what_the_user_named(repo: Path, tmp_path: Path, desk: Desk) -> None:
    first, second = format_patches(repo, f"{TAG}..topic", tmp_path / "p")
    third = tmp_path / "third.patch"
    third.write_text(first.read_text().replace("1/2", "1/3"))
    found, code = shown(desk, str(third), str(second))
    assert code == 2
    assert found["problems"][0].startswith(f"{third}, {second} ")


def test_a_damaged_patch_and_how_the_sender_avoids_it(
    repo: Path, tmp_path: Path, desk: Desk
) -> None:
    mbox = Path(box(repo, "topic~2..topic~1", tmp_path / "my.mbox"))
    text = mbox.read_text()
    head, start, hunk = text.partition("\n@@")
    mbox.write_text(head + start + hunk.replace("\n ", "\n"))
    found, code = shown(desk, str(mbox))
    assert code == 2
    told = " ".join(found["problems"])
    assert "whitespace damage" in told
    assert "git send-email" in told
    assert "git send-email" in found["hint"]


def test_a_diff_that_was_edited_is_told(repo: Path, tmp_path: Path, desk: Desk) -> None:
    mbox = Path(box(repo, "topic~2..topic~1", tmp_path / "my.mbox"))
    text = mbox.read_text()
    edited = [
        line.replace("3", "5") if line.startswith("+") and not line.startswith("+++") else line
        for line in text.split("\n")
    ]
    mbox.write_text("\n".join(edited))
    found, code = shown(desk, str(mbox), tree=str(repo))
    assert (code, found["applies"]) == (0, True)
    assert any("is not what its index line names" in each for each in found["problems"])


# --------------------------------------------------------------------------- safety


def test_paths_that_are_not_safe_are_refused_without_a_tree(tmp_path: Path, desk: Desk) -> None:
    head = "From: Ada <ada@example.org>\nDate: Mon, 3 Feb 2025 10:00:00 +0100\n"
    mail = f"{head}Subject: [PATCH] sly \u202efdp.exe\n\nwords\n---\n{added('.GIT/hooks/x')}"
    (tmp_path / "sly.patch").write_text(mail)
    found, code = shown(desk, "sly.patch")
    assert (code, found["applies"]) == (1, False)
    assert found["failure"] == "refused: patch 1: .GIT/hooks/x lies in .git"
    assert any("characters that do not show" in each for each in found["problems"])
    text, _ = seriesverb.show(Request(sources=("sly.patch",)), desk)
    assert "\u202e" not in text
    assert "sly \\u202efdp.exe" in text


def test_a_title_is_shown_escaped_in_plans(repo: Path, tmp_path: Path, desk: Desk) -> None:
    mbox = Path(box(repo, "topic~2..topic~1", tmp_path / "my.mbox"))
    mbox.write_text(mbox.read_text().replace("mm: slub: set", "mm: \u202e\x1b[1mset"))
    taken = desk.take(Request(sources=(str(mbox),), tree=str(repo)))
    assert taken.scenario.title == "mm: \\u202e\\x1b[1mset order 3"


# --------------------------------------------------------------------------- ranges, branches


def test_ranges_and_branches(repo: Path, desk: Desk) -> None:
    for source in (f"{TAG}..topic", "topic"):
        found, code = shown(desk, source, tree=str(repo))
        assert (code, found["applies"], found["base"]) == (0, True, git(repo, "rev-parse", TAG))
        assert [each["subject"] for each in found["commits"]] == [
            "mm: slub: set order 3", "mm: slub: set order 2",
        ]  # fmt: skip
    taken = desk.take(Request(sources=("topic",), tree=str(repo)))
    assert taken.scenario.kernels[1].commit == git(repo, "rev-parse", "topic")
    with pytest.raises(UserError, match="no such file, scenario, range or branch"):
        desk.take(Request(sources=("nothing",), tree=str(repo)))


def prepared(repo: Path, *, revision: int = 3) -> str:
    """A branch as `b4 prep -n` makes it: an empty commit with the cover and its tracking data."""
    tracking = {"series": {"revision": revision, "change-id": "20250101-mine-abc",
                           "prefixes": [], "prerequisites": []}}  # fmt: skip
    git(repo, "checkout", "-q", "-b", "b4/mine", TAG)
    (repo / "before").write_text("before\n")
    base = commit(repo, "before the series")
    cover = (
        "my series: a cover\n\nWords.\n\n--- b4-submit-tracking ---\n"
        "# This section is used internally by b4 prep for tracking purposes.\n"
        + json.dumps(tracking, indent=2)
    )
    git(repo, "commit", "-q", "--allow-empty", "-m", cover)
    change(repo, order=5)
    return base


@pytest.mark.parametrize("checked_out", [True, False])
def test_a_b4_prep_branch(repo: Path, desk: Desk, checked_out: bool) -> None:
    base = prepared(repo)
    if not checked_out:
        git(repo, "checkout", "-q", "main")
    found, code = shown(desk, "b4/mine", tree=str(repo))
    assert (code, found["version"], found["base"]) == (0, 3, base)
    assert [each["subject"] for each in found["patches"]] == ["mm: slub: set order 5"]
    assert [each["subject"] for each in found["commits"]] == ["mm: slub: set order 5"]
    assert "b4 prep branch (20250101-mine-abc, v3)" in found["notes"][0]
    taken = desk.take(Request(sources=("b4/mine",), tree=str(repo)))
    assert taken.tree is not None
    assert taken.tree.base == base
    assert taken.scenario.kernels[1].commit == git(repo, "rev-parse", "b4/mine")


def test_a_commit_that_only_looks_like_a_cover(repo: Path, scope: Scope) -> None:
    at = Git(git_dir=repo / ".git", scope=scope)
    (repo / "notes").write_text("x\n")
    commit(repo, "notes\n\n--- b4-submit-tracking ---\n{}")
    assert ranges.find_cover(at, "HEAD") is None
    commit_text = 'x\n\n--- b4-submit-tracking ---\n{"series": {"revision": 2}}'
    cover = ranges.read_cover("c", commit_text)
    assert cover is not None
    assert cover.revision == 2
    assert ranges.read_cover("c", "x\n\n--- b4-submit-tracking ---\n{broken") is None
    assert ranges.read_cover("c", "x\n\n--- b4-submit-tracking ---\n[]") is None


# --------------------------------------------------------------------------- what a run takes in


def stacked(repo: Path, tmp_path: Path) -> tuple[str, str]:
    """A patch, and one that stands on it and says so."""
    git(repo, "checkout", "-q", "-b", "stack", TAG)
    (repo / "one").write_text("one\n")
    commit(repo, "one")
    edit(repo, "one", {"one\n": "two\n"})
    commit(repo, "two")
    first = format_patches(repo, f"{TAG}..stack~1", tmp_path / "first")[0]
    out = git(
        repo, "format-patch", f"--base={TAG}", "-o", str(tmp_path / "second"), "stack~1..stack"
    )
    git(repo, "checkout", "-q", "main")
    git(repo, "branch", "-q", "-D", "stack")
    return str(first), out


def test_prerequisites_given_along_are_applied_first(
    repo: Path, tmp_path: Path, desk: Desk
) -> None:
    first, second = stacked(repo, tmp_path)
    assert "prerequisite-patch-id: " in Path(second).read_text()
    found, code = shown(desk, second, first, tree=str(repo))
    assert (code, found["applies"], found["base_rule"]) == (0, True, "base-commit")
    assert [each["subject"] for each in found["commits"]] == ["two"]
    assert f"applied first, as a prerequisite: {first}" in found["notes"]
    assert found["problems"] == []
    for tree in (str(repo), "debian:6.12"):
        taken = desk.take(Request(sources=(second, first), tree=tree))
        kernels = taken.scenario.kernels
        assert [(each.role, each.on) for each in kernels] == [
            (Role.BASE, None), (Role.PREREQUISITE, None), (Role.PATCHED, "prerequisite"),
        ]  # fmt: skip
        assert kernels[1].series is not None
        assert kernels[1].series.patches[0].subject == "one"
    alone, code = shown(desk, second, tree=str(repo))
    assert code == 1
    assert any("is neither in the tree nor among" in each for each in alone["problems"])


def test_prerequisites_out_of_the_same_mails(repo: Path, tmp_path: Path, desk: Desk) -> None:
    """Two series in one mbox are one too many, unless one asks for the other."""
    git(repo, "checkout", "-q", "-b", "stack", TAG)
    threads = []
    for name, content in (("one", "one\n"), ("two", "two\n"), ("three", "three\n")):
        (repo / "one").write_text(content)
        commit(repo, name)
        thread = git(
            repo, "format-patch", "--stdout", "--cover-letter", "--thread", f"--base={TAG}", "-1"
        )
        titled = thread.replace("*** SUBJECT HERE ***", f"all of {name}")
        threads.append(f"{titled}\n".replace("<cover.", f"<{name}."))
    git(repo, "checkout", "-q", "main")
    git(repo, "branch", "-q", "-D", "stack")
    # The second asks for the first, the third for both: with all three it is unclear what is meant.
    (tmp_path / "both.mbox").write_text(threads[1] + threads[0])
    found, code = shown(desk, "both.mbox", tree=str(repo))
    assert (code, found["applies"]) == (0, True), found
    assert [each["subject"] for each in found["commits"]] == ["two"]
    assert "applied first, as a prerequisite: “one”" in found["notes"]
    (tmp_path / "three.mbox").write_text("".join(threads))
    found, code = shown(desk, "three.mbox", tree=str(repo))
    assert code == 2
    assert "series" in found["problems"][0]


def test_a_run_tells_its_base_and_what_was_missing(repo: Path, tmp_path: Path, desk: Desk) -> None:
    mbox = box(repo, f"{TAG}..topic", tmp_path / "my.mbox")
    text = Path(mbox).read_text().replace("\n-- \n", f"\nbase-commit: {'1' * 40}\n-- \n", 1)
    Path(mbox).write_text(text)
    taken = desk.take(Request(sources=(mbox,), tree=str(repo)))
    assert taken.tree is not None
    assert taken.tree.base == git(repo, "rev-parse", TAG)
    notes = "\n".join(taken.scenario.notes)
    assert "base: " in notes
    assert f"base-commit {'1' * 40} is not in the tree" in notes
    debian = desk.take(Request(sources=(mbox,), tree="debian:6.12"))
    assert f"base-commit {'1' * 40} is not in debian:6.12" in debian.scenario.notes
    assert debian.tree is None
