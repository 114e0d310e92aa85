"""Mails put together to a series, as far as no git is needed for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import Cancelled
from pipeline.model import Series
from pipeline.scope import Scope
from pipeline.series import NoSeries, read_files, read_series
from tests.unit.mails import ADA, BOB, Letter, mbox

DIFF = """\
---
 mm/slub.c | 2 +-
 1 file changed, 1 insertion(+), 1 deletion(-)

diff --git a/mm/slub.c b/mm/slub.c
index 1111111..2222222 100644
--- a/mm/slub.c
+++ b/mm/slub.c
@@ -1 +1 @@
-a
+b
--\x20
2.39.5
"""


def patch(number: int = 0, total: int = 0, *, words: str = "Words.", **changes: object) -> Letter:
    count = f" {number}/{total}" if total else ""
    return Letter(
        subject=f"[PATCH{count}] mm: change {number}",
        body=f"{words}\n\nSigned-off-by: {ADA}\n{DIFF}",
        message_id=f"{number}@example.org",
        answers="1@example.org" if number > 1 else "",
    ).with_(**changes)


def read(*letters: Letter, trailers: bool = False, pick: str | None = None) -> Series:
    return read_series("-", stdin=mbox(*letters), scope=Scope(60), trailers=trailers, pick=pick)


def test_what_a_mail_says_is_in_the_series() -> None:
    body = f"{DIFF}\nbase-commit: {'1' * 40}\nprerequisite-patch-id: {'2' * 40}\n"
    body += "prerequisite-change-id: 20240102-x-0123:v2\nprerequisite-message-id: <a@b>\n"
    series = read(patch(body=f"Words.\n\n{body}"))
    (only,) = series.patches
    assert (only.number, only.subject, only.author, only.email) == (
        1, "mm: change 0", "Ada Author", "ada@example.org",
    )  # fmt: skip
    assert only.files == ("mm/slub.c",)
    assert only.claimed is not None
    assert (only.claimed.files, only.claimed.insertions, only.claimed.lines) == (
        1, 1, {"mm/slub.c": 2},
    )  # fmt: skip
    assert series.base_commit == "1" * 40
    assert series.prerequisites == (
        f"patch-id: {'2' * 40}", "change-id: 20240102-x-0123:v2", "message-id: a@b",
    )  # fmt: skip


def test_the_base_of_a_cover_letter_counts_for_the_series() -> None:
    cover = patch(0, 1, body=f"Words.\n\nbase-commit: {'3' * 40}\n", message_id="0@example.org")
    series = read(cover, patch(1, 1, answers="0@example.org"))
    assert series.base_commit == "3" * 40


def test_trailers_of_replies_are_added_only_when_asked() -> None:
    one, two = patch(1, 2), patch(2, 2)
    replies = [
        Letter(
            subject=f"Re: {one.subject}", body=body, sender=BOB, answers="1@example.org",
            message_id=f"r{number}@example.net",
        )
        for number, body in enumerate(
            (
                f"Thanks.\n\nReviewed-by: {BOB}\n",
                f"> Acked-by: {BOB}\n\nHm.\n",
                "Tested-by: Eve Else <eve@example.org>\n",
            )
        )
    ]  # fmt: skip
    plain = read(one, two, *replies)
    assert b"Reviewed-by" not in plain.patches[0].mail
    asked = read(one, two, *replies, trailers=True)
    mail = asked.patches[0].mail.decode()
    assert f"Signed-off-by: {ADA}\nReviewed-by: {BOB}\n---\n" in mail
    assert "Acked-by" not in mail
    assert "Tested-by" not in mail
    assert "Reviewed-by" not in asked.patches[1].mail.decode()
    assert "is not taken" in asked.notes[0]


def test_a_reply_to_the_cover_is_for_all() -> None:
    cover = patch(0, 2, body="Words.\n", message_id="0@example.org")
    sent = [patch(number, 2, answers="0@example.org") for number in (1, 2)]
    ack = Letter(
        subject="Re: x", body=f"Acked-by: {BOB}\n", sender=BOB, answers="0@example.org",
        message_id="r@example.net",
    )  # fmt: skip
    series = read(cover, *sent, ack, trailers=True)
    assert all(f"Acked-by: {BOB}".encode() in each.mail for each in series.patches)


def test_every_mail_is_taken_or_left_out_with_a_reason() -> None:
    reply = Letter(subject="Re: x", body="Hm.\n", sender=BOB, answers="1@example.org")
    talk = Letter(subject="lunch", body="At noon.\n", sender=BOB)
    series = read(patch(1, 2), patch(2, 2), reply, talk)
    assert len(series.patches) + len(series.left_out) == 4
    assert {each.reason for each in series.left_out} == {"a reply", "there is no patch in it"}


def test_a_refusal_has_all_that_is_known() -> None:
    with pytest.raises(NoSeries) as caught:
        read(patch(1, 4), patch(3, 4))
    assert caught.value.missing == (2, 4)
    assert caught.value.version == 1
    assert [each.subject for each in caught.value.left_out] == [
        "[PATCH 1/4] mm: change 1", "[PATCH 3/4] mm: change 3",
    ]  # fmt: skip
    assert "patches 2/4, 4/4 missing" in str(caught.value)


def test_a_patch_sent_again_with_other_content() -> None:
    later = patch(
        2, 2, words="Better words.", message_id="later@example.org",
        date="Wed, 3 Jan 2024 00:00:00 +0000",
    )  # fmt: skip
    series = read(patch(1, 2), later, patch(2, 2))
    assert b"Better words." in series.patches[1].mail
    assert "the later is taken" in series.problems[0]
    undated = later.with_(date="Tue, 2 Jan 2024 03:04:05 +0000")
    with pytest.raises(NoSeries, match="twice with different content"):
        read(patch(1, 2), undated, patch(2, 2))


def test_two_copies_of_one_mail_that_differ_are_refused() -> None:
    one, two = patch(1, 2), patch(2, 2)
    other = two.with_(body=two.body.replace("+b", "+c"))
    with pytest.raises(NoSeries, match="twice with one message-id and different content"):
        read(one, two, other)
    assert len(read(one, two, two).left_out) == 1


def test_a_suggestion_under_the_subject_of_a_patch_is_none() -> None:
    """By the author, without "Re:", without a form: what stands under it is not the patch."""
    one, two = patch(1, 2), patch(2, 2)
    idea = two.with_(
        body="Or so:\n\n" + two.body.partition("\n\ndiff")[2].replace("+b", "+c"),
        message_id="idea@example.org", date="Wed, 3 Jan 2024 00:00:00 +0000",
    )  # fmt: skip
    idea = idea.with_(body=idea.body.replace("--git", "diff --git", 1))
    series = read(one, two, idea)
    assert b"+b" in series.patches[1].mail
    assert "without the form of one" in series.left_out[0].reason


def test_unnumbered_patches_of_one_thread_are_refused_or_picked() -> None:
    sent = [
        patch(n, subject=f"[PATCH] mm: change {n}", answers="1@example.org" if n > 1 else "")
        for n in (1, 2, 3)
    ]
    with pytest.raises(NoSeries, match="3 patches of one sender without numbers"):
        read(*sent)
    picked = read(*sent, pick="2@example.org")
    assert [each.subject for each in picked.patches] == ["mm: change 2"]
    assert "“mm: change 1” in the thread is another series" in picked.notes


def test_a_reply_without_its_thread_names_no_series() -> None:
    lost = Letter(
        subject="Re: [PATCH] net: x", body="No.\n", message_id="r@example.org",
        answers="lost@example.org", sender=BOB,
    )  # fmt: skip
    with pytest.raises(NoSeries, match=r"no series “r@example\.org”"):
        read(patch(1, 1), lost, pick="r@example.org")
    with pytest.raises(NoSeries, match="patch 2/2 missing"):
        read(patch(1, 2), lost)


@pytest.mark.parametrize(
    "head",
    [
        f"Added to stable:\n\nFrom {'1' * 40} Mon Sep 17 00:00:00 2001\nFrom: {BOB}\n"
        "Date: Tue, 2 Jan 2024 03:04:05 +0000\nSubject: mm: x\n\n",
        f"The patch titled\n     Subject: x\n\n-----\nFrom: {BOB}\nSubject: mm: x\n\n",
        f"It was merged:\n\nCommit-ID:     {'1' * 40}\nAuthor:        {BOB}\n\nmm: x\n\n",
    ],
)
def test_a_notice_of_somebodys_patch_is_none(head: str) -> None:
    """git am would commit it as the notifier's own."""
    sent = patch().with_(subject="mm: x was added", body=head + patch().body)
    with pytest.raises(NoSeries, match="a notice that has somebody's patch in it"):
        read(sent)


