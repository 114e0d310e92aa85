"""One series out of many mails, and of its versions the newest that is complete."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from pipeline.letter import Letter
from pipeline.noseries import NoSeries
from pipeline.sendings import Sending, Threads, Version

SAVE_ALL = "save the whole thread, for instance with `b4 mbox MESSAGE-ID`"


@dataclass(frozen=True, kw_only=True)
class Assembled:
    """A version put together: `patches` in their order, `numbers` as their subjects count them.

    `reasons`: why a mail of the series is not taken, by message-id.
    """

    sending: Sending
    version: Version
    patches: Mapping[int, Letter]
    missing: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    reasons: Mapping[int, str] = field(default_factory=dict)
    covers: tuple[Letter, ...] = ()


def shown(version: Version) -> str:
    return f"v{version[0]}.{version[1]}" if version[1] else f"v{version[0]}"


# --------------------------------------------------------------------------- which series


def families(threads: Threads, sent: Sequence[Sending]) -> list[list[Sending]]:
    """The sendings that are versions of one series, those first that came first."""
    groups = {id(each): [each] for each in sent}
    for alike in _alike(threads, sent):
        for one, other in alike:
            mine, theirs = groups[id(one)], groups[id(other)]
            if mine is not theirs:
                mine += theirs
                groups.update({id(each): mine for each in theirs})
    found = {id(group): group for group in groups.values()}.values()
    return sorted(
        (sorted(group, key=lambda each: each.order) for group in found),
        key=lambda group: group[0].order,
    )


def _alike(threads: Threads, sent: Sequence[Sending]) -> Iterator[list[tuple[Sending, Sending]]]:
    """Pairs of one series: with a title in common by one sender anywhere; in one thread also
    with a title alone, or as another version by the same sender."""
    by_title: dict[tuple[str, str], list[Sending]] = defaultdict(list)
    by_thread: dict[str, list[Sending]] = defaultdict(list)
    for each in sent:
        by_thread[_root(threads, each)].append(each)
        for sender in each.senders:
            for title in each.titles:
                by_title[sender, title].append(each)
    for group in by_title.values():
        yield [(group[0], each) for each in group[1:]]
    for group in by_thread.values():
        yield [pair for pair in combinations(group, 2) if _one_series(*pair)]


def _one_series(one: Sending, other: Sending) -> bool:
    new_version = one.version != other.version
    return new_version and bool(one.titles & other.titles or one.senders & other.senders)


def _root(threads: Threads, sending: Sending) -> str:
    return threads.root(sending.letters[0].message_id)


def main_family(threads: Threads, found: Sequence[list[Sending]]) -> list[Sending] | None:
    """The series that the mails are about; None where that cannot be said.

    In one thread it is the one that the others answer.
    """
    with_patches = [family for family in found if any(each.patches for each in family)]
    if len(with_patches) < 2:
        return (with_patches or list(found))[0]
    if len({_root(threads, each) for family in with_patches for each in family}) > 1:
        return None
    depths = [
        min(len(threads.above(letter)) for each in family for letter in each.letters)
        for family in with_patches
    ]
    if depths.count(min(depths)) > 1:
        return None
    return with_patches[depths.index(min(depths))]


def beside(
    threads: Threads, family: Sequence[Sending], found: Sequence[list[Sending]]
) -> list[list[Sending]]:
    """Other patches of one thread by the same sender, where none has a number: parts of one series,
    perhaps, whose order nobody tells."""
    roots = {_root(threads, each) for each in family}
    senders = {each.sender.lower() for one in family for each in one.patches}
    return [
        other
        for other in found
        if other is not family
        and not any(each.total for each in (*family, *other))
        and any(_root(threads, each) in roots for each in other)
        and senders & {each.sender.lower() for one in other for each in one.patches}
    ]


def as_given(sent: Sequence[Sending]) -> Sending | None:
    """Unnumbered patches of `git format-patch -N`: the order given is all there is."""
    patches = [each for one in sent for each in one.patches]
    distinct = len({each.title for each in patches}) == len(patches)
    written = all(each.mail.from_git or not each.mail.given_id for each in patches)
    if len(patches) < 2 or not distinct or not written or any(one.total for one in sent):
        return None
    if len({each.subject.version for each in patches}) > 1:
        return None
    slots = {number: (each,) for number, each in enumerate(patches, 1)}
    return replace(sent[0], total=len(patches), slots=slots)


# --------------------------------------------------------------------------- which version


def newest(
    threads: Threads, family: Sequence[Sending], *, wanted: int | None, source: str
) -> Assembled:
    """The newest complete version, or `wanted`.

    Raises:
        NoSeries: none is complete, or there is no such version.
    """
    ordered = sorted(family, key=lambda each: (each.version, each.time, each.order), reverse=True)
    numbered = [each for each in ordered if each.total > 1]
    tries = [_assemble(threads, each, ordered[at + 1 :]) for at, each in enumerate(ordered)]
    tries = [each for each in tries if not _stray(threads, each, numbered)]
    asked = [each for each in tries if wanted is None or wanted in _versions(each)]
    if not asked:
        there = ", ".join(dict.fromkeys(shown(each.version) for each in reversed(tries)))
        raise NoSeries(f"{source} has no v{wanted}", hint=f"it has {there}", version=wanted or 0)
    whole = [each for each in asked if not each.missing]
    if not whole:
        raise _incomplete(source, asked[0])
    taken = whole[0]
    notes = (*taken.notes, *_of_others(tries, taken))
    return replace(taken, notes=notes)


def _versions(found: Assembled) -> set[int]:
    said = {found.version[0]}
    return said | ({found.sending.cover_version[0]} if found.sending.cover_version else set())


def _of_others(tries: Sequence[Assembled], taken: Assembled) -> tuple[str, ...]:
    """What to say of the versions that were not taken."""
    notes = []
    at = tries.index(taken)
    for each in tries[:at]:
        if each.missing:
            notes.append(
                f"{shown(each.version)} is newer and not complete ({_missing(each)}); "
                f"{shown(taken.version)} is taken"
            )
        else:
            notes.append(
                f"{shown(each.version)} is newer; {shown(taken.version)} is taken as asked"
            )
    for each in tries[at + 1 :]:
        kept = any(one in each.patches.values() for one in taken.patches.values())
        if each.version == taken.version and each.patches:
            notes.append(f"{shown(taken.version)} was sent more than once: the latest is taken")
        elif each.version != taken.version and not kept:
            notes.append(f"{shown(each.version)} is there too; {shown(taken.version)} is taken")
    return tuple(dict.fromkeys(notes))


def _missing(found: Assembled) -> str:
    noun = "patch" if len(found.missing) == 1 else "patches"
    return f"{noun} {ranges(found.missing, max(found.sending.total, 1))} missing"


def ranges(numbers: Sequence[int], total: int) -> str:
    """ "1/9, 3/9–7/9": runs of three and more are put together."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words = []
    for run in runs:
        if len(run) > 2:
            words.append(f"{run[0]}/{total}–{run[-1]}/{total}")
        else:
            words += [f"{number}/{total}" for number in run]
    return ", ".join(words)


