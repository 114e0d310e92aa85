"""`ktrial series`: a series shown, and tried on a tree, without building anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipeline import bases, commits, diffs, faithful, pathsafety, seriesview
from pipeline.errors import UserError
from pipeline.intake import Desk, Request, check
from pipeline.model import ApplyFailure, Series, Tree
from pipeline.noseries import NoSeries
from pipeline.repository import Git
from pipeline.seriesview import SeriesView
from pipeline.tree import Applied


def show(request: Request, desk: Desk, *, as_json: bool = False) -> tuple[str, int]:
    """The text or JSON, and the exit code: 0, 1 where it does not apply, 2 without a series.

    Raises:
        UserError: bad input of another kind (no such tree); with `as_json` that is shown too.
        InfraError: a server or the host is at fault.
    """
    source = ", ".join("standard input" if each == "-" else each for each in request.sources)
    try:
        view = _looked_at(request, desk, source)
    except UserError as error:
        if not (as_json or isinstance(error, NoSeries)):
            raise
        view = _refused(error, source)
    shown = seriesview.as_json(view) if as_json else seriesview.as_text(view)
    return shown, view.exit_code


def _refused(error: UserError, source: str) -> SeriesView:
    """What is known where there is no series: a `NoSeries` carries the mails that were there."""
    if not isinstance(error, NoSeries):
        return SeriesView(source=source, error=error.message, hint=error.hint)
    return SeriesView(
        source=source,
        version=error.version or None,
        left_out=error.left_out,
        missing=error.missing,
        problems=error.problems,
        error=error.message,
        hint=error.hint,
    )


def _looked_at(request: Request, desk: Desk, source: str) -> SeriesView:
    if not request.sources:
        raise UserError("no series is named", hint="name a file, a message-id, a range, or -")
    check(request)
    if text := desk.as_range(request):
        opened, found, tip = desk.read_range(request, text)
        return _of_range(desk, opened, found, tip, source)
    gathered = desk.reader(request).gather(request.sources)
    view = _of_mails(gathered.series, source)
    opened_tree = desk.tree_for(request)
    if opened_tree is None or view.applies is False:
        return view
    settled = bases.settle(
        opened_tree,
        gathered.series,
        wished=request.base is not None,
        given=gathered.given,
        log=desk.scratch / "apply.log",
        scope=desk.scope,
    )
    return _tried(view, settled)


def _of_mails(series: Series, source: str) -> SeriesView:
    """What the mails alone say; a path that is not safe is refused without a tree."""
    hazards = _hazards(series)
    bad = pathsafety.refused(hazards)
    hidden = [
        f"patch {patch.number}: its subject or author has characters that do not show"
        for patch in series.patches
        if pathsafety.deceives(patch.subject + patch.author + patch.email)
    ]
    return SeriesView(
        source=source,
        name=series.name,
        version=series.version,
        patches=series.patches,
        left_out=series.left_out,
        notes=series.notes,
        prerequisites=series.prerequisites,
        base=series.base_commit,
        rule=bases.TRAILER if series.base_commit else "",
        applies=False if bad else None,
        failure=str(bad) if bad else "",
        problems=(*series.problems, *faithful.claims(series), *map(str, hazards), *hidden),
    )


def _hazards(series: Series) -> Sequence[pathsafety.Hazard]:
    return pathsafety.examine([(p.number, diffs.of_mail(p.mail)) for p in series.patches])


def _tried(view: SeriesView, settled: bases.Settled) -> SeriesView:
    failed = isinstance(settled.result, ApplyFailure)
    made = settled.result.commits if isinstance(settled.result, Applied) else ()
    return replace(
        view,
        tree=settled.tree.name,
        base=settled.choice.commit,
        rule=settled.choice.rule,
        base_words=settled.choice.words,
        applies=not failed,
        failure=str(settled.result) if failed else "",
        details=settled.result.words if isinstance(settled.result, ApplyFailure) else "",
        commits=made,
        problems=tuple(dict.fromkeys((*view.problems, *settled.problems))),
    )


def _of_range(desk: Desk, opened: Tree, found: Series, tip: str, source: str) -> SeriesView:
    """Commits that the tree has: there is nothing to apply."""
    at = Git(git_dir=opened.repository, scope=desk.scope)
    named = {patch.commit for patch in found.patches}
    made = tuple(each for each in commits.between(at, opened.base, tip) if each.id in named)
    hazards = pathsafety.examine(commits.as_changes(made))
    return SeriesView(
        source=source,
        name=found.name,
        version=found.version,
        patches=found.patches,
        notes=found.notes,
        prerequisites=found.prerequisites,
        tree=opened.name,
        base=opened.base,
        rule="range",
        base_words=f"{opened.base[:12]}, where {source} starts",
        applies=True,
        commits=made,
        problems=tuple(map(str, hazards)),
    )
