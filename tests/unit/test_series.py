"""Mails told apart, without b4."""

from __future__ import annotations

import pytest

from pipeline.errors import UserError
from pipeline.series import as_mail, changed_files, check_complete, split

DIFF = b"---\ndiff --git a/mm/slub.c b/mm/slub.c\n--- a/mm/slub.c\n+++ b/mm/slub.c\n@@ -1 +1 @@\n"
SEPARATOR = b"From 0123456789abcdef Mon Sep 17 00:00:00 2001\n"


def mail(subject: str, body: bytes = DIFF, extra: str = "") -> bytes:
    head = f"From: Ada Example <ada@example.org>\nSubject: {subject}\n{extra}\n"
    return head.encode() + body


def test_an_mbox_is_split_where_git_would_split_it() -> None:
    one = mail("[PATCH 1/2] one", b"From what I can tell, 10:20 is late.\n" + DIFF)
    two = mail("[PATCH 2/2] two")
    parts = split(SEPARATOR + one + b"\n" + SEPARATOR + two)
    assert len(parts) == 2
    assert b"From what I can tell" in parts[0]
    assert as_mail(parts[1]).subject == "two"


@pytest.mark.parametrize("blank", [b"", b"\n \n", b"\r\n"])
def test_blank_input_has_no_mails(blank: bytes) -> None:
    assert split(blank) == ()


def test_crlf_mails_are_read() -> None:
    (raw,) = split(mail("[PATCH] x").replace(b"\n", b"\r\n"))
    assert as_mail(raw).is_patch


@pytest.mark.parametrize(
    ("subject", "version", "number", "total"),
    [
        ("[PATCH] a", 1, 0, 0),
        ("[PATCH v3 2/10] a", 3, 2, 10),
        ("[RFC PATCH net-next V2 01/04] a", 2, 1, 4),
        ("[PATCH 6.12.y 1/2] a", 1, 1, 2),
        ("a: use 1/2 of it", 1, 0, 0),
    ],
)
def test_subjects_are_read(subject: str, version: int, number: int, total: int) -> None:
    read = as_mail(mail(subject))
    assert (read.version, read.number, read.total) == (version, number, total)
    assert read.subject.startswith("a")


def test_replies_and_covers_are_no_patches() -> None:
    assert not as_mail(mail("Re: [PATCH 1/2] a")).is_patch
    cover = as_mail(mail("[PATCH 0/2] a", b"words\n"))
    assert cover.is_cover
    assert not cover.is_patch


def test_a_missing_message_id_and_date_follow_from_the_content() -> None:
    first, again = as_mail(mail("[PATCH] a")), as_mail(mail("[PATCH] a"))
    assert first.message_id == again.message_id != as_mail(mail("[PATCH] b")).message_id
    assert b"\nDate: Sat, 01 Jan 2000" in first.raw
    dated = as_mail(mail("[PATCH] a", extra="Date: Mon, 3 Feb 2025 10:00:00 +0100\n"))
    assert dated.raw.count(b"Date:") == 1


def test_encoded_headers_and_bodies_are_decoded() -> None:
    raw = (
        b"From: =?utf-8?q?J=C3=B6rg_Example?= <joerg@example.org>\n"
        b"Subject: =?utf-8?b?W1BBVENIXSBtbTogw6Q=?=\n"
        b"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\n"
        b"ZGlmZiAtLWdpdCBhL21tL3guYyBiL21tL3guYwo=\n"
    )
    read = as_mail(raw)
    assert (read.author, read.subject, read.files) == ("Jörg Example", "mm: ä", ("mm/x.c",))


@pytest.mark.parametrize("header", ["=?no-such?q?x?=", "=?utf-8?q?=ff=fe?="])
def test_headers_in_an_unknown_encoding_are_kept(header: str) -> None:
    assert as_mail(mail(header)).subject


def test_changed_files_come_once_and_in_order() -> None:
    text = "diff --git a/b.c b/b.c\ndiff --git a/a b.c b/a b.c\ndiff --git a/b.c b/b.c\n"
    assert changed_files(text) == ("b.c", "a b.c")
    assert changed_files("--- a/x.c\n+++ b/x.c\n@@\n") == ("x.c",)


def test_missing_patches_are_named() -> None:
    mails = [as_mail(mail(f"[PATCH {n}/4] a")) for n in (1, 3)]
    with pytest.raises(UserError, match="patches 2/4, 4/4 missing"):
        check_complete("my.mbox", mails)
    check_complete("my.mbox", [as_mail(mail("[PATCH] a"))])
