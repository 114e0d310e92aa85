"""Kernel trees: opened from a Debian package or a git repository, and series applied to them."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from pipeline import apt, fastimport, repository, userrepo
from pipeline import cache as caches
from pipeline.apt import TreeUnavailable
from pipeline.errors import InfraError, UserError
from pipeline.model import ApplyFailure, KernelPlan, Patch, Revision, Series, Tree, TreeSpec
from pipeline.progress import Step
from pipeline.repository import Git, Reply
from pipeline.scope import Scope

__all__ = ["TreeUnavailable", "apply", "open_tree", "read_range"]

DEBIAN_BYTES = 3 * 10**9  # package, tarball, pack, and the tree laid out from it
MOST_COMMITS = 1000
VERSION_LINE = re.compile(r"^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION)[ \t]*=[ \t]*(\S*)", re.M)
DEBIAN_VERSION = re.compile(r"\d+\.\d+")


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
    base = _resolve(Git(git_dir=source.git_dir, scope=scope), spec.base, where=spec.name)
    at = Git(git_dir=ours, scope=scope)
    if userrepo.is_partial(source):
        _check_whole(at, spec, base)
    return Tree(
        name=spec.name,
        origin=f"{_slug(Path(spec.name).resolve().name)}-{ours.stem}",
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


def _slug(text: str) -> str:
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


# --------------------------------------------------------------------------- Debian


def _debian(spec: TreeSpec, version: str, cache: Path, scope: Scope, step: Step) -> Tree:
    if not DEBIAN_VERSION.fullmatch(version):
        raise UserError(
            f"{spec.name} names no kernel version", hint="it looks like debian:5.10 or debian:6.12"
        )
    folder = cache / "trees" / f"debian-{version}"

    def wait() -> None:
        step.note(f"another run is importing {spec.name}")

    with caches.locked(folder.with_name(f"{folder.name}.lock"), scope=scope, on_wait=wait):
        caches.entry(folder, lambda at: _import_debian(version, at, cache, scope, step))
    at = Git(git_dir=folder / "repository.git", scope=scope)
    base = _resolve(at, spec.base, where=spec.name)
    package = json.loads((folder / "metadata.json").read_text())
    return Tree(
        name=spec.name,
        origin=folder.name,
        repository=at.git_dir,
        base=base,
        version=_kernel_version(at, base, where=spec.name),
        description=f"Debian {package['package']} {package['version']}",
    )


def _import_debian(version: str, target: Path, cache: Path, scope: Scope, step: Step) -> None:
    free = caches.free_bytes(cache)
    if free < DEBIAN_BYTES:
        raise InfraError(
            f"{free / 1e9:.1f} GB free in {cache}, a Debian tree needs {DEBIAN_BYTES / 1e9:.0f} GB",
            hint="free some space, for instance with `ktrial clean`, or use another --cache",
        )
    with caches.scratch(cache, "apt") as work:
        package = apt.fetch(version, work=work, scope=scope, step=step)
        ours = target / "repository.git"
        ours.mkdir()
        repository.create(ours, scope=scope)
        commit = fastimport.import_tarball(
            package.tarball,
            ours,
            message=f"{package.name} {package.version}\n",
            scope=scope,
            note=lambda count: step.note(f"importing {package.name}: {count} files"),
        )
    metadata = {"package": package.name, "version": package.version, "commit": commit}
    (target / "metadata.json").write_text(json.dumps(metadata))


# --------------------------------------------------------------------------- revisions


def _resolve(at: Git, revision: str, *, where: str) -> str:
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


def read_range(tree: Tree, text: str, *, scope: Scope | None = None) -> tuple[Tree, Series, str]:
    """The commits `A..B`, or `B` alone for those since the tree's base.

    Returns the tree with its base set to where B branched off from A, the series that
    describes the commits (oldest first), and B's commit id.

    Raises:
        UserError: an unknown revision, an empty range, histories that do not meet.
    """
    if "..." in text:
        raise UserError(f"“{text}” is not a range", hint="write it with two dots: A..B")
    scope = scope or Scope()
    names = _names_at(tree, scope)
    low, dots, high = text.rpartition("..")
    start = _resolve(names, low or "HEAD", where=tree.name) if dots else tree.base
    tip = _resolve(names, high or "HEAD", where=tree.name)
    at = Git(git_dir=tree.repository, scope=scope)
    base = _merge_base(at, start, tip, text)
    commits = at.text("rev-list", "--reverse", "--topo-order", f"{base}..{tip}").split()
    if not commits:
        raise UserError(
            f"there are no commits in {text if dots else f'{tree.base[:12]}..{text}'}",
            hint=f"for the one commit, write {high or 'HEAD'}^..{high or 'HEAD'}",
        )
    series = _describe(at, commits, text, tree)
    version = _kernel_version(at, base, where=tree.name)
    return replace(tree, base=base, version=version), series, tip


def _names_at(tree: Tree, scope: Scope) -> Git:
    """Where the tree's branches and tags are: with the user, we borrow objects alone."""
    if TreeSpec(name=tree.name).debian_version is not None:
        return Git(git_dir=tree.repository, scope=scope)
    return Git(git_dir=_source(tree.name).git_dir, scope=scope)