def _incomplete(source: str, found: Assembled) -> NoSeries:
    version = f" ({shown(found.version)})" if found.version != (1, 0) else ""
    return NoSeries(
        f"{source} is not complete{version}: {_missing(found)}",
        hint=SAVE_ALL,
        missing=found.missing,
        problems=found.problems,
        version=found.version[0],
    )


# --------------------------------------------------------------------------- putting together


def _assemble(threads: Threads, sending: Sending, older: Sequence[Sending]) -> Assembled:
    """A sending with one mail for each number, and what it leaves as it was in an older one."""
    reasons: dict[int, str] = {}
    problems: list[str] = []
    patches = {
        number: _one(number, _by_sender(sending, slot, reasons), reasons, problems)
        for number, slot in sending.slots.items()
    }
    extra = [number for number in patches if sending.total and number > sending.total]
    for number in extra:
        if _is_stranger(patches[number], sending):
            reasons[id(patches[number])] = "numbered past the end of the series, by somebody else"
            del patches[number]
        else:
            problems.append(f"there is a patch {number}/{sending.total}: it is taken as the last")
    if sending.cover_version and sending.patches:
        problems.append(
            f"the cover letter says {shown(sending.cover_version)}, the patches say "
            f"{shown(sending.version)}"
            if sending.patches[0].subject.version == sending.version
            else f"the patches say {shown(sending.patches[0].subject.version)}"
        )
    found = Assembled(
        sending=sending,
        version=sending.version,
        patches=patches,
        missing=sending.missing,
        problems=tuple(problems),
        reasons=reasons,
        covers=sending.covers,
    )
    return _rerolled(threads, found, older) or found


