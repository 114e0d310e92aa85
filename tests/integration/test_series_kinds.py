"""Every kind of mail that people send: what comes out of it, through git am, or the refusal.

The table at the end of the module says for each kind what came out (`pytest -s` shows it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.model import ApplyFailure, KernelPlan, Role, Series, Tree, TreeSpec
from pipeline.scope import Scope
from pipeline.series import NoSeries, read_series
from pipeline.tree import apply, open_tree
from tests.conftest import QuietStep
from tests.minikernel_repo import git
from tests.unit import mails
from tests.unit.mails import ADA, BOB, Commit, Letter, mbox

ONE, TWO, THREE = range(3)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The tree, its three commits, and the mails that format-patch makes of them."""

    repo: Path
    tree: Tree
    letters: tuple[Letter, ...]
    commits: tuple[Commit, ...]

    def more(self, branch: str) -> tuple[tuple[Letter, ...], tuple[Commit, ...]]:
        revisions = f"start..{branch}"
        return mails.letters(self.repo, revisions, "-M", "--binary"), mails.commits(
            self.repo, revisions
        )

    def numbered(self, prefix: str = "PATCH", **changes: object) -> list[Letter]:
        """The three, threaded under the first."""
        found = []
        for number, each in enumerate(self.letters, 1):
            title = mails.TITLES[number - 1]
            found.append(
                each.with_(
                    subject=f"[{prefix} {number}/3] {title}",
                    message_id=f"{prefix.replace(' ', '')}-{number}@example.org",
                    answers="" if number == 1 else f"{prefix.replace(' ', '')}-1@example.org",
                    date=f"Tue, 2 Jan 2024 03:0{number}:05 +0000",
                    **changes,
                )
            )
        return found

    def single(self, subject: str = f"[PATCH] {mails.TITLES[0]}") -> Letter:
        return self.letters[ONE].with_(subject=subject, message_id="one@example.org")


@dataclass(frozen=True, kw_only=True)
class Came:
    """What came out of a kind. `told`: when it was applied."""

    commits: tuple[Commit, ...] = ()
    told: tuple[str, ...] = ()
    series: Series | None = None
    refused: NoSeries | None = None
    not_applied: ApplyFailure | None = None

    @property
    def words(self) -> str:
        if self.refused:
            return " | ".join((str(self.refused), *self.refused.problems))
        if self.not_applied:
            return f"{self.not_applied} | {'; '.join(self.series.problems if self.series else ())}"
        assert self.series
        return " | ".join((*self.series.problems, *self.series.notes, *self.told))


Check = Callable[[Bench, Came], None]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """`make`: the bytes of the mbox (or mail). `right`: asserts that what came is right."""

    make: Callable[[Bench], bytes]
    right: Check
    version: int | None = None
    pick: str | None = None


KINDS: dict[str, Kind] = {}
TABLE: dict[str, str] = {}


def kind(
    name: str, right: Check, *, version: int | None = None, pick: str | None = None
) -> Callable[[Callable[[Bench], bytes]], Callable[[Bench], bytes]]:
    def add(make: Callable[[Bench], bytes]) -> Callable[[Bench], bytes]:
        KINDS[name] = Kind(make=make, right=right, version=version, pick=pick)
        return make

    return add


# --------------------------------------------------------------------------- what is right


def whole(*words: str, version: int = 1, left: int | None = None) -> Check:
    """The three commits, and these words in what is said of them."""

    def check(bench: Bench, came: Came) -> None:
        assert came.commits == bench.commits, came.words
        assert came.commits[-1].tree == bench.commits[-1].tree
        _said(came, words, version, left)

    return check


def first(*words: str, version: int = 1, left: int | None = None, **other: str) -> Check:
    """The first commit alone, but for what `other` says of it."""

    def check(bench: Bench, came: Came) -> None:
        changes: dict[str, Any] = dict(other)
        assert came.commits == (replace(bench.commits[ONE], **changes),), came.words
        assert came.commits[0].tree == bench.commits[ONE].tree
        _said(came, words, version, left)

    return check


def branch(name: str, *words: str) -> Check:
    def check(bench: Bench, came: Came) -> None:
        wanted = mails.commits(bench.repo, f"start..{name}")
        assert came.commits == wanted, came.words
        assert came.commits[-1].tree == wanted[-1].tree
        _said(came, words, 1, None)

    return check


def _said(came: Came, words: tuple[str, ...], version: int, left: int | None) -> None:
    assert came.series
    assert came.series.version == version
    for word in words:
        assert word in came.words
    if left is not None:
        assert len(came.series.left_out) == left, came.series.left_out
    assert all(each.reason for each in came.series.left_out)


def refused(*words: str, missing: tuple[int, ...] = ()) -> Check:
    def check(bench: Bench, came: Came) -> None:
        assert bench
        assert came.refused is not None, came.words
        assert came.refused.missing == missing
        for word in words:
            assert word in came.words
        assert came.refused.left_out

    return check


