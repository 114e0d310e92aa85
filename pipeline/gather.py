"""From what the user named to a series, and the prerequisites that were named along with it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline import bases, fetch, series
from pipeline.bases import Given
from pipeline.errors import UserError
from pipeline.model import Series
from pipeline.noseries import NoSeries
from pipeline.repository import Git
from pipeline.scope import Scope

JOINT = ", "  # between the sources of one series
MOST_MAILS = 60  # in a box of several series of which one may ask for the others


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """A series, and what it needs before it as far as that was given."""

    series: Series
    given: Given | None = None


@dataclass(frozen=True, kw_only=True)
class Reader:
    """How series are read. `version`: the one to take of several; `lore`: the server to ask
    for a message-id, "" for the usual one; `pick`: which of several series, by a message-id or a
    part of a subject; `scratch`: an empty folder."""

    cwd: Path
    scratch: Path
    scope: Scope
    stdin: bytes | None = None
    lore: str = ""
    version: int | None = None
    trailers: bool = False
    pick: str | None = None

    def gather(self, sources: Sequence[str]) -> Gathered:
        """One source, or several files: parts of one series, and prerequisites of it.

        Raises:
            UserError: there is no series to take; a `NoSeries` tells more.
            InfraError: a server does not answer.
        """
        if len(sources) == 1:
            return self._one(sources[0])
        for source in sources:
            if not (self.cwd / source).is_file():
                raise UserError(
                    f"{source} is no file", hint="several sources are the patch files of one series"
                )
        return self._with_prerequisites(sources) or Gathered(series=self._together(sources))

    def _one(self, source: str) -> Gathered:
        try:
            return Gathered(series=replace(self.read(source), origin=source))
        except NoSeries as error:
            found = None if self.pick else self._out_of_several(source, error)
            if found is None:
                raise
            return found

    def read(self, source: str, pick: str | None = None, shown_as: str = "") -> Series:
        """The series of one source: standard input, a file or folder, or a thread on a server."""
        path = source if source == "-" else str(self.cwd / source)
        wanted = None if self._is_here(source) else fetch.wanted(source, self.lore)
        if wanted:
            shown_as = source
            path = str(fetch.fetch(wanted, folder=self._folder("fetch"), scope=self.scope))
        return series.read_series(
            path,
            stdin=self.stdin,
            scope=self.scope,
            version=self.version,
            trailers=self.trailers,
            pick=pick or self.pick or (wanted.message_id if wanted else None),
            shown_as=shown_as,
        )

    def _is_here(self, source: str) -> bool:
        return source == "-" or (self.cwd / source).exists()

    def _folder(self, name: str) -> Path:
        number = sum(1 for _ in self.scratch.glob(f"{name}-*"))
        folder = self.scratch / f"{name}-{number}"
        folder.mkdir()
        return folder

    def _together(self, sources: Sequence[str]) -> Series:
        """Several patch files as a folder with one series, in the order in which they came."""
        folder = self._folder("together") / "series"
        folder.mkdir()
        for number, source in enumerate(sources, 1):
            name = f"{number:04}-{Path(source).stem}.patch"
            shutil.copyfile(self.cwd / source, folder / name)
        origin = JOINT.join(sources)
        return replace(self.read(str(folder), shown_as=origin), origin=origin)

    def _with_prerequisites(self, sources: Sequence[str]) -> Gathered | None:
        """Where some of the files are what the others name as prerequisites; else None."""
        alone = self._alone(sources)
        parts = [source for source in sources if source not in alone]
        mains = [source for source, each in alone.items() if each.prerequisites]
        if parts:
            try:
                main = self._together(parts) if len(parts) > 1 else None
            except UserError:
                return None
        else:
            main = alone.pop(mains[0]) if len(mains) == 1 else None
        if main is None:
            return None
        texts = {source: (self.cwd / source).read_bytes() for source in alone}
        return self._combined(main, alone, texts, origin=JOINT.join(sources))

    def _out_of_several(self, source: str, refused: NoSeries) -> Gathered | None:
        """Where mails hold several series, and all others are what one of them asks for."""
        if not 1 < len(refused.left_out) <= MOST_MAILS or not self._is_here(source):
            return None
        found: dict[str, Series] = {}
        for mail in refused.left_out:
            try:
                each = self.read(source, pick=mail.message_id) if mail.message_id else None
            except UserError:
                continue
            if each is not None:
                found[f"“{each.patches[0].subject}”"] = each
        mains = [title for title, each in found.items() if each.prerequisites]
        if len(mains) != 1:
            return None
        return self._combined(found.pop(mains[0]), found, {}, origin=source)

    def _combined(
        self,
        main: Series,
        others: Mapping[str, Series],
        texts: Mapping[str, bytes],
        *,
        origin: str,
    ) -> Gathered | None:
        """A series with the others as its prerequisites; None where it does not ask for all."""
        wanted = bases.prerequisites(main)
        at = Git(git_dir=self.scratch, scope=self.scope)
        names: frozenset[tuple[str, str]] = frozenset()
        for title, each in others.items():
            its = bases.names_of(each, [texts.get(title, b"")], at=at)
            if not bases.asked_for(wanted, its):
                return None
            names |= its
        if not others:
            return None
        patches = [patch for each in others.values() for patch in each.patches]
        first = Series(
            name="prerequisite",
            origin=JOINT.join(others),
            patches=tuple(replace(patch, number=n) for n, patch in enumerate(patches, start=1)),
        )
        words = f"applied first, as a prerequisite: {first.origin}"
        named = replace(main, notes=(*main.notes, words), origin=origin)
        return Gathered(series=named, given=Given(series=first, names=names))

    def _alone(self, sources: Sequence[str]) -> dict[str, Series]:
        """The files that are a series each."""
        found = {}
        for source in sources:
            try:
                found[source] = self.read(source)
            except UserError:
                continue
        return found
