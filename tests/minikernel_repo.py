"""Git repositories of the miniature kernel tree in tests/minikernel, with faults to inject."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

MINIKERNEL = Path(__file__).parent / "minikernel"
TAG = "v5.10"

IDENTITY: Mapping[str, str] = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada Author",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": "2024-01-02T03:04:05Z",
    "GIT_COMMITTER_NAME": "Carl Committer",
    "GIT_COMMITTER_EMAIL": "carl@example.org",
    "GIT_COMMITTER_DATE": "2024-01-02T03:04:05Z",
}


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, f"{path} has no {old!r}"
    path.write_text(text.replace(old, new, 1))


def _syntax_error(tree: Path) -> None:
    _replace(tree / "mm/slub.c", "MINI_ORDER);", "MINI_ORDER;")


def _link_error(tree: Path) -> None:
    _replace(tree / "mm/slub.c", "static int", "int not_there(int, int);\n\nstatic int")
    _replace(tree / "mm/slub.c", "return clamp(", "return not_there(")


def _lost_symbol(tree: Path) -> None:
    """SLUB_DEBUG gets a dependency that nothing can meet."""
    _replace(tree / "mm/Kconfig", "SLUB && SYSFS", "SLUB && SYSFS && BROKEN")


def _missing_file(tree: Path) -> None:
    _replace(tree / "mm/Makefile", "obj-y +=", "obj-y += mm/forgotten.o")


def _makefile_error(tree: Path) -> None:
    with (tree / "mm/Makefile").open("a") as sink:
        sink.write("this is no rule\n")


def _kconfig_error(tree: Path) -> None:
    with (tree / "mm/Kconfig").open("a") as sink:
        sink.write("\nconfigg TYPO\n")


FAULTS: Mapping[str, Callable[[Path], None]] = {
    "syntax-error": _syntax_error,
    "link-error": _link_error,
    "lost-symbol": _lost_symbol,
    "missing-file": _missing_file,
    "makefile-error": _makefile_error,
    "kconfig-error": _kconfig_error,
}


def git(repository: Path, *words: str) -> str:
    """What git printed; the environment is pinned, so commits are the same every time."""
    completed = subprocess.run(
        ("git", "-C", str(repository), *words),
        env={**os.environ, **IDENTITY},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout.strip()


def copy_tree(target: Path, *, faults: Collection[str] = ()) -> Path:
    """The miniature as plain files in `target`, which must not be there yet."""
    shutil.copytree(MINIKERNEL, target)
    for fault in faults:
        FAULTS[fault](target)
    return target


def make_repository(
    path: Path, *, faults: Collection[str] = (), symbols: Mapping[str, str] | None = None
) -> Path:
    """A repository at `path` with the miniature as its first commit, tagged v5.10.

    `faults`: names of FAULTS that the tree has from the start. `symbols`: further kconfig
    symbols that the tree shall know, with a value of the type that they have; those of the
    real fragments, say, so that these can be used as they are.
    """
    copy_tree(path, faults=faults)
    if symbols:
        _declare(path, symbols)
    git(path, "init", "-q", "-b", "main")
    git(path, "add", "-A", "-f")
    git(path, "commit", "-q", "-m", "Linux 5.10 (miniature)")
    git(path, "tag", TAG)
    return path


def break_it(repository: Path, fault: str) -> str:
    """Commit one of FAULTS on top; its commit id."""
    FAULTS[fault](repository)
    return commit(repository, f"mm: {fault.replace('-', ' ')}")


def change(repository: Path, *, order: int, subject: str = "") -> str:
    """Commit another slab order (a one-line change of mm/slub.c); its commit id."""
    text = (repository / "mm/slub.c").read_text()
    start = text.index("clamp(objects, ") + len("clamp(objects, ")
    end = text.index(")", start)
    (repository / "mm/slub.c").write_text(f"{text[:start]}{order}{text[end:]}")
    return commit(repository, subject or f"mm: slub: set order {order}")


def commit(repository: Path, subject: str) -> str:
    git(repository, "add", "-A", "-f")
    git(repository, "commit", "-q", "-m", subject)
    return git(repository, "rev-parse", "HEAD")


def tree_id(repository: Path, revision: str = "HEAD") -> str:
    return git(repository, "rev-parse", f"{revision}^{{tree}}")


def format_patches(repository: Path, revisions: str, folder: Path) -> list[Path]:
    """The commits of a range as `git format-patch` writes them, in order."""
    out = git(repository, "format-patch", "-o", str(folder), revisions)
    return [Path(line) for line in out.splitlines()]


def _declare(tree: Path, symbols: Mapping[str, str]) -> None:
    known = {
        line.split()[1]
        for path in tree.rglob("Kconfig*")
        for line in path.read_text().splitlines()
        if line.startswith("config ")
    }
    with (tree / "Kconfig.extra").open("a") as sink:
        for symbol, value in symbols.items():
            name = symbol.removeprefix("CONFIG_")
            if name not in known:
                sink.write(f'\nconfig {name}\n\t{_type(value)} "{name}"\n')


def _type(value: str) -> str:
    if value in {"y", "m", "n"}:
        return "tristate"
    return "string" if value.startswith('"') else "int"