# --------------------------------------------------------------------------- the series

COVER = "Three patches.\n\n a | 1 +\n 1 file changed\n"


def cover(bench: Bench, prefix: str = "PATCH", **changes: object) -> list[Letter]:
    """A cover letter and the three in answer to it."""
    head = f"{prefix.replace(' ', '')}-0@example.org"
    letter = Letter(
        subject=f"[{prefix} 0/3] mm: three", body=COVER, message_id=head,
        date="Tue, 2 Jan 2024 03:00:05 +0000",
    )  # fmt: skip
    return [letter, *(each.with_(answers=head, **changes) for each in bench.numbered(prefix))]


def reply(to: Letter, body: str, **changes: object) -> Letter:
    return Letter(
        subject=f"Re: {to.subject}", body=body, sender=BOB, answers=to.message_id,
        message_id=f"reply-{to.message_id}", date="Wed, 3 Jan 2024 08:00:00 +0000",
    ).with_(**changes)  # fmt: skip


@kind("cover letter, replies between patches", whole(left=3))
def _(bench: Bench) -> bytes:
    head, one, two, three = cover(bench)
    talk = reply(one, "> One is too few.\n\nIs it?\n")
    return mbox(head, one, talk, two, reply(head, "Looks good.\n"), three)


@kind("out of order", whole())
def _(bench: Bench) -> bytes:
    one, two, three = bench.numbered()
    return mbox(three, one, two)


@kind("out of order, dates backwards", whole())
def _(bench: Bench) -> bytes:
    one, two, three = bench.numbered()
    return mbox(one.with_(date="Fri, 5 Jan 2024 00:00:00 +0000"), three, two)


@kind("the same patch twice, same message-id", whole(left=1))
def _(bench: Bench) -> bytes:
    one, two, three = bench.numbered()
    return mbox(one, two, two, three)


@kind("the same patch resent 90 s later", whole(left=1))
def _(bench: Bench) -> bytes:
    one, two, three = bench.numbered()
    again = two.with_(message_id="again@example.org", date="Tue, 2 Jan 2024 03:03:35 +0000")
    return mbox(one, two, again, three)


@kind("a single patch resent 90 s later", first(left=1))
def _(bench: Bench) -> bytes:
    one = bench.single()
    return mbox(
        one, one.with_(message_id="again@example.org", date="Tue, 2 Jan 2024 03:05:35 +0000")
    )


@kind("one missing of three", refused("patch 2/3 missing", missing=(2,)))
def _(bench: Bench) -> bytes:
    one, _two, three = bench.numbered()
    return mbox(one, three)


@kind("a reroll of one patch only", whole("v2 is 2/3 alone", version=2, left=1))
def _(bench: Bench) -> bytes:
    one, two, three = bench.numbered()
    old = two.with_(body=two.body.replace("+ more", "+ 2 * more"))
    new = two.with_(
        subject=f"[PATCH v2 2/3] {mails.TITLES[TWO]}", message_id="new@example.org",
        answers=two.message_id,
    )  # fmt: skip
    return mbox(one, old, three, new)


@kind("a reroll as v1.1 2/3", whole("v1.1 is 2/3 alone", left=1))
def _(bench: Bench) -> bytes:
    one, two, three = bench.numbered()
    old = two.with_(body=two.body.replace("+ more", "+ 2 * more"))
    new = two.with_(
        subject=f"[PATCH v1.1 2/3] {mails.TITLES[TWO]}", message_id="new@example.org",
        answers=two.message_id,
    )  # fmt: skip
    return mbox(one, old, three, new)


def versions(bench: Bench) -> list[Letter]:
    """v1, v2 and v3 in one thread, each in answer to the one before; only v3 is right."""
    found: list[Letter] = []
    for number in (1, 2, 3):
        sent = cover(bench, f"PATCH v{number}" if number > 1 else "PATCH")
        if number < 3:
            wrong = {"body": sent[1].body.replace("return 2", f"return {number + 6}")}
            sent[1] = sent[1].with_(**wrong)
        if found:
            sent[0] = sent[0].with_(answers=found[-4].message_id)
        found += sent
    return found


@kind("v1, v2, v3 in one thread", whole("v2 is there too", version=3, left=9))
def _(bench: Bench) -> bytes:
    return mbox(*versions(bench))


def answered(bench: Bench, *, under: str) -> bytes:
    """v2 without a cover letter, in answer to that of v1 or to each patch of v1."""
    old = cover(bench)
    old[1] = old[1].with_(body=old[1].body.replace("return 2", "return 7"))
    new = bench.numbered("PATCH v2")
    if under == "first":
        new[0] = new[0].with_(answers=old[0].message_id)
    else:
        new = [
            each.with_(answers=old[number if under == "each" else 0].message_id)
            for number, each in enumerate(new, 1)
        ]
    return mbox(*old, *new)


