"""One mail: where it starts, its headers, its encodings, its subject."""

from __future__ import annotations

import pytest

from pipeline import flowed, mail, mbox, subject
from pipeline.scissors import is_scissors

SHA = b"From " + b"0123456789" * 4 + b" Mon Sep 17 00:00:00 2001\n"
HEAD = b"From: Ada Example <ada@example.org>\nSubject: [PATCH] x\n"


def one(raw: bytes) -> mail.Mail:
    (found,) = mail.read(raw)
    return found


# --------------------------------------------------------------------------- mbox


def test_an_mbox_is_split_where_git_would_split_it() -> None:
    first = HEAD + b"\nFrom what I can tell, 10:20 is late in 2024 \n"
    parts = mbox.split(SHA + first + b"\n" + SHA + HEAD + b"\ntwo\n")
    assert len(parts) == 2
    assert b"From what I can tell" in parts[0]


def test_no_split_at_a_patch_in_a_body() -> None:
    body = b"\nHello.\n\n-- >8 --\n" + SHA + HEAD + b"\ninner\n"
    assert len(mbox.split(b"From mboxrd@z Thu Jan  1 00:00:00 1970\n" + HEAD + body)) == 1
    assert len(mbox.split(b"From ada Tue Jan  2 03:04:05 2024\n" + HEAD + body)) == 1
    assert len(mbox.split(HEAD + body)) == 1


def test_files_put_together_are_split_behind_a_whole_patch() -> None:
    diff = b"\n---\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n-- \n2.39\n\n"
    assert len(mbox.split(HEAD + diff + SHA + HEAD + diff)) == 2


def test_escaped_from_lines_come_back() -> None:
    (only,) = mbox.split(b"From mboxrd@z Thu Jan  1 00:00:00 1970\n\n>From here\n>>From there\n")
    assert only.endswith(b"\nFrom here\n>From there\n")


@pytest.mark.parametrize("blank", [b"", b"\n \n", b"\r\n"])
def test_blank_input_has_no_mails(blank: bytes) -> None:
    assert mbox.split(blank) == ()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_no_part_of_a_mail(encoding: str) -> None:
    data = (SHA + HEAD + b"\n\xc3\xa4\n").decode()
    assert mbox.split(data.encode(encoding)) == (data.encode(),)


# --------------------------------------------------------------------------- headers


@pytest.mark.parametrize(
    ("value", "name", "address"),
    [
        ("Ada Example <ada@example.org>", "Ada Example", "ada@example.org"),
        ("ada@example.org (Ada Example)", "Ada Example", "ada@example.org"),
        ('"Example, Ada" <ada@example.org>', "Example, Ada", "ada@example.org"),
        ("Example, Ada <ada@example.org>", "Example, Ada", "ada@example.org"),
        ("Ada (at work) <ada@example.org>", "Ada (at work)", "ada@example.org"),
        ("ada@example.org", "ada@example.org", "ada@example.org"),
        ("Ada Example, Jr. <ada@example.org>", "Ada Example, Jr", "ada@example.org"),
        (f"{'A' * 61} <ada@example.org>", "ada@example.org", "ada@example.org"),
        ("the department of prose", "", ""),
    ],
)
def test_authors_are_read_as_git_reads_them(value: str, name: str, address: str) -> None:
    assert mail.parse_address(value) == (name, address)


def test_encoded_headers_and_bodies_are_decoded() -> None:
    found = one(
        b"From: =?utf-8?q?J=C3=B6rg_Example?= <joerg@example.org>\n"
        b"Subject: =?utf-8?b?W1BBVENIXSBtbTogw6Q=?=\n"
        b"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\n"
        b"w6QK\n"
    )
    assert (found.author, found.subject) == ("Jörg Example", "[PATCH] mm: ä")
    assert found.parts[0].text == "ä\n"


def test_bytes_without_a_charset_are_kept() -> None:
    assert one(HEAD + b"\n\xc3\xa4\n").parts[0].text == "ä\n"
    assert one(HEAD + b"\n\xe4\n").parts[0].text.encode("utf-8", "surrogateescape") == b"\xe4\n"


@pytest.mark.parametrize("header", ["=?no-such?q?x?=", "=?utf-8?q?=ff=fe?="])
def test_headers_in_an_unknown_encoding_are_kept(header: str) -> None:
    assert one(f"Subject: {header}\n\nx\n".encode()).subject


