"""The user's files as they lie, uncommitted changes and all, as a commit of ours.

Nothing is written over there: not the index, whose copy is brought up to date here, and no
object, which goes into our own repository. What git does not track is left out, as `git stash`
does: a build folder within the tree, say.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pipeline import cache as caches
from pipeline import userrepo
from pipeline.errors import UserError
from pipeline.model import Revision, Role, Tree
from pipeline.repository import Git, Reply
from pipeline.scope import Scope

WHO = "ktrial <ktrial@localhost> 946684800 +0000"  # the same files, the same commit


def as_it_lies(tree: Tree, *, scope: Scope) -> Revision:
    """The tracked files of the work tree that `tree` was opened from, whose base is HEAD there.

    The same files on the same commit give the same commit. Without changes it is `tree.base`.

    Raises:
        UserError: it has no files (a bare repository), or they cannot be read.
    """
    source = userrepo.find(Path(tree.name))
    if source is None or source.work_tree is None:
        raise UserError(
            f"{tree.name} is a bare repository: there are no files in it",
            hint="name a revision with --rev",
        )
    lenders = userrepo.object_folders(source.objects)
    with caches.making(tree.repository / "ktrial", "worktree") as folder:
        at = Git(
            git_dir=tree.repository,
            scope=scope,
            work_tree=source.work_tree,
            index=folder / "index",
            read_only=lenders,
        )
        tree_id = _written(at, source.git_dir / "index", tree.base)
        commit = _committed(at, tree_id, tree.base)
    changed = at.output("diff-tree", "-r", "-z", "--name-only", "--no-renames", tree.base, commit)
    return Revision(
        kernel="tree",
        role=Role.BASE,
        commit=commit,
        tree_id=tree_id,
        files_changed=tuple(changed.decode(errors="surrogateescape").split("\0")[:-1]),
    )


def _written(at: Git, theirs: Path, base: str) -> str:
    """The tree of the files. Their index tells which need not be read again (75,000 files take
    seconds); one that depends on files beside it (split, sparse) is done without."""
    assert at.index is not None
    if theirs.is_file():
        # With its time: git takes an entry that is as new as the index for possibly changed.
        shutil.copy2(theirs, at.index)
        if _taken(at).ok and (written := at.run("write-tree")).ok:
            return written.text
    at.index.unlink(missing_ok=True)
    at.text("read-tree", base)
    if not (reply := _taken(at)).ok:
        raise UserError(
            f"the files in {at.work_tree} cannot be taken: {reply.words}",
            hint="name a revision with --rev",
        )
    return at.text("write-tree")


def _taken(at: Git) -> Reply:
    return at.run("add", "--update", "--", ":/")


def _committed(at: Git, tree_id: str, base: str) -> str:
    if tree_id == at.text("rev-parse", "--verify", f"{base}^{{tree}}"):
        return base
    content = (
        f"tree {tree_id}\nparent {base}\nauthor {WHO}\ncommitter {WHO}\n\n"
        "what lies in the work tree\n"
    )
    return at.text("hash-object", "-t", "commit", "-w", "--stdin", stdin=content.encode())