for _under in ("first", "cover", "each"):
    KINDS[f"v2 in answer to v1 ({_under}), no cover of its own"] = Kind(
        make=lambda bench, under=_under: answered(bench, under=under),  # type: ignore[misc]
        right=whole("v1 is there too", version=2, left=4),
    )


@kind("v2 in answer to v1's cover, one missing: v1", whole("v2 is newer and not complete"))
def _(bench: Bench) -> bytes:
    old, new = cover(bench), bench.numbered("PATCH v2")
    return mbox(*old, *(each.with_(answers=old[0].message_id) for each in (new[0], new[2])))


@kind("v3 not complete: v2", whole("v3 is newer and not complete (patch 2/3 missing)", version=2))
def _(bench: Bench) -> bytes:
    sent = versions(bench)
    sent[5] = sent[9].with_(
        subject=sent[5].subject, message_id=sent[5].message_id, answers=sent[5].answers
    )
    return mbox(*sent[:10], sent[11])


@kind("--series-version 3 of v3, v4", whole("v4 is newer", version=3), version=3)
def _(bench: Bench) -> bytes:
    newer = [
        each.with_(body=each.body.replace("return 2", "return 9"))
        for each in cover(bench, "PATCH v4")
    ]
    return mbox(*versions(bench), *newer)


@kind("--series-version 5 of v1, v2, v3", refused("no v5", "v1, v2, v3"), version=5)
def _(bench: Bench) -> bytes:
    return mbox(*versions(bench))


@kind("a cover that says v3 over patches that say v2", whole("the cover letter says v3", version=2))
def _(bench: Bench) -> bytes:
    sent = cover(bench, "PATCH v2")
    return mbox(sent[0].with_(subject="[PATCH v3 0/3] mm: three"), *sent[1:])


@kind("patches without a version under a cover that says v3", whole(version=3))
def _(bench: Bench) -> bytes:
    sent = cover(bench)
    return mbox(sent[0].with_(subject="[PATCH v3 0/3] mm: three"), *sent[1:])


@kind("4/3 alone", refused("1/3–3/3 missing", missing=(1, 2, 3)))
def _(bench: Bench) -> bytes:
    return mbox(bench.single(f"[PATCH 4/3] {mails.TITLES[0]}"))


@kind("one patch more than the subjects count", whole("a patch 3/2: it is taken as the last"))
def _(bench: Bench) -> bytes:
    sent = bench.numbered()
    return mbox(*(each.with_(subject=each.subject.replace("/3]", "/2]")) for each in sent))


@kind("two series in one mbox", refused("two series"))
def _(bench: Bench) -> bytes:
    return mbox(*cover(bench), *_other(bench))


def _other(bench: Bench) -> list[Letter]:
    return [
        each.with_(
            subject=each.subject.replace("mm:", "net:").replace("doc:", "net:"),
            message_id=f"x{each.message_id}", answers=f"x{each.answers}" if each.answers else "",
            sender="Eve Else <eve@example.org>",
        )
        for each in cover(bench)
    ]  # fmt: skip


@kind("two series, one picked by message-id", whole(left=1), pick="<PATCH-2@example.org>")
def _(bench: Bench) -> bytes:
    return mbox(*_other(bench), *cover(bench))


@kind("two series, one picked by subject", whole(left=1), pick="mm: three")
def _(bench: Bench) -> bytes:
    return mbox(*_other(bench), *cover(bench))


@kind("somebody else's patch in the thread", whole(left=2))
def _(bench: Bench) -> bytes:
    sent = cover(bench)
    other = bench.single("[PATCH] mm: a: something else").with_(
        sender=BOB, answers=sent[1].message_id
    )
    return mbox(*sent, other)


# --------------------------------------------------------------------------- subjects

SUBJECTS = {
    "[PATCHv3]": ("[PATCHv3] {}", 3),
    "[PATCH, v2]": ("[PATCH, v2] {}", 2),
    "v02": ("[PATCH v02] {}", 2),
    "[PATCH for v5.9]": ("[PATCH for v5.9] {}", 1),
    "AUTOSEL 6.17-5.4": ("[PATCH AUTOSEL 6.17-5.4] {}", 1),
    "a missing bracket": ("[PATCH v2 1/1 {}", 2),
    "a missing bracket before": ("PATCH v2] {}", 2),
    "[RFC/RFT,V2] in a second bracket": ("[PATCH] [RFC/RFT,V2] {}", 2),
    "a list's bracket": ("[linux-mm] [PATCH v2 1/1] {}", 2),
    "a gateway's word": ("EXTERNAL: [PATCH v2] {}", 2),
    "folded and encoded": ("=?utf-8?q?=5BPATCH_v2=5D?=\n {}", 2),
}
for _name, (_subject, _version) in SUBJECTS.items():
    KINDS[f"subject: {_name}"] = Kind(
        make=lambda bench, subject=_subject: mbox(  # type: ignore[misc]
            bench.single(subject.format(mails.TITLES[0]))
        ),
        right=first(version=_version),
    )
