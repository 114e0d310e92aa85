"""Mails put together as they were sent: threads, and in them each version of each series.

Not by dates, which lie, but by what answers what, who sent it, and what the subjects count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pipeline.letter import Kind, Letter

Version = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Sending:
    """A version of a series as it was sent. `slots`: the mails of each patch number.

    `total` is 0 for a patch without a number; it has slot 1 alone. `cover_version` is what the
    cover letter says where that is another version than the patches say.
    """

    version: Version
    total: int
    slots: Mapping[int, tuple[Letter, ...]]
    covers: tuple[Letter, ...] = ()
    order: int = 0

    @property
    def letters(self) -> tuple[Letter, ...]:
        return (*self.covers, *(each for slot in self.slots.values() for each in slot))

    @property
    def patches(self) -> tuple[Letter, ...]:
        return tuple(each for slot in self.slots.values() for each in slot)

    @property
    def missing(self) -> tuple[int, ...]:
        wanted = range(1, max(self.total, 1) + 1)
        return tuple(number for number in wanted if number not in self.slots)

    @cached_property
    def titles(self) -> frozenset[str]:
        return frozenset(each.title.lower() for each in self.letters if each.title)

    @cached_property
    def senders(self) -> frozenset[str]:
        found = {each.sender.lower() for each in self.letters}
        return frozenset(found | {each.email.lower() for each in self.patches})

    @property
    def cover_version(self) -> Version | None:
        said = {each.subject.version for each in self.covers if each.subject.versioned}
        return next(iter(said - {self.version}), None)

    @property
    def time(self) -> float:
        return max((each.time for each in self.letters), default=0.0)


class Threads:
    """Which mail answers which, of all the mails given."""

    def __init__(self, letters: Sequence[Letter]) -> None:
        self.letters = tuple(letters)
        self.by_id = {each.message_id: each for each in letters}
        self._roots: dict[str, str] = {}
        self.answers: dict[str, list[Letter]] = defaultdict(list)
        for each in letters:
            for reference in each.mail.references:
                self._join(each.message_id, reference)
                self.answers[reference].append(each)

    def root(self, message_id: str) -> str:
        """The same for all mails of one thread."""
        seen = []
        while (up := self._roots.get(message_id, message_id)) != message_id:
            seen.append(message_id)
            message_id = up
        for each in seen:
            self._roots[each] = message_id
        return message_id

    def _join(self, one: str, other: str) -> None:
        self._roots[self.root(one)] = self.root(other)

    def linked(self, letter: Letter) -> bool:
        return bool(letter.mail.references) or letter.message_id in self.answers

    def above(self, letter: Letter) -> list[Letter]:
        """The mails that it answers, nearest first, as far as they were given."""
        found: dict[str, Letter] = {}
        ids = list(reversed(letter.mail.references))
        while ids:
            up = self.by_id.get(ids.pop(0))
            if up is None or up.message_id in found or up is letter:
                continue
            found[up.message_id] = up
            ids = ids or list(reversed(up.mail.references))
        return list(found.values())


def sendings(threads: Threads) -> list[Sending]:
    """The patches and covers of all threads, each in the version with which it was sent."""
    buckets: dict[tuple[object, ...], list[Letter]] = defaultdict(list)
    loose: list[Letter] = []
    for each in threads.letters:
        if each.kind not in {Kind.PATCH, Kind.COVER}:
            continue
        if not each.subject.total:
            buckets[("one", each.message_id)].append(each)
        elif anchor := _anchor(threads, each):
            buckets[("series", anchor.message_id, _key(each))].append(each)
        else:
            loose.append(each)
    for each in loose:
        buckets[_place(threads, each, buckets)].append(each)
    _join_covers(buckets)
    order = {each.message_id: at for at, each in enumerate(threads.letters)}
    found = [_sending(letters, order) for letters in buckets.values()]
    return sorted(_split_covers(found), key=lambda each: each.order)


def _join_covers(buckets: dict[tuple[object, ...], list[Letter]]) -> None:
    """Put a cover letter over the patches that answer it, though it says a newer version."""
    for key, letters in list(buckets.items()):
        if key[0] != "series" or any(each.kind is Kind.PATCH for each in letters):
            continue
        under = [
            other
            for other in buckets
            if other != key and other[:2] == key[:2] and _key(buckets[other][0]) < _key(letters[0])
        ]
        if len(under) == 1:
            buckets[under[0]] += buckets.pop(key)


def _key(letter: Letter) -> tuple[Version, int]:
    return letter.subject.version, letter.subject.total


def _anchor(threads: Threads, letter: Letter) -> Letter | None:
    """The cover, or patch 1, that the mails of this sending answer; None where none is known."""
    chain = [letter, *threads.above(letter)]
    total, version = letter.subject.total, letter.subject.version
    found: Letter | None = None
    for each in chain:
        if each.subject.total != total or each.kind not in {Kind.PATCH, Kind.COVER}:
            continue
        same = each.subject.version == version
        # A cover of a newer version than its patches say; of an older one it is the last version.
        newer = each in chain[:2] and each.subject.version > version
        if each.kind is Kind.COVER and (same or newer):
            return each
        if (
            same
            and each.subject.number == 1
            and (each is not letter or _is_answered(threads, each))
        ):
            found = each
    if found is not None and letter.subject.number != 1:
        return _anchor(threads, found) or found
    return found


def _is_answered(threads: Threads, letter: Letter) -> bool:
    """Whether another patch of its own sending answers it."""
    return any(
        each.kind is Kind.PATCH and _key(each) == _key(letter)
        for each in threads.answers.get(letter.message_id, ())
    )


def _place(
    threads: Threads, letter: Letter, buckets: Mapping[tuple[object, ...], list[Letter]]
) -> tuple[object, ...]:
    """Where a mail goes that answers no cover: to the one sending that it can belong to."""
    fitting = [
        key
        for key, letters in buckets.items()
        if key[0] == "series"
        and _key(letters[-1]) == _key(letter)
        and (
            threads.root(letter.message_id) == threads.root(letters[0].message_id)
            or (not threads.linked(letter) and _same_sender(letter, letters))
        )
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        open_slots = [
            key for key in fitting
            if letter.subject.number not in {each.subject.number for each in buckets[key]}
        ]  # fmt: skip
        return min(open_slots or fitting, key=lambda key: abs(buckets[key][0].time - letter.time))
    where = threads.root(letter.message_id) if threads.linked(letter) else letter.sender.lower()
    return ("loose", where, _key(letter))


def _same_sender(letter: Letter, letters: Iterable[Letter]) -> bool:
    return any(each.sender.lower() == letter.sender.lower() for each in letters)


def _sending(letters: Sequence[Letter], order: Mapping[str, int]) -> Sending:
    patches = [each for each in letters if each.kind is Kind.PATCH]
    covers = tuple(each for each in letters if each.kind is Kind.COVER)
    slots: dict[int, list[Letter]] = defaultdict(list)
    for each in patches:
        slots[each.subject.number or 1].append(each)
    said = [each.subject for each in (patches or covers)]
    explicit = [each.version for each in said if each.versioned]
    version = max(explicit, default=None)
    if version is None and any(each.subject.versioned for each in covers):
        version = covers[0].subject.version  # the patches say nothing: as the cover says
    return Sending(
        version=version or (1, 0),
        total=max(each.total for each in said),
        slots={number: tuple(slots[number]) for number in sorted(slots)},
        covers=covers,
        order=min(order[each.message_id] for each in letters),
    )


def _split_covers(found: Sequence[Sending]) -> list[Sending]:
    """A sending whose cover says another version than its patches: by the patches' word, unless
    those of that version are there as well."""
    done = []
    for each in found:
        other = each.cover_version
        twin = any(
            one is not each
            and one.version == each.version
            and one.patches
            and one.titles & each.titles
            for one in found
        )
        done.append(replace(each, version=other) if other and twin and each.patches else each)
    return done