def _is_stranger(letter: Letter, sending: Sending) -> bool:
    others = {each.sender for each in sending.letters if each is not letter}
    return bool(others) and letter.sender not in others


def _by_sender(
    sending: Sending, slot: Sequence[Letter], reasons: dict[int, str]
) -> Sequence[Letter]:
    """Of the mails with one number those by who sent the series."""
    senders = Counter(each.sender.lower() for each in sending.letters)
    own = [each for each in slot if each.sender.lower() == senders.most_common(1)[0][0]]
    for each in slot if own else ():
        if each not in own:
            reasons[id(each)] = "it has the number of a patch, but another sender"
    return own or slot


def _one(
    number: int, slot: Sequence[Letter], reasons: dict[int, str], problems: list[str]
) -> Letter:
    """The mail to take of those with one number."""
    whole = [each for each in slot if not each.text.damage] or list(slot)
    formed = [each for each in whole if each.text.separated and each.text.signed_off]
    for each in whole if formed else ():
        if each not in formed:
            reasons[id(each)] = "a diff under the subject of a patch, without the form of one"
    whole = formed or whole
    if len({each.title.lower() for each in whole}) > 1:
        raise NoSeries(
            f"two series are in one: “{whole[0].title}” and “{whole[-1].title}” are both "
            f"{number}/{whole[0].subject.total}",
            hint="give one series at a time",
        )
    if len({(each.digest, each.text.message) for each in whole}) == 1:
        taken = whole[0]
    else:
        times = sorted(each.time for each in whole)
        if times[-1] == times[-2]:
            raise NoSeries(
                f"patch {number} “{whole[0].title}” is there twice with different content, and "
                "nothing says which is meant",
                hint="give the mails that are meant alone",
            )
        taken = max(whole, key=lambda each: each.time)
        problems.append(f"patch {number} was sent again with other content: the later is taken")
    for each in slot:
        if each is not taken:
            reasons.setdefault(id(each), "the same patch, sent twice")
    return taken


def _rerolled(threads: Threads, found: Assembled, older: Sequence[Sending]) -> Assembled | None:
    """The older series with the patches that were sent anew in answer to its own."""
    if found.covers or not (found.missing or not found.sending.total):
        return None
    for at, sending in enumerate(older):
        if sending.total < 2 or found.sending.total not in {0, sending.total}:
            continue
        base = _assemble(threads, sending, older[at + 1 :])
        placed = {_answered(threads, each, base): each for each in found.patches.values()}
        if base.missing or None in placed or len(placed) < len(found.patches):
            continue
        new = {number: each for number, each in placed.items() if number is not None}
        numbers = ranges(sorted(new), sending.total)
        kept = ranges(sorted(base.patches.keys() - new.keys()), sending.total)
        return replace(
            base,
            sending=found.sending,
            version=max(found.version, base.version),
            patches={**base.patches, **new},
            problems=(*base.problems, *found.problems),
            notes=(
                f"{shown(found.version)} is {numbers} alone, sent in answer to "
                f"{shown(base.version)}: {kept} are taken from {shown(base.version)}",
            ),
            reasons={
                **base.reasons,
                **found.reasons,
                **{id(base.patches[n]): f"sent anew as {shown(found.version)}" for n in new},
            },
        )
    return None


def _answered(threads: Threads, letter: Letter, base: Assembled) -> int | None:
    """The number of the patch in `base` that this one was sent to replace, None for none."""
    above = {id(each) for each in threads.above(letter)}
    for number, each in base.patches.items():
        same = letter.subject.number == number or letter.title.lower() == each.title.lower()
        if same and id(each) in above and each.sender.lower() == letter.sender.lower():
            return number
    return None


def _stray(threads: Threads, found: Assembled, numbered: Sequence[Sending]) -> bool:
    """Whether it is a lone patch in the thread of a numbered series, and no version of it."""
    if found.sending.total or len(found.patches) > 1:
        return False
    return any(
        _root(threads, found.sending) == _root(threads, each)
        and threads.linked(found.sending.letters[0])
        for each in numbered
    )