for _name, _subject, _version in (
    ("[PATCH bpf,v2,1/3]", "[PATCH bpf,v2,{n}/3] {t}", 2),
    ("[net-next, v5, 01/03]", "[net-next, v5, 0{n}/03] {t}", 5),
    ("[PATCH v4.1 3/3]", "[PATCH v4.1 {n}/3] {t}", 4),
    ("[PATCH 6.12 1/3]", "[PATCH 6.12 {n}/3] {t}", 1),
    ("[PATCH 1/3] [RFC/RFT,V2]", "[PATCH {n}/3] [RFC/RFT,V2] {t}", 2),
):
    KINDS[f"subject: {_name}"] = Kind(
        make=lambda bench, subject=_subject: mbox(  # type: ignore[misc]
            *(
                each.with_(subject=subject.format(n=n, t=mails.TITLES[n - 1]))
                for n, each in enumerate(bench.numbered(), 1)
            )
        ),
        right=whole(version=_version),
    )


OTHERS = (*range(1, 196), *range(197, 308))


@kind("subject: [PATCH 6.12 196/307]", refused("1/307–195/307", missing=OTHERS))
def _(bench: Bench) -> bytes:
    return mbox(bench.single(f"[PATCH 6.12 196/307] {mails.TITLES[0]}"))


@kind("patches of a thread without numbers", refused("3 patches of one sender without numbers"))
def _(bench: Bench) -> bytes:
    return mbox(
        *(each.with_(subject=each.subject.replace(f" {n}/3", "")) for n, each in
          enumerate(bench.numbered(), 1))
    )  # fmt: skip


# --------------------------------------------------------------------------- bodies


@kind("UTF-16 with a byte order mark (PowerShell)", whole())
def _(bench: Bench) -> bytes:
    return mbox(*bench.numbered()).decode().replace("\n", "\r\n").encode("utf-16")


@kind("a review of a stable kernel", first())
def _(bench: Bench) -> bytes:
    one = bench.single(f"[PATCH 6.12 1/1] {mails.TITLES[0]}")
    preface = "6.12-stable review patch.  Say if you object.\n\n------------------\n\n"
    return mbox(one.with_(sender=BOB, body=f"{preface}From: {ADA}\n\n{one.body}"))


@kind("the notice of a patch that was taken", refused("no patch", "a notice"))
def _(bench: Bench) -> bytes:
    one = bench.single()
    inner = f"From {'1' * 40} Mon Sep 17 00:00:00 2001\n{one.text()}"
    return mbox(Letter(subject="mm: a was added", body=f"Thanks.\n\n{inner}", message_id="n@x.y"))


@kind("quoted-printable", whole())
def _(bench: Bench) -> bytes:
    return mbox(*(mails.encoded(each, "quoted-printable") for each in bench.numbered()))


@kind("base64", whole())
def _(bench: Bench) -> bytes:
    return mbox(*(mails.encoded(each, "base64") for each in bench.numbered()))


@kind("base64 in another charset with CRLF", whole("windows-1252"))
def _(bench: Bench) -> bytes:
    return mbox(
        *(mails.encoded(each, "base64", "windows-1252", crlf=True) for each in bench.numbered())
    )


@kind("base64 with a list's footer behind it", whole())
def _(bench: Bench) -> bytes:
    sent = [mails.encoded(each, "base64") for each in bench.numbered()]
    return mbox(*(each.with_(body=f"{each.body}____\nlist mailing list\n") for each in sent))


@kind("CRLF throughout", whole())
def _(bench: Bench) -> bytes:
    return mbox(*bench.numbered()).replace(b"\n", b"\r\n")


@kind("format=flowed, harmless", whole())
def _(bench: Bench) -> bytes:
    return mbox(*(mails.flowed(each) for each in bench.numbered()))


@kind("format=flowed, lines broken softly", whole())
def _(bench: Bench) -> bytes:
    return mbox(*(mails.flowed(each, width=20) for each in bench.numbered()))


@kind("format=flowed that is damaged", refused("damaged", "format=flowed", "git send-email"))
def _(bench: Bench) -> bytes:
    one, two, three = (mails.flowed(each) for each in bench.numbered())
    return mbox(one, two.with_(body=two.body.replace("objects +", "objects +\n")), three)


@kind("tabs lost", lambda _, came: _not_applied(came, "whitespace damage"))
def _(bench: Bench) -> bytes:
    one = bench.single()
    return mbox(one.with_(body=one.body.replace("\t", "        ")))


