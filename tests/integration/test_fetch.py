"""Threads from a real public-inbox server on loopback, through the real b4."""

from __future__ import annotations

import json
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import fetch, seriesverb
from pipeline.errors import InfraError, UserError
from pipeline.intake import Desk, Request
from pipeline.model import Role
from pipeline.scope import Scope
from tests.minikernel_repo import TAG, change, commit, git, make_repository
from tests.publicinbox import ADDRESS, serving

pytestmark = pytest.mark.skipif(
    not shutil.which("public-inbox-httpd"), reason="public-inbox is not there"
)
REPLY = """From: {name} <{address}>
To: list@example.org
Subject: Re: {subject}
Message-ID: <{id}@example.org>
In-Reply-To: <{to}>
References: <{to}>
Date: Tue, 4 Feb 2025 1{n}:00:00 +0000

> @@ -1,3 +1,3 @@
> -	old line
> +	new line

Looks right to me.

{trailer}
"""


def ids(mails: list[bytes]) -> list[str]:
    return [
        line.split(b"<")[1].split(b">")[0].decode()
        for mail in mails
        for line in mail.split(b"\n\n")[0].splitlines()
        if line.lower().startswith(b"message-id:")
    ]


def sent(repo: Path, folder: Path, version: int, to: str = "") -> list[bytes]:
    """The topic branch as `git format-patch` would send it, threaded below `to`."""
    threading = [f"--in-reply-to={to}"] if to else []
    out = git(
        repo, "format-patch", "--thread=shallow", "--cover-letter", f"-v{version}",
        f"--to={ADDRESS}", "--base", TAG, "-o", str(folder / f"v{version}"), *threading,
        f"{TAG}..topic",
    )  # fmt: skip
    return [Path(line).read_bytes() for line in out.splitlines()]


@pytest.fixture(scope="module")
def thread(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str, list[str]]]:
    """A repository; the server with two versions of its topic and reviews; the message-ids of
    the first version and then of the second."""
    folder = tmp_path_factory.mktemp("thread")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
        repo = make_repository(folder / "linux")
        git(repo, "checkout", "-q", "-b", "topic")
        change(repo, order=3)
        (repo / "README").write_text("two\n")
        commit(repo, "README: say two")
        first = sent(repo, folder, 1)
        one = ids(first)
        (repo / "README").write_text("two, again\n")
        git(repo, "add", "-A")
        git(repo, "commit", "-q", "--amend", "-m", "README: say two again")
        time.sleep(1.1)  # git makes message-ids of commits and the second
        second = sent(repo, folder, 2, to=one[0])
        two = ids(second)
        git(repo, "checkout", "-q", "main")
        replies = [
            REPLY.format(
                name="Rita Review", address="rita@example.org", subject="[PATCH 1/2] mm", id="r1",
                to=one[1], n=1, trailer="Acked-by: Rita Review <rita@example.org>",
            ),
            REPLY.format(
                name="Rita Review", address="rita@example.org", subject="[PATCH v2 1/2] mm",
                id="r2", to=two[1], n=2, trailer="Reviewed-by: Rita Review <rita@example.org>",
            ),
        ]  # fmt: skip
        mails = [*first, replies[0].encode(), *second, replies[1].encode()]
        server = folder / "server"
        server.mkdir()
        with serving(server, mails) as address:
            yield repo, address, [*one, *two]


def test_the_newest_version_of_a_thread(thread: tuple[Path, str, list[str]], desk: Desk) -> None:
    repo, lore, known = thread
    request = Request(sources=(known[1],), tree=str(repo), lore=lore)
    text, code = seriesverb.show(request, desk, as_json=True)
    found = json.loads(text)
    assert code == 0, text
    assert (found["version"], found["applies"], found["missing"]) == (2, True, [])
    assert [patch["message_id"] for patch in found["patches"]] == known[4:]
    assert [each["subject"] for each in found["commits"]] == [
        "mm: slub: set order 3", "README: say two again",
    ]  # fmt: skip
    assert [each["files"] for each in found["commits"]] == [["mm/slub.c"], ["README"]]
    assert (found["base"], found["base_rule"]) == (git(repo, "rev-parse", TAG), "base-commit")
    left = {each["message_id"]: each["reason"] for each in found["left_out"]}
    assert {"r1@example.org", "r2@example.org", known[1], known[2]} <= left.keys()
    assert found["problems"] == []
    at = next((desk.cache / "repos").glob("*.git"))
    message = git(at, "log", "-2", "--format=%B", found["commits"][1]["id"])
    assert "Reviewed-by" not in message


