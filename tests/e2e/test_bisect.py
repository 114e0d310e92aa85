"""`git bisect run ktrial run --bisect-exit …` finds the commit that panics."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import cache
from tests.e2e.conftest import CACHE, FAULTS, TREE, Ktrial

pytestmark = pytest.mark.e2e

QUICK = ("--workload", "hackbench:loops=20,groups=1", "--guest", "smp1")
HARMLESS = "a comment more"


class History:
    """A user's repository on top of the tree: it borrows the objects, and has no files."""

    def __init__(self, folder: Path, borrowed: Path) -> None:
        self.folder = folder
        self.git("init", "-q")
        (folder / ".git/objects/info/alternates").write_text(f"{borrowed / 'objects'}\n")
        head = subprocess.run(
            ["git", "--git-dir", str(borrowed), "rev-parse", "HEAD"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        self.git("update-ref", "HEAD", head)
        self.git("read-tree", "HEAD")
        self.commits = [head]

    def git(self, *words: str, stdin: bytes | None = None) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.folder), *words], input=stdin, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()

    def commit(self, content: bytes, subject: str) -> None:
        """The same tree with another mm/slub.c."""
        blob = self.git("hash-object", "-w", "--stdin", stdin=content)
        self.git("update-index", "--cacheinfo", f"100644,{blob},mm/slub.c")
        tree = self.git("write-tree")
        commit = self.git("commit-tree", tree, "-p", self.commits[-1], "-m", subject)
        self.git("update-ref", "HEAD", commit)
        self.commits.append(commit)

    def slub(self) -> bytes:
        return self.git("cat-file", "blob", f"{self.commits[0]}:mm/slub.c").encode() + b"\n"


def fault(name: str) -> bytes:
    """What a fault patch adds to the end of mm/slub.c."""
    lines = (FAULTS / f"{name}.patch").read_text().splitlines()
    return "".join(
        f"{line[1:]}\n" for line in lines if line.startswith("+") and not line.startswith("+++")
    ).encode()


@pytest.fixture
def history(ktrial: Ktrial, tmp_path: Path) -> Iterator[History]:
    # Whoever runs this alone has no tree in the cache yet.
    ran = ktrial("run", "--rev", "HEAD", "--tree", TREE, *QUICK)
    assert ran.exit_code == 0, ran.explain()
    (borrowed,) = (CACHE / "trees" / TREE.replace(":", "-")).glob("repository.git")
    folder = tmp_path / "linux"
    folder.mkdir()
    made = History(folder, borrowed)
    slub = made.slub()
    made.commit(slub + b"/* one */\n", HARMLESS)
    made.commit(slub + fault("does-not-build"), "does not build")
    made.commit(slub + b"/* two */\n", HARMLESS)
    made.commit(slub + fault("panics-at-boot"), "panics")
    made.commit(slub + fault("panics-at-boot") + b"/* three */\n", HARMLESS)
    before = entries()
    yield made
    # This repository never comes back: what was kept for it only takes room.
    for entry in entries() - before:
        if not entry.is_dir():
            entry.unlink(missing_ok=True)
        else:
            cache.remove_unused(entry)


def entries() -> set[Path]:
    return {path for shelf in ("repos", "sources") for path in (CACHE / shelf).glob("*")}


def test_git_bisect_run(ktrial: Ktrial, history: History) -> None:
    commits = history.commits
    history.git("bisect", "start", "--no-checkout", commits[-1], commits[0])
    words = ktrial.command("run", "--rev", "BISECT_HEAD", "--tree", ".", "--bisect-exit", *QUICK)
    done = subprocess.run(
        ["git", "-C", str(history.folder), "bisect", "run", *words],
        env=os.environ | ktrial.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{commits[4]} is the first bad commit" in done.stdout
    ran = ktrial(
        "run", "--rev", commits[2], "--tree", ".", "--bisect-exit", *QUICK, cwd=history.folder
    )
    assert ran.exit_code == 125, ran.explain()
    _a_range_of_the_same_tree(ktrial, history)


def _a_range_of_the_same_tree(ktrial: Ktrial, history: History) -> None:
    """Here, since a second repository would have to be built from clean once more."""
    span = f"{history.commits[0]}..{history.commits[1]}"
    ran = ktrial("run", span, *QUICK, "--tree", ".", cwd=history.folder)
    assert ran.exit_code == 0, ran.explain()
    assert HARMLESS in ran.out
    # A comment at the end of a file: the same kernel, bit for bit, so that none is booted.
    assert "image identical to base" in ran.cases("patched/boot")
    assert "bit for bit the same as base" in ran.out


def test_bad_usage_stops_a_bisection(ktrial: Ktrial) -> None:
    """git takes 1 to 124 for a bad commit, and stops at 128."""
    ran = ktrial("run", "--rev", "HEAD", "--tree", TREE, "--bisect-exit", "--workload", "hakbench")
    assert ran.exit_code == 128, ran.explain()
    ran = ktrial("run", "--rev", "HEAD", "--tree", TREE, "--bisect-exit", "--no-such-option")
    assert ran.exit_code == 128, ran.explain()