def _not_applied(came: Came, *words: str) -> None:
    assert came.not_applied
    for word in words:
        assert word in came.words


@kind("a long line wrapped", refused("whitespace damage", "wrapped", "git send-email"))
def _(bench: Bench) -> bytes:
    one = bench.single()
    return mbox(one.with_(body=one.body.replace("int a_last(void)", "int a_last(\nvoid)")))


@kind("the last line of a new file wrapped", refused("wrapped", "git send-email"))
def _(bench: Bench) -> bytes:
    three = bench.single(f"[PATCH] {mails.TITLES[THREE]}").with_(body=bench.letters[THREE].body)
    return mbox(three.with_(body=three.body.replace("+It says ", "+It says\n")))


@kind("spaces before the lines lost", refused("whitespace damage"))
def _(bench: Bench) -> bytes:
    one = bench.single()
    return mbox(one.with_(body=one.body.replace("\n \t", "\n\t").replace("\n {", "\n{")))


@kind("cut off in the middle", refused("cut off"))
def _(bench: Bench) -> bytes:
    one = bench.single()
    return mbox(one.with_(body=one.body[: one.body.index("+\treturn 2")]))


PLAIN = "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit"
HTML = "Content-Type: text/html; charset=utf-8"
ATTACHED = (
    "Content-Type: text/x-patch; charset=utf-8\n"
    'Content-Disposition: attachment; filename="0001-mm.patch"'
)


@kind("multipart, the patch attached as a diff", first())
def _(bench: Bench) -> bytes:
    one = bench.single()
    words, _, diff = one.body.partition("---\n")
    return mbox(mails.multipart(one, (PLAIN, words), (ATTACHED, diff)))


@kind("multipart, the patch attached as format-patch wrote it", first())
def _(bench: Bench) -> bytes:
    one = bench.single()
    outer = one.with_(subject="my patch", sender="Ada at home <home@example.org>")
    inner = one.with_(message_id="").text()
    return mbox(mails.multipart(outer, (PLAIN, "Hello, see there."), (ATTACHED, inner)))


@kind("multipart, three patches attached", whole())
def _(bench: Bench) -> bytes:
    outer = Letter(subject="my patches", body="", message_id="outer@example.org")
    inner = [(ATTACHED, each.with_(message_id="", answers="").text()) for each in bench.numbered()]
    return mbox(mails.multipart(outer, (PLAIN, "Hello, see there."), *inner))


@kind("multipart with the same patch as text, HTML and attachment", first())
def _(bench: Bench) -> bytes:
    one = bench.single()
    html = f"<html><pre>{one.body}</pre></html>"
    return mbox(mails.multipart(one, (PLAIN, one.body), (HTML, html), (ATTACHED, one.body)))


@kind("the text wrapped, the attachment whole", first("from the attachment"))
def _(bench: Bench) -> bytes:
    one = bench.single()
    broken = one.body.replace("int a_last(void)", "int a_last(\nvoid)")
    diff = one.body.partition("---\n")[2]
    return mbox(mails.multipart(one, (PLAIN, broken), (ATTACHED, diff)))


def _attachment(name: str) -> str:
    return ATTACHED.replace("0001-mm", name)


@kind("multipart, two diffs attached", refused("several diffs are attached"))
def _(bench: Bench) -> bytes:
    one = bench.single()
    words, _, diff = one.body.partition("---\n")
    other = bench.letters[TWO].body.partition("---\n")[2]
    parts = ((_attachment("a"), diff), (_attachment("b"), other))
    return mbox(mails.multipart(one, (PLAIN, words), *parts))


@kind("a patch with another diff attached", first("another diff in the mail"))
def _(bench: Bench) -> bytes:
    one, other = bench.single(), bench.letters[TWO].body.partition("---\n")[2]
    return mbox(mails.multipart(one, (PLAIN, one.body), (_attachment("b"), other)))


@kind("HTML only", refused("HTML"))
def _(bench: Bench) -> bytes:
    one = bench.single()
    return mbox(mails.typed(one.with_(body=f"<pre>{one.body}</pre>\n"), "text/html; charset=utf-8"))


@kind("PGP-signed, as MIME", first())
def _(bench: Bench) -> bytes:
    one = bench.single()
    signature = "-----BEGIN PGP SIGNATURE-----\n\niQ\n-----END PGP SIGNATURE-----"
    return mbox(
        mails.multipart(
            one, (PLAIN, one.body), ("Content-Type: application/pgp-signature", signature),
            kind="signed",
        )
    )  # fmt: skip


@kind("PGP-signed, inline", first())
def _(bench: Bench) -> bytes:
    one = bench.single()
    escaped = "".join(
        f"- {line}" if line.startswith("-") else line for line in one.body.splitlines(keepends=True)
    )
    body = (
        f"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n{escaped}"
        "-----BEGIN PGP SIGNATURE-----\n\niQ\n-----END PGP SIGNATURE-----\n"
    )
    return mbox(one.with_(body=body))


