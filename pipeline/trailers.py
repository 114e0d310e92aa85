"""Trailers that replies to a series give: Reviewed-by and the like."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from pipeline.letter import Kind, Letter
from pipeline.mail import parse_address
from pipeline.sendings import Threads

TRAILER = re.compile(r"^(?:[A-Z][a-z]+-)+(?:[a-z]+-)*by: \S.*$", re.M)
SIGNED = "signed-off-by"


def collect(
    threads: Threads, patches: Iterable[Letter], covers: Iterable[Letter]
) -> tuple[Mapping[str, tuple[str, ...]], tuple[str, ...]]:
    """The trailers for each patch (by message-id), and those passed over, in words.

    A reply to the cover letter is for all patches. One in somebody else's name is passed over.
    """
    patches = tuple(patches)
    wanted: dict[str, tuple[str, ...]] = {each.message_id: (each.message_id,) for each in patches}
    wanted |= {each.message_id: tuple(wanted) for each in covers}
    found: dict[str, list[str]] = defaultdict(list)
    passed: list[str] = []
    for reply in threads.letters:
        if reply.kind is not Kind.REPLY:
            continue
        target = next((up for up in threads.above(reply) if up.kind is not Kind.REPLY), None)
        for trailer in _of(reply) if target is not None else ():
            assert target is not None
            if not _own(trailer, reply):
                passed.append(f"“{trailer}” is not taken: the mail is from {reply.mail.email}")
                continue
            for message_id in wanted.get(target.message_id, ()):
                if trailer not in found[message_id]:
                    found[message_id].append(trailer)
    return {key: tuple(value) for key, value in found.items()}, tuple(passed)


def _of(reply: Letter) -> list[str]:
    text = next((part.text for part in reply.mail.parts if not part.attached), "")
    lines = [found.strip() for found in TRAILER.findall(text)]
    return [line for line in lines if not line.lower().startswith(SIGNED)]


def _own(trailer: str, reply: Letter) -> bool:
    name, address = parse_address(trailer.partition(":")[2])
    mail = reply.mail
    return address.lower() == mail.email.lower() or (bool(name) and name == mail.author)