def test_the_author_of_a_stable_review_stands_under_its_preface() -> None:
    preface = "6.12-stable review patch.  If anyone objects, let me know.\n\n------------------\n\n"
    sent = patch(1, 1, sender=BOB)
    reviewed = read(sent.with_(body=f"{preface}From: {ADA}\n\n{sent.body}"))
    (only,) = reviewed.patches
    assert (only.author, only.email) == ("Ada Author", "ada@example.org")
    assert b"review patch" not in only.mail
    plain = read(sent.with_(body=preface + sent.body)).patches[0]
    assert plain.author == "Bob Reviewer"
    assert b"review patch" in plain.mail
    other = read(sent.with_(body=f"Please take this.\n\nFrom: {ADA}\n\n{sent.body}"))
    assert f"names an author further down ({ADA})" in other.problems[0]
    assert other.patches[0].author == "Bob Reviewer"


def test_somebody_elses_mail_with_a_number_of_the_series() -> None:
    other = patch(
        2, 2, words="Mine.", sender=BOB, message_id="other@example.net",
        date="Wed, 3 Jan 2024 00:00:00 +0000",
    )  # fmt: skip
    series = read(patch(1, 2), patch(2, 2), other)
    assert b"Mine." not in series.patches[1].mail
    assert "another sender" in series.left_out[0].reason