def _merge_base(at: Git, start: str, tip: str, text: str) -> str:
    reply = at.run("merge-base", start, tip)
    if reply.ok:
        return reply.text
    shallow = (at.git_dir / "shallow").is_file()
    raise UserError(
        f"the two sides of {text} have no common ancestor",
        hint="the clone is shallow: git fetch --unshallow" if shallow else "check both names",
    )


def _describe(at: Git, commits: Sequence[str], text: str, tree: Tree) -> Series:
    shown = commits[-MOST_COMMITS:]
    listing = at.output(
        "log", "--no-walk=unsorted", "--stdin", "--name-only", "--no-renames", "-m",
        "--first-parent", "-z", "--format=%x01%H%x02%s%x02%an%x02%ae%x02",
        stdin="\n".join(shown).encode(),
    )  # fmt: skip
    patches = read_commits(listing, first=len(commits) - len(shown) + 1)
    left_out = len(commits) - len(shown)
    notes = (f"the first {left_out} commits are not listed",) if left_out else ()
    return Series(name=_slug(text), origin=f"{text} in {tree.name}", patches=patches, notes=notes)


def read_commits(listing: bytes, *, first: int = 1) -> tuple[Patch, ...]:
    """Patches from `git log -z --name-only` with \\1 before each commit and \\2 between fields."""
    patches = []
    records = listing.decode("utf-8", errors="surrogateescape").split("\x01")[1:]
    for number, record in enumerate(records, start=first):
        commit, subject, author, email, rest = record.split("\x02", 4)
        files = tuple(name for name in rest.strip("\n").replace("\n", "\0").split("\0") if name)
        patches.append(
            Patch(
                number=number, subject=subject, author=author, email=email,
                files=files, commit=commit,
            )
        )  # fmt: skip
    return tuple(patches)


# --------------------------------------------------------------------------- apply


def apply(
    tree: Tree, plan: KernelPlan, *, on: str, log: Path, scope: Scope
) -> Revision | ApplyFailure:
    """The kernel of `plan` on top of the commit `on`, as a commit in the tree's repository.

    The same series on the same commit always gives the same commit: git's committer is
    fixed and the date is the author's. What git says goes to `log`.
    """
    at = Git(git_dir=tree.repository, scope=scope)
    commit = plan.commit or on
    if plan.commit is None and plan.series is not None:
        done = _am(tree, plan.name, plan.series, on=on, log=log, scope=scope)
        if isinstance(done, ApplyFailure):
            return done
        commit = done
    changed = at.output("diff-tree", "-r", "-z", "--name-only", "--no-renames", on, commit)
    return Revision(
        kernel=plan.name,
        role=plan.role,
        commit=commit,
        tree_id=at.text("rev-parse", "--verify", f"{commit}^{{tree}}"),
        files_changed=tuple(changed.decode(errors="surrogateescape").split("\0")[:-1]),
    )


def _am(
    tree: Tree, kernel: str, series: Series, *, on: str, log: Path, scope: Scope
) -> str | ApplyFailure:
    with caches.making(tree.repository / "ktrial", "am") as folder:
        mails = [folder / f"{number:04}.eml" for number in range(1, len(series.patches) + 1)]
        for mail, patch in zip(mails, series.patches, strict=True):
            mail.write_bytes(patch.mail)
        with repository.detached(tree.repository, on, folder=folder, scope=scope) as at:
            words = ("am", "--committer-date-is-author-date", "--patch-format=mbox")
            reply = at.run(*words, *map(str, mails))
            _log(log, [*words, *(mail.name for mail in mails)], reply)
            if reply.ok:
                return at.text("rev-parse", "--verify", "HEAD^{commit}")
            if not (at.git_dir / "rebase-apply").is_dir() or not series.patches:
                raise repository.failure(("am",), reply.words)
            number = int((at.git_dir / "rebase-apply" / "next").read_text())
    return refusal(reply, kernel=kernel, series=series, number=number, log=log)


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
        of=len(series.patches),
        file=name,
        hunk=hunk["line"] if hunk else "",
        words="\n".join(told) or reply.words or reply.text,
        log=log,
    )