def test_a_missing_message_id_follows_from_the_content() -> None:
    first, again = one(HEAD + b"\nx\n"), one(HEAD + b"\nx\n")
    assert first.message_id == again.message_id != one(HEAD + b"\ny\n").message_id
    assert not first.given_id


def test_only_the_crs_of_the_way_go() -> None:
    text = "diff --git a/x b/x\r\n--- a/x\r\n+++ b/x\r\n@@ -1 +1 @@\r\n-a\r\r\n+b\r\r\n"
    assert mail.uncrlf(text).endswith("\n-a\r\n+b\r\n")
    kept = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\r\n+b\r\n"
    assert mail.uncrlf(kept) == kept


# --------------------------------------------------------------------------- flowed, scissors


def test_flowed_lines_are_joined_and_unstuffed() -> None:
    assert flowed.unflow("a \nb\n  c\n-- \nd", delsp=False) == "a b\n c\n-- \nd"
    assert flowed.unflow("a \nb", delsp=True) == "ab"


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        ("-- >8 --", True),
        ("---8<--- cut here ---8<---", True),
        ("- - - - 8< - - - -", True),
        (">8", False),
        ("a -- >8 -- is the mark of scissors", False),
        ("--------", False),
    ],
)
def test_scissors_as_git_has_them(line: str, is_one: bool) -> None:
    assert is_scissors(line) is is_one


# --------------------------------------------------------------------------- subjects


@pytest.mark.parametrize(
    ("text", "version", "number", "total"),
    [
        ("[PATCH] a: b", (1, 0), 0, 0),
        ("[PATCHv3] a: b", (3, 0), 0, 0),
        ("[PATCH, v2] a: b", (2, 0), 0, 0),
        ("[PATCH bpf,v2,1/2] a: b", (2, 0), 1, 2),
        ("[net-next, v5, 01/11] a: b", (5, 0), 1, 11),
        ("[PATCH 1/2] [RFC/RFT,V2] a: b", (2, 0), 1, 2),
        ("[PATCH v02 1/3] a: b", (2, 0), 1, 3),
        ("[PATCH v4.1 4/4] a: b", (4, 1), 4, 4),
        ("[PATCH for v5.9] a: b", (1, 0), 0, 0),
        ("[PATCH v5.10 1/2] a: b", (1, 0), 1, 2),
        ("[PATCH AUTOSEL 6.17-5.4] a: b", (1, 0), 0, 0),
        ("[PATCH 6.12 196/307] a: b", (1, 0), 196, 307),
        ("[PATCH 5.10.y v2 1/2] a: b", (2, 0), 1, 2),
        ("[PATCH v2 1/3 a: b", (2, 0), 1, 3),
        ("PATCH v2 1/3] a: b", (2, 0), 1, 3),
        ("PATCH 2/3: a: b", (1, 0), 2, 3),
        ("[PATCH [v2] 1/2] a: b", (2, 0), 1, 2),
        ("[PATCH 4/3] a: b", (1, 0), 4, 3),
        ("Re: [PATCH v2 1/3] a: b", (2, 0), 1, 3),
        ("[PATCH v5.9 1/2] a: b", (1, 0), 1, 2),
        ("[PATCH v2-resend 1/3] a: b", (2, 0), 1, 3),
        ("[PATCH 1/3 -v2] a: b", (2, 0), 1, 3),
        ("[PATCH #v2] a: b", (2, 0), 0, 0),
        ("EXTERNAL: [PATCH v2 1/3] a: b", (2, 0), 1, 3),
        ("{External} [PATCH 1/3] a: b", (1, 0), 1, 3),
        ("*** SPAM *** [PATCH v2 1/3] a: b", (2, 0), 1, 3),
    ],
)
def test_prefixes(text: str, version: tuple[int, int], number: int, total: int) -> None:
    found = subject.parse(text)
    assert (found.version, found.number, found.total) == (version, number, total)
    assert found.title == "a: b"
    assert found.marked


@pytest.mark.parametrize("text", ["patch the table", "a: use 1/2 of it", "v2 of it", "[BUG] a"])
def test_titles_that_are_no_prefixes(text: str) -> None:
    found = subject.parse(text)
    assert not found.marked
    assert (found.version, found.total) == ((1, 0), 0)


@pytest.mark.parametrize(
    "text", ["Re: x", "AW: [PATCH] x", "[list] Re: [PATCH] x", "回复: x", "Vá: [PATCH] x"]
)
def test_replies(text: str) -> None:
    assert subject.parse(text).reply
    assert not subject.parse("[PATCH] Re: x").reply
