"""A thread from a public-inbox server (lore.kernel.org), by message-id or address, through b4."""

from __future__ import annotations

import re
import sys
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

from pipeline import process
from pipeline.errors import InfraError, UserError
from pipeline.pathsafety import visible
from pipeline.scope import Scope

LORE = "https://lore.kernel.org/all"
SECONDS = 90.0
# As a person types one: with a host, without the characters that name a revision of git.
MESSAGE_ID = re.compile(r"(?:id:)?[^\s<>@/{}]+@[^\s<>@/{}]+|<[^\s<>]+@[^\s<>]+>")
NOT_THERE = re.compile(r"Server returned an error: 404|No messages found")
CAUSE = re.compile(r"\[Errno -?\d+\] ([^\"'()]+)|(Server returned an error: \d+)")
NETWORK_HINT = "look at the network, name another server with --lore URL, or give a saved mbox"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A message on a server: `server` is the address of its list, without the message-id."""

    message_id: str
    server: str


def wanted(text: str, lore: str = "") -> Wanted | None:
    """What a message-id or an address of a public-inbox names; None where it is neither.

    An address names its own server, but where `lore` says which one to ask. `lore` may have
    “%s” for the message-id, as b4 has it, or end before that.
    """
    server = lore.replace("%s", "").rstrip("/")
    if re.match(r"https?://", text):
        parts = urllib.parse.urlsplit(text)
        steps = [urllib.parse.unquote(step) for step in parts.path.split("/") if step]
        at = next((n for n, step in enumerate(steps) if MESSAGE_ID.fullmatch(step)), None)
        if at is None:
            return None
        its = "/".join(urllib.parse.quote(step) for step in (steps[:at] or ["all"]))
        return Wanted(
            message_id=_bare(steps[at]), server=server or f"{parts.scheme}://{parts.netloc}/{its}"
        )
    if not MESSAGE_ID.fullmatch(text):
        return None
    return Wanted(message_id=_bare(text), server=server or LORE)


def _bare(message_id: str) -> str:
    return message_id.strip("<>").removeprefix("id:")


def fetch(what: Wanted, *, folder: Path, scope: Scope) -> Path:
    """The whole thread of a message as a maildir below `folder`, which exists and is empty.

    Raises:
        UserError: the server has no such message; the server's address is none.
        InfraError: the server does not answer, or not in time.
    """
    if not re.match(r"https?://[^/]+", what.server):
        raise UserError(
            f"{visible(what.server)} is no address of a server", hint="such as --lore " + LORE
        )
    home, out, log = folder / "home", folder / "thread", folder / "b4.log"
    home.mkdir()
    out.mkdir()
    done = process.run(
        (*_environment(home), sys.executable, "-P", "-m", "b4.command", "--no-interactive",
         "-c", f"b4.midmask={what.server}/%s",
         "-c", f"b4.linkmask={what.server}/%s",
         "-c", f"b4.searchmask={what.server}/?x=m&q=%s",
         "mbox", "--no-cache", "--save-as-maildir", "-o", out, "-n", "series", what.message_id),
        scope=scope.child(SECONDS),
        log=log,
        cwd=home,
    )  # fmt: skip
    found = [path for part in ("new", "cur") for path in out.glob(f"*/{part}/*")]
    if found:
        return found[0].parent.parent
    raise _failure(what, done)


def _failure(what: Wanted, done: process.Completed) -> UserError | InfraError:
    name = visible(what.message_id)
    if done.timed_out:
        words = f"{what.server} did not give the thread of {name} within {SECONDS:.0f} s"
        return InfraError(words, hint=NETWORK_HINT)
    if NOT_THERE.search(done.text):
        return UserError(
            f"{what.server} has no message {name}",
            hint="check the message-id, or name another server with --lore URL",
        )
    cause = CAUSE.search(done.text)
    lines = [line.strip() for line in done.text.splitlines() if line.strip()]
    told = (cause[1] or cause[2]) if cause else " | ".join(lines[-1:])[-300:]
    words = f"the thread of {name} could not be had from {what.server}: {visible(told)}"
    return InfraError(words, hint=NETWORK_HINT)


def _environment(home: Path) -> tuple[str, ...]:
    """What comes before b4: it finds no configuration of the user's and keeps nothing of theirs.

    A proxy and certificates of this machine are handed on.
    """
    values = {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(home.parent),
        "GIT_TERMINAL_PROMPT": "0",
    }
    unset = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_CONFIG_COUNT", "PYTHONPATH")
    return (
        "/usr/bin/env",
        *(word for name in unset for word in ("-u", name)),
        *(f"{name}={value}" for name, value in values.items()),
    )
