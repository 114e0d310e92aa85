"""Kernel trees: opened from a Debian package or a git repository, and series applied to them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pipeline import cache as caches
from pipeline import debian, diffs, faithful, pathsafety, repository, userrepo, whitespace
from pipeline.apt import TreeUnavailable
from pipeline.commits import as_changes
from pipeline.commits import between as read_commits
from pipeline.errors import UserError
from pipeline.faithful import Commit
from pipeline.model import ApplyFailure, KernelPlan, Revision, Series, Tree, TreeSpec
from pipeline.progress import Step
from pipeline.repository import Git, Reply
from pipeline.scope import Scope

__all__ = ["TreeUnavailable", "apply", "at_commit", "open_tree"]

VERSION_LINE = re.compile(r"^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION)[ \t]*=[ \t]*(\S*)", re.M)


def open_tree(spec: TreeSpec, *, cache: Path, scope: Scope, step: Step) -> Tree:
    """A tree that ktrial may write to, at the base revision that `spec` names.

    `debian:X.Y` is imported once from Debian's source package. A path is any git
    repository or a folder in one; it is only ever read.

    Raises:
        UserError: not a git repository, not a kernel, an unknown revision or version.
        TreeUnavailable: Debian's package is not to be had here.
        InfraError: too little disk space, apt or git failed.
    """
    if spec.debian_version is not None:
        return _debian(spec, spec.debian_version, cache, scope, step)
    return _borrowed(spec, cache, scope)


def _borrowed(spec: TreeSpec, cache: Path, scope: Scope) -> Tree:
    source = _source(spec.name)
    ours = repository.borrow(source, cache=cache, scope=scope)
    base = resolve(Git(git_dir=source.git_dir, scope=scope), spec.base, where=spec.name)
    at = Git(git_dir=ours, scope=scope)
    if userrepo.is_partial(source):
        _check_whole(at, spec, base)
    return Tree(
        name=spec.name,
        origin=f"{slug(Path(spec.name).resolve().name)}-{ours.stem}",
        repository=ours,
        base=base,
        version=_kernel_version(at, base, where=spec.name),
        description=at.text("log", "-1", "--format=%h (“%s”)", base),
    )


def _source(name: str) -> userrepo.Source:
    path = Path(name)
    if not path.exists():
        raise UserError(
            f"there is no {name}", hint="a tree is a path to a git repository, or debian:6.12"
        )
    try:
        source = userrepo.find(path)
    except PermissionError as error:
        raise UserError(
            f"no permission to read {error.filename}", hint="run as the repository's owner"
        ) from error
    if source is None:
        raise UserError(
            f"{name} is not a git repository",
            hint="a tree is a path to a git repository, or debian:6.12",
        )
    return source


def slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip(".-")[:40] or "tree"


def _check_whole(at: Git, spec: TreeSpec, base: str) -> None:
    """A partial clone leaves objects with its remote, which ktrial does not talk to."""
    reply = at.run("rev-list", "--objects", "--missing=print", "--no-walk", base)
    missing = sum(line.startswith(b"?") for line in reply.output.splitlines())
    if missing or not reply.ok:
        raise UserError(
            f"{spec.name} is a partial clone that lacks {missing or 'some'} files of {spec.base}",
            hint=f"git -C {spec.name} archive {spec.base} >/dev/null fetches them",
        )


def _debian(spec: TreeSpec, version: str, cache: Path, scope: Scope, step: Step) -> Tree:
    package = debian.imported(version, cache=cache, scope=scope, step=step)
    at = Git(git_dir=package.repository, scope=scope)
    base = resolve(at, spec.base, where=spec.name)
    return Tree(
        name=spec.name,
        origin=package.repository.parent.name,
        repository=package.repository,
        base=base,
        version=_kernel_version(at, base, where=spec.name),
        description=f"Debian {package.name} {package.version}",
    )


# --------------------------------------------------------------------------- revisions


def resolve(at: Git, revision: str, *, where: str) -> str:
    """The commit that a revision names in a repository.

    Raises:
        UserError: there is none; the hint has the nearest names that there are.
    """
    reply = at.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if reply.ok and revision:
        return reply.text
    names = _names(at)
    near = difflib.get_close_matches(revision, names, n=3)
    raise UserError(
        f"there is no revision “{revision}” in {where}",
        hint=f"the nearest: {', '.join(near)}" if near else f"see `git -C {where} log --oneline`",
    )


def _names(at: Git) -> tuple[str, ...]:
    """Branches, remote branches and tags by their short names."""
    return tuple(at.run("for-each-ref", "--format=%(refname:short)").text.split())


def _kernel_version(at: Git, commit: str, *, where: str) -> str:
    """The kernel's own version at a commit, from the head of its Makefile."""
    makefile = at.run("cat-file", "blob", f"{commit}:Makefile")
    version = read_version(makefile.text) if makefile.ok else ""
    if not version or not at.run("cat-file", "-e", f"{commit}:Kconfig").ok:
        raise UserError(
            f"{where} at {commit[:12]} is not a Linux kernel: "
            f"{'it has no Kconfig' if version else 'its Makefile names no kernel version'}",
            hint="name a kernel repository with --tree and a revision with --base",
        )
    return version