FOOTER = "_______________________________________________\nlist mailing list\nlist@example.org\n"


@kind("a mailing list's footer", whole())
def _(bench: Bench) -> bytes:
    return mbox(*(each.with_(body=f"{each.body}{FOOTER}") for each in bench.numbered()))


@kind("a footer right behind the diff", whole())
def _(bench: Bench) -> bytes:
    return mbox(
        *(each.with_(body=f"{each.body.rpartition('-- ')[0]}{FOOTER}") for each in bench.numbered())
    )


@kind("a footer as a part", first())
def _(bench: Bench) -> bytes:
    one = bench.single()
    return mbox(mails.multipart(one, (PLAIN, one.body), (PLAIN, FOOTER)))


@kind("DMARC: the author in the body", first())
def _(bench: Bench) -> bytes:
    one = bench.single()
    return mbox(
        one.with_(
            sender="Ada Author via list <list@example.org>", body=f"From: {ADA}\n\n{one.body}"
        )
    )


@kind("DMARC: the author in Reply-To", first("the list put its own address"))
def _(bench: Bench) -> bytes:
    one = bench.single()
    return mbox(
        one.with_(sender="Ada Author via list <list@example.org>", headers={"Reply-To": ADA})
    )


@kind("an author who needs quoting", first(author="Ada (at) X. Author, Jr", email="a@example.org"))
def _(bench: Bench) -> bytes:
    return mbox(bench.single().with_(sender='"Ada (at) X. Author, Jr." <a@example.org>'))


# --------------------------------------------------------------------------- scissors

SAID = "Bob Reviewer wrote:\n> It oopses here.\n\nThis should help.\n\n-- >8 --\n"


def answer(body: str) -> bytes:
    bug = Letter(
        subject="mm: a oopses", body="It does.\n", sender=BOB, message_id="bug@example.net"
    )
    return mbox(bug, reply(bug, body, sender="Ada at home <home@example.org>"))


@kind("scissors in a reply, headers in the body", first(left=1))
def _(bench: Bench) -> bytes:
    one = bench.letters[ONE]
    return answer(f"{SAID}From: {ADA}\nSubject: [PATCH] {mails.TITLES[0]}\n\n{one.body}")


@kind("scissors, then a bare From line", first(left=1))
def _(bench: Bench) -> bytes:
    one = bench.letters[ONE].with_(subject=f"[PATCH] {mails.TITLES[ONE]}")
    sha = "0123456789" * 4
    return answer(f"{SAID}From {sha} Mon Sep 17 00:00:00 2001\n{one.text()}")


@kind("scissors, then the output of git show", first(left=1))
def _(bench: Bench) -> bytes:
    return answer(SAID + git(bench.repo, "show", "topic~2") + "\n")


@kind("scissors in a patch of its own", first("above the scissors"))
def _(bench: Bench) -> bytes:
    one = bench.single()
    return mbox(one.with_(body=f"Hello, as promised.\n\n---8<--- cut ---8<---\n\n{one.body}"))


@kind("the output of git show as a file", first())
def _(bench: Bench) -> bytes:
    return f"{git(bench.repo, 'show', 'topic~2')}\n".encode()


@kind("scissors over a bare diff in a reply", refused("no patch"))
def _(bench: Bench) -> bytes:
    return answer(SAID + bench.letters[ONE].body.partition("---\n")[2])


# --------------------------------------------------------------------------- no patches


@kind("a review that quotes a diff", whole(left=2))
def _(bench: Bench) -> bytes:
    sent = cover(bench)
    quoted = "".join(f"> {line}" for line in sent[1].body.splitlines(keepends=True))
    return mbox(*sent, reply(sent[1], f"Ada Author wrote:\n{quoted}\nHm.\n"))


@kind("“does the diff below fix it?”", refused("no patch"))
def _(bench: Bench) -> bytes:
    diff = bench.letters[ONE].body.partition("---\n")[2]
    return answer(f"Bob Reviewer wrote:\n> It oopses.\n\nDoes the diff below fix it?\n\n{diff}")


@kind("… in a reply to a series", whole(left=2))
def _(bench: Bench) -> bytes:
    sent = cover(bench)
    diff = bench.letters[ONE].body.partition("---\n")[2].replace("return 2", "return 3")
    return mbox(*sent, reply(sent[1], f"Does the diff below fix it?\n\n{diff}"))


@kind("a suggestion, attributed with From:", whole(left=2))
def _(bench: Bench) -> bytes:
    sent = cover(bench)
    diff = bench.letters[ONE].body.partition("---\n")[2].replace("return 2", "return 3")
    body = f"From: {ADA}\nSent: Tuesday\nSubject: {sent[1].subject}\n\n> it\n\nRather:\n\n{diff}"
    return mbox(*sent, reply(sent[1], body, subject=sent[1].subject))