def test_trailers_of_replies_only_when_asked(
    thread: tuple[Path, str, list[str]], desk: Desk
) -> None:
    repo, lore, known = thread
    request = Request(sources=(known[0],), tree=str(repo), lore=lore, trailers=True)
    text, code = seriesverb.show(request, desk, as_json=True)
    assert code == 0, text
    at = next((desk.cache / "repos").glob("*.git"))
    first = json.loads(text)["commits"][0]["id"]
    message = git(at, "log", "-1", "--format=%B", first)
    assert "Reviewed-by: Rita Review <rita@example.org>" in message
    assert "Acked-by" not in message


def test_a_version_is_picked_and_an_address_names_its_server(
    thread: tuple[Path, str, list[str]], desk: Desk
) -> None:
    repo, lore, known = thread
    request = Request(sources=(f"{lore}/{known[5]}/",), version=1)
    text, code = seriesverb.show(request, desk)
    assert code == 0
    assert ": v1, 2 patches" in text
    assert "README: say two\n" in text
    assert not list(repo.rglob("*.eml"))


def test_it_is_taken_in_for_a_run(thread: tuple[Path, str, list[str]], desk: Desk) -> None:
    repo, lore, known = thread
    taken = desk.take(Request(sources=(f"<{known[4]}>",), tree=str(repo), lore=lore))
    base, patched = taken.scenario.kernels
    assert (base.role, patched.role, patched.on) == (Role.BASE, Role.PATCHED, None)
    assert patched.series is not None
    assert (patched.series.version, len(patched.series.patches)) == (2, 2)
    assert patched.series.origin == f"<{known[4]}>"
    assert taken.tree is not None
    assert taken.tree.base == git(repo, "rev-parse", TAG) == taken.scenario.tree.base
    assert any("base-commit" in note for note in taken.scenario.notes)


def test_a_message_that_is_not_there(thread: tuple[Path, str, list[str]], desk: Desk) -> None:
    _, lore, _ = thread
    request = Request(sources=("nobody@example.org",), lore=lore)
    with pytest.raises(UserError, match=r"has no message nobody@example.org"):
        seriesverb.show(request, desk)
    text, code = seriesverb.show(request, desk, as_json=True)
    assert code == 2
    assert "has no message" in json.loads(text)["problems"][0]


def test_no_server_and_one_that_never_answers(
    tmp_path: Path, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        lore = f"http://127.0.0.1:{deaf.getsockname()[1]}/list"
        what = fetch.wanted("x@example.org", lore)
        assert what is not None
        with pytest.raises(InfraError, match=r"could not be had from .*: Connection refused") as no:
            fetch.fetch(what, folder=tmp_path / "one", scope=scope)
        assert "--lore URL" in no.value.hint
        deaf.listen()
        monkeypatch.setattr(fetch, "SECONDS", 3.0)
        with pytest.raises(
            InfraError, match=r"did not give the thread of x@example.org within 3 s"
        ):
            fetch.fetch(what, folder=tmp_path / "two", scope=scope)


@pytest.mark.parametrize(
    ("text", "lore", "want"),
    [
        ("a.b@c.d", "", ("a.b@c.d", "https://lore.kernel.org/all")),
        ("<a/b@c.d>", "http://h/l/%s", ("a/b@c.d", "http://h/l")),
        ("id:a@c.d", "http://h/l/", ("a@c.d", "http://h/l")),
        ("https://lore.kernel.org/linux-mm/a%2Bb@c.d/T/#u", "",
         ("a+b@c.d", "https://lore.kernel.org/linux-mm")),
        ("https://lore.kernel.org/r/a@c.d", "http://h/l", ("a@c.d", "http://h/l")),
        ("https://h/a@c.d", "", ("a@c.d", "https://h/all")),
        ("https://h/none", "", None),
        ("HEAD@{1}..HEAD", "", None),
        ("v6.12..topic", "", None),
        ("patches/x", "", None),
    ],
)  # fmt: skip
def test_what_names_a_message(text: str, lore: str, want: tuple[str, str] | None) -> None:
    found = fetch.wanted(text, lore)
    assert (found and (found.message_id, found.server)) == want