def read_version(makefile: str) -> str:
    """`6.12.0-rc1` from the VERSION… lines of the kernel's top Makefile, "" where it has none."""
    found: dict[str, str] = dict(VERSION_LINE.findall(makefile)[:4])
    if not found.get("VERSION") or "PATCHLEVEL" not in found:
        return ""
    numbers = [found[key] for key in ("VERSION", "PATCHLEVEL", "SUBLEVEL") if found.get(key)]
    return ".".join(numbers) + found.get("EXTRAVERSION", "")


def at_commit(tree: Tree, commit: str, *, scope: Scope) -> Tree:
    """The tree with another commit of its repository as its base.

    Raises:
        UserError: that commit is not a kernel, or a partial clone lacks files of it.
    """
    at = Git(git_dir=tree.repository, scope=scope)
    spec = TreeSpec(name=tree.name, base=commit)
    if spec.debian_version is None and userrepo.is_partial(_source(tree.name)):
        _check_whole(at, spec, commit)
    return replace(tree, base=commit, version=_kernel_version(at, commit, where=tree.name))


def names_at(tree: Tree, scope: Scope) -> Git:
    """Where the tree's branches and tags are: with the user, we borrow objects alone."""
    if TreeSpec(name=tree.name).debian_version is not None:
        return Git(git_dir=tree.repository, scope=scope)
    return Git(git_dir=_source(tree.name).git_dir, scope=scope)


# --------------------------------------------------------------------------- apply

THREE_WAY = "applied with a three-way merge: {} is not as the patches have it before them"
WHITESPACE = (
    "the mail's white space is damaged (tabs or blanks changed on the way): the sender avoids that "
    "with `git send-email`, never with copy and paste or an editor that wraps lines"
)


@dataclass(frozen=True, kw_only=True)
class Applied(Revision):
    """A series as it came out: its commits, and what is to be said of them."""

    commits: tuple[Commit, ...] = ()
    three_way: bool = False


def apply(
    tree: Tree, plan: KernelPlan, *, on: str, log: Path, scope: Scope
) -> Revision | ApplyFailure:
    """The kernel of `plan` on top of the commit `on`, as a commit in the tree's repository.

    The same series on the same commit always gives the same commit: git's committer is
    fixed and the date is the author's. What git says goes to `log`. A series of mails gives
    an `Applied`; it does not apply where a path of it is not safe.
    """
    at = Git(git_dir=tree.repository, scope=scope)
    commit = plan.commit or on
    applied: _Done | None = None
    if plan.commit is None and plan.series is not None:
        done = _apply_mails(tree, plan.name, plan.series, on=on, log=log, scope=scope)
        if isinstance(done, ApplyFailure):
            return done
        applied, commit = done, done.commit
    changed = at.output("diff-tree", "-r", "-z", "--name-only", "--no-renames", on, commit)
    made = Revision(
        kernel=plan.name,
        role=plan.role,
        commit=commit,
        tree_id=at.text("rev-parse", "--verify", f"{commit}^{{tree}}"),
        files_changed=tuple(changed.decode(errors="surrogateescape").split("\0")[:-1]),
    )
    if applied is None:
        return made
    words = vars(made) | {"commits": applied.commits, "problems": applied.problems}
    return Applied(**words, three_way=applied.three_way)


@dataclass(frozen=True, kw_only=True)
class _Done:
    commit: str
    commits: tuple[Commit, ...]
    problems: tuple[str, ...]
    three_way: bool


@dataclass(frozen=True, kw_only=True)
class _Attempt:
    """One `git am`: the commit it came to, or the number of the patch at which it stopped."""

    reply: Reply
    commit: str = ""
    number: int = 0


def _apply_mails(
    tree: Tree, kernel: str, series: Series, *, on: str, log: Path, scope: Scope
) -> _Done | ApplyFailure:
    told = pathsafety.examine([(p.number, diffs.of_mail(p.mail)) for p in series.patches])
    if bad := pathsafety.refused(told):
        return _unsafe(bad, kernel, series, log)
    am = partial(_am, tree, series, on=on, log=log, scope=scope)
    plain = am()
    found = plain if plain.commit else am("--3way")
    at = Git(git_dir=tree.repository, scope=scope)
    commits = read_commits(at, on, found.commit) if found.commit else ()
    if len(commits) != len(series.patches):
        return _explained(plain, found, am, at=at, on=on, kernel=kernel, series=series, log=log)
    came_out = pathsafety.examine(as_changes(commits))
    if bad := pathsafety.refused(came_out):
        return _unsafe(bad, kernel, series, log)
    three_way = not plain.commit
    where = refusal(plain.reply, kernel=kernel, series=series, number=plain.number, log=log)
    problems = (
        *((THREE_WAY.format(pathsafety.visible(where.file) or on[:12]),) if three_way else ()),
        *faithful.claims(series),
        *faithful.compare(series, commits),
        *(str(each) for each in told),
    )
    return _Done(commit=found.commit, commits=commits, problems=problems, three_way=three_way)