@kind("a suggestion, attributed with From: … wrote:, no Re:", whole(left=2))
def _(bench: Bench) -> bytes:
    sent = cover(bench)
    diff = bench.letters[ONE].body.partition("---\n")[2].replace("return 2", "return 3")
    body = f"From: {ADA} wrote:\n> it\n\nRather:\n\n{diff}"
    return mbox(*sent, reply(sent[1], body, subject=sent[1].subject))


@kind("a bug report with a diff", refused("no patch"))
def _(bench: Bench) -> bytes:
    diff = bench.letters[ONE].body.partition("---\n")[2]
    return mbox(
        Letter(
            subject="[BUG] mm: a oopses", body=f"With this it goes:\n\n{diff}", message_id="b@x.y"
        )
    )


@kind("a bug report with a diff, no tag", refused("no patch"))
def _(bench: Bench) -> bytes:
    diff = bench.letters[ONE].body.partition("---\n")[2]
    return mbox(Letter(subject="mm: a oopses", body=f"So it goes:\n\n{diff}", message_id="b@x.y"))


# --------------------------------------------------------------------------- quoted diffs

QUOTED = """\
diff --git a/mm/b.c b/mm/b.c
--- a/mm/b.c
+++ b/mm/b.c
@@ -10,5 +10,5 @@ int b_order(int objects)

 int b_last(void)
 {
-\treturn 1;
+\treturn 77;
 }
"""


def _one_file(bench: Bench, came: Came) -> None:
    (only,) = came.commits
    assert only.files == ("mm/a.c",), came.words
    assert only.tree == bench.commits[ONE].tree
    assert "It broke with:" in only.body
    assert "Signed-off-by" in only.body


@kind("a diff quoted in the message", _one_file)
def _(bench: Bench) -> bytes:
    one = bench.single()
    return mbox(one.with_(body=f"It broke with:\n\n{QUOTED}\nand so on.\n\n{one.body}"))


@kind("half a diff quoted in the message", _one_file)
def _(bench: Bench) -> bytes:
    one = bench.single()
    half = "diff --git a/mm/b.c b/mm/b.c\n--- a/mm/b.c\n+++ b/mm/b.c\n"
    return mbox(one.with_(body=f"It broke with:\n\n{half}\n--- old\n+++ new\n\n{one.body}"))


@kind("a diff quoted under the ---", first())
def _(bench: Bench) -> bytes:
    one = bench.single()
    return mbox(one.with_(body=one.body.replace("---\n", f"---\nv1 had:\n\n{QUOTED}\n", 1)))


@kind("a diff quoted under the ---, no diffstat", refused("cannot be told"))
def _(bench: Bench) -> bytes:
    one = bench.single()
    words, _, rest = one.body.partition("---\n")
    diff = rest[rest.index("diff --git") :]
    return mbox(one.with_(body=f"{words}---\nv1 had:\n\n{QUOTED}\n---\n{diff}"))


@kind("a diff quoted in the cover letter", whole(left=1))
def _(bench: Bench) -> bytes:
    sent = cover(bench)
    return mbox(sent[0].with_(body=f"Instead of\n\n{QUOTED}\nthis.\n"), *sent[1:])


# --------------------------------------------------------------------------- what a patch does


def _branch(bench: Bench, name: str) -> bytes:
    letters, _ = bench.more(name)
    return mbox(*letters)


for _branch_name in ("renames", "mode", "empty", "binary", "no-newline", "names", "crlf", "gone"):
    KINDS[f"patch: {_branch_name}"] = Kind(
        make=lambda bench, name=_branch_name: _branch(bench, name),  # type: ignore[misc]
        right=branch(_branch_name),
    )


@kind("patch: paths without a/ and b/", first("--no-prefix"))
def _(bench: Bench) -> bytes:
    (letter,) = mails.letters(bench.repo, "start..topic~2", "--no-prefix")
    return mbox(letter)


@kind("a diff that was edited by hand", lambda _, came: _applied(came, "index line names"))
def _(bench: Bench) -> bytes:
    one = bench.single()
    return mbox(one.with_(body=one.body.replace("+\treturn 2", "+\treturn 3")))


def _applied(came: Came, *words: str) -> None:
    assert len(came.commits) == 1
    for word in words:
        assert word in came.words


@kind("a NUL in the message", first("NUL byte"))
def _(bench: Bench) -> bytes:
    one = bench.single()
    return mbox(one.with_(body=one.body.replace("too few", "too\0 few")))


@kind("a NUL in the diff", refused("NUL byte"))
def _(bench: Bench) -> bytes:
    one = bench.single()
    return mbox(one.with_(body=one.body.replace("return 2", "return\0 2")))