def test_unnumbered_patches_come_as_given(tmp_path: Path) -> None:
    for number in (1, 2):
        letter = patch(subject=f"[PATCH] mm: change {number}", message_id="")
        (tmp_path / f"{number}.patch").write_bytes(letter.raw())
    series = read_series(str(tmp_path), stdin=None, scope=Scope(60))
    assert [each.subject for each in series.patches] == ["mm: change 1", "mm: change 2"]
    assert "not numbered" in series.notes[0]


def test_unnumbered_mails_of_a_list_are_not_one_series() -> None:
    one, two = (
        patch(subject=f"[PATCH] mm: change {number}", message_id=f"{number}@example.org")
        for number in (1, 2)
    )
    with pytest.raises(NoSeries, match="two series"):
        read(one, two.with_(answers=""))
    picked = read(one, two.with_(answers=""), pick="https://lore.example.org/list/2@example.org/")
    assert [each.subject for each in picked.patches] == ["mm: change 2"]
    with pytest.raises(NoSeries, match="no series “mm: chance”"):
        read(one, pick="mm: chance")


@pytest.mark.parametrize("folder", ["mh", "eml"])
def test_other_folders(folder: str, tmp_path: Path) -> None:
    for number in (1, 2):
        name = f"{number}" if folder == "mh" else f"{number}.eml"
        (tmp_path / name).write_bytes(patch(number, 2).raw())
    assert len(read_series(str(tmp_path), stdin=None, scope=Scope(60)).patches) == 2


def test_a_scenarios_files_keep_their_order_and_need_no_mark(tmp_path: Path) -> None:
    for number in (1, 2):
        letter = patch(subject=f"mm: change {number}", message_id="")
        (tmp_path / f"{number}.patch").write_bytes(letter.raw())
    series = read_files([tmp_path / "2.patch", tmp_path / "1.patch"], name="own")
    assert [each.subject for each in series.patches] == ["mm: change 2", "mm: change 1"]


def test_a_cancelled_run_reads_no_further() -> None:
    scope = Scope()
    scope.cancel()
    with pytest.raises(Cancelled):
        read_series("-", stdin=mbox(patch()), scope=scope)