def _am(tree: Tree, series: Series, *options: str, on: str, log: Path, scope: Scope) -> _Attempt:
    with caches.making(tree.repository / "ktrial", "am") as folder:
        mails = [folder / f"{number:04}.eml" for number in range(1, len(series.patches) + 1)]
        for mail, patch in zip(mails, series.patches, strict=True):
            mail.write_bytes(patch.mail)
        with repository.detached(tree.repository, on, folder=folder, scope=scope) as at:
            if options:
                _lay_out(at, series)
            words = ("am", "--committer-date-is-author-date", "--patch-format=mbox", *options)
            reply = at.run(*words, *map(str, mails))
            _log(log, [*words, *(mail.name for mail in mails)], reply)
            if reply.ok:
                return _Attempt(reply=reply, commit=at.text("rev-parse", "--verify", "HEAD"))
            if not (at.git_dir / "rebase-apply").is_dir() or not series.patches:
                raise repository.failure(("am",), reply.words)
            number = int((at.git_dir / "rebase-apply" / "next").read_text())
    return _Attempt(reply=reply, number=number)


def _lay_out(at: Git, series: Series) -> None:
    """Have the files that the patches find. `git apply` lays out one that it misses, but does not
    note its time in the index where it then fails; to the merge it looks changed by hand."""
    found = {each.old for patch in series.patches for each in diffs.of_mail(patch.mail)}
    names = "\0".join(filter(None, found)).encode(errors="surrogateescape")
    at.run("checkout-index", "--quiet", "--force", "-u", "-z", "--stdin", stdin=names)


def _unsafe(bad: pathsafety.Hazard, kernel: str, series: Series, log: Path | None) -> ApplyFailure:
    patch = next(each for each in series.patches if each.number == bad.number)
    return ApplyFailure(
        kernel=kernel,
        patch=patch,
        of=series.whole,
        file=pathsafety.visible(bad.path),
        hunk="",
        words=str(bad),
        log=log,
    )


def _explained(
    plain: _Attempt,
    merged: _Attempt,
    am: Callable[[str], _Attempt],
    *,
    at: Git,
    on: str,
    kernel: str,
    series: Series,
    log: Path,
) -> ApplyFailure:
    """Why a series does not apply, told from what became of other ways, none of which is taken."""
    if plain.commit or merged.commit:
        words = "git made fewer commits than there are patches: the tree has some of them already"
        failure = refusal(
            plain.reply, kernel=kernel, series=series, number=plain.number or 1, log=log
        )
        return replace(failure, words=f"{failure.words}\n{words}".strip())
    failure = refusal(plain.reply, kernel=kernel, series=series, number=plain.number, log=log)
    lenient = am("--ignore-whitespace")
    there = at.run("cat-file", "blob", f"{on}:{failure.file}")
    content = there.output.decode(errors="surrogateescape") if there.ok else ""
    blanks = whitespace.explains(failure.patch.mail, failure.file, content)
    if blanks or lenient.commit or lenient.number > plain.number:
        return replace(failure, words=f"{failure.words}\n{WHITESPACE}")
    if conflict := re.search(r"^CONFLICT .*$", merged.reply.text, re.M):
        tried = f"a three-way merge does not help: {conflict[0]}"
        return replace(failure, words=f"{failure.words}\n{tried}")
    return failure


def _log(log: Path, words: Iterable[str], reply: Reply) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", errors="surrogateescape") as out:
        print("$ git", *words, file=out)
        for text in filter(None, (reply.text, reply.words)):
            print(text, file=out)


PATCH_FAILED = re.compile(r"^error: patch failed: (?P<file>.*):(?P<line>\d+)$", re.M)
FILE_ERROR = re.compile(
    r"^error: (?P<file>\S.*?): (?:patch does not apply|does not exist in index"
    r"|already exists in (?:index|working directory)|does not match index|wrong type"
    r"|No such file or directory|has type .*|is beyond a symbolic link)",
    re.M,
)
ABOUT_FILE = re.compile(r"^error: .*?'([^']+)'", re.M)


def refusal(
    reply: Reply, *, kernel: str, series: Series, number: int, log: Path | None
) -> ApplyFailure:
    """What `git am` refused, from its words: the file and line of the first hunk that failed."""
    hunk = PATCH_FAILED.search(reply.words)
    file = FILE_ERROR.search(reply.words) or ABOUT_FILE.search(reply.words)
    name = hunk["file"] if hunk else file[1] if file else ""
    told = [line for line in reply.words.splitlines() if line.startswith(("error:", "fatal:"))]
    return ApplyFailure(
        kernel=kernel,
        patch=series.patches[min(number, len(series.patches)) - 1],
        of=series.whole,
        file=name,
        hunk=hunk["line"] if hunk else "",
        words="\n".join(told) or reply.words or reply.text,
        log=log,
    )