@kind("a lost +++ line", first("+++ line"))
def _(bench: Bench) -> bytes:
    one = bench.single()
    return mbox(one.with_(body=one.body.replace("+++ b/mm/a.c\n", "")))


@kind("a whitespace-damaged hunk", refused("whitespace damage", "git send-email"))
def _(bench: Bench) -> bytes:
    one = bench.single()
    return mbox(one.with_(body=one.body.replace("\n {\n", "\n{\n")))


@kind("a binary file without its content", refused("content of the binary file"))
def _(bench: Bench) -> bytes:
    (letter,) = mails.letters(bench.repo, "start..binary", "--no-binary")
    return mbox(letter)


# --------------------------------------------------------------------------- running them


def _make_branches(repo: Path) -> None:
    """One branch for each thing that a patch may do."""

    def branch_of(name: str, title: str, change: Callable[[], object]) -> None:
        git(repo, "checkout", "-q", "-B", name, "start")
        change()
        git(repo, "add", "-A", "-f")
        git(repo, "commit", "-q", "-m", f"{title}\n\nSigned-off-by: {ADA}")

    tools = repo / "tools"
    branch_of("renames", "tools: rename", lambda: git(repo, "mv", "tools/run.sh", "tools/go.sh"))
    branch_of("mode", "tools: run", lambda: (tools / "run.sh").chmod(0o755))
    branch_of("empty", "tools: nothing", lambda: (tools / "empty").write_text(""))
    branch_of("binary", "tools: data", lambda: (tools / "data.bin").write_bytes(bytes(500)))
    branch_of("no-newline", "tools: end", lambda: (tools / "bare.txt").write_text("one\ntwo\nend"))
    branch_of("gone", "tools: away", (tools / "crlf.txt").unlink)
    branch_of(
        "crlf",
        "tools: lines",
        lambda: (tools / "crlf.txt").write_bytes(b"one\r\nTWO\r\nthree\r\nfour\r\n"),
    )

    def names() -> None:
        (tools / "with space.txt").write_text("one\nTWO\nthree\n")
        (tools / "ä ö.txt").write_text("neu\n")
        (tools / "empty ü").write_text("")

    branch_of("names", "tools: names", names)
    git(repo, "checkout", "-q", "topic")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    root = tmp_path_factory.mktemp("kinds")
    repo = mails.make_tree(root / "linux")
    _make_branches(repo)
    tree = open_tree(
        TreeSpec(name=str(repo), base="start"), cache=root / "cache", scope=Scope(60),
        step=QuietStep(),
    )  # fmt: skip
    return Bench(
        repo=repo,
        tree=tree,
        letters=mails.letters(repo),
        commits=mails.commits(repo, "start..topic"),
    )


def came_out(bench: Bench, source: bytes, folder: Path, each: Kind) -> Came:
    """Read it and apply it with git am."""
    try:
        series = read_series(
            "-", stdin=source, scope=Scope(60), version=each.version, pick=each.pick
        )
    except NoSeries as error:
        return Came(refused=error)
    plan = KernelPlan(name="fix", role=Role.PATCHED, on="base", series=series)
    done = apply(bench.tree, plan, on=bench.tree.base, log=folder / "log", scope=Scope(60))
    if isinstance(done, ApplyFailure):
        return Came(series=series, not_applied=done)
    found = mails.commits(bench.tree.repository, f"{bench.tree.base}..{done.commit}")
    promised = [(each.author, each.email, each.subject) for each in series.patches]
    assert promised == [(each.author, each.email, each.subject) for each in found]
    return Came(commits=found, series=series, told=done.problems)


@pytest.mark.parametrize("name", KINDS)
def test_a_kind(name: str, bench: Bench, tmp_path: Path) -> None:
    came = came_out(bench, KINDS[name].make(bench), tmp_path, KINDS[name])
    TABLE[name] = _row(came)
    KINDS[name].right(bench, came)


def _row(came: Came) -> str:
    if came.refused:
        return f"refused: {came.refused.message}"
    if came.not_applied:
        return f"does not apply; {came.words}"
    assert came.series
    count = f"v{came.series.version}, {len(came.commits)} commits"
    left = f", {len(came.series.left_out)} left out" if came.series.left_out else ""
    return f"{count}{left}{f'; {came.words}' if came.words else ''}"


@pytest.fixture(scope="module", autouse=True)
def _table(request: pytest.FixtureRequest) -> Iterator[None]:
    """Print for each kind what came out of it."""
    yield
    capture = request.config.pluginmanager.getplugin("capturemanager")
    lines = [f"{name:<52} {' '.join(row.split())[:120]}" for name, row in TABLE.items()]
    with capture.global_and_fixture_disabled():
        print("", "kind → what came out", *lines, sep="\n")
