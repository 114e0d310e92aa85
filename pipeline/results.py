"""The result folder of a run: where everything lies, and how it is written.

results/<id>/
  summary.txt  junit.xml  result.json
  series/<kernel>/*.eml  apply.<kernel>.log
  builds/<target>.<kernel>/   the kernel, config, build.log, build.sh
  guest/                      the images' initramfs, and the key of this run's guests
  cells/<cell>/<kernel>.block<n>.boot<n>/
                              console.log, domain.xml, qemu.log, outputs/, steps.sh, repeat.sh
results/latest -> <id>
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import Cancelled, UserError
from pipeline.model import (
    BootId,
    Build,
    Revision,
    Scenario,
    Tree,
)


@dataclass(frozen=True)
class Folder:
    """Paths below one run's folder."""

    root: Path

    def apply_log(self, kernel: str) -> Path:
        return self.root / f"apply.{kernel}.log"

    def build(self, target: str, kernel: str) -> Path:
        return made(self.root / "builds" / f"{target}.{kernel}")

    def boot(self, boot: BootId) -> Path:
        name = f"{boot.kernel}.block{boot.block}.boot{boot.boot}"
        return made(self.root / "cells" / boot.cell.name / name)


def made(folder: Path) -> Path:
    """The folder, which is there on return."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def new_folder(results: Path) -> Iterator[Folder]:
    """A new run's folder. It goes again where bad input or Ctrl-C ends the run without evidence;
    after any other error what lies in it is worth keeping.

    Raises UserError where it cannot be written.
    """
    run_id = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"
    root = results / run_id
    before = _latest(results)
    missing = [path for path in (results, *results.parents) if not path.exists()]
    try:
        root.mkdir(parents=True)
        if not (results / ".gitignore").exists():
            # It often lies in a kernel tree: neither `git add` nor `git clean` is to touch it.
            (results / ".gitignore").write_text("*\n")
    except OSError as error:
        raise UserError(
            f"cannot write results to {results}: {error.strerror}", hint="give --results DIR"
        ) from error
    try:
        yield Folder(root)
    except (UserError, Cancelled):
        shutil.rmtree(root, ignore_errors=True)
        if _latest(results) == root.name:
            _name_latest(results, before)
        if results in missing:
            (results / ".gitignore").unlink(missing_ok=True)
        for path in missing:
            with suppress(OSError):
                path.rmdir()
        raise


def point_latest(folder: Folder) -> None:
    """Let `latest` name this run; readers never see it missing. A `latest` that is no link, or a
    file system without links, keeps things as they are.

    Named from its first JUnit file on: else whoever reads `latest` of a killed run would take an
    older run's results for its own. A run that leaves nothing gives the name back.
    """
    _name_latest(folder.root.parent, folder.root.name)


def _latest(results: Path) -> str:
    """The run that `latest` names, "" for none."""
    link = results / "latest"
    try:
        return str(link.readlink()) if link.is_symlink() else ""
    except OSError:
        return ""


def _name_latest(results: Path, run: str) -> None:
    link = results / "latest"
    if link.exists() and not link.is_symlink():
        return
    fresh = results / f".latest.{run}"
    with suppress(OSError):
        if not run:
            link.unlink()
            return
        fresh.symlink_to(run)
        fresh.replace(link)


def write(path: Path, text: str) -> None:
    """Write a whole file or nothing: a reader or a kill never finds half of it."""
    fresh = path.with_name(f".{path.name}.part")
    try:
        fresh.write_text(text, encoding="utf-8", errors="replace")
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)  # on a full disk it would keep what others need
        raise


def link(source: Path, target: Path) -> None:
    """Have a file that the cache may drop in the results too, at no cost where that can be.

    Boots beside each other want the same file at the same moment.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        try:
            os.link(source, fresh)
        except OSError:
            shutil.copyfile(source, fresh)
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)  # rename(2) leaves it where both were one file already


def keep_series(folder: Folder, scenario: Scenario) -> None:
    """Put the mails of each kernel beside the results, as `git am` takes them."""
    for kernel in scenario.kernels:
        for patch in kernel.series.patches if kernel.series else ():
            if patch.mail:
                target = made(folder.root / "series" / kernel.name)
                (target / f"{patch.number:04}.eml").write_bytes(patch.mail)


def keep_build(folder: Folder, result: Build, target: str, tree: Tree, revision: Revision) -> None:
    """Put kernel, configuration, log and the script that repeats the build beside the results."""
    here = folder.build(target, result.kernel)
    link(result.image, here / result.image.name)
    for name, source in (
        ("config", result.config),
        ("build.log", result.log),
        ("build.sh", result.folder / "build.sh"),
    ):
        if source.is_file() and source != here / name:
            shutil.copyfile(source, here / name)
    name_source(here / "build.sh", tree, revision)


def name_source(script: Path, tree: Tree, revision: Revision) -> None:
    """Say in a build's script which source it is for, and how to get it."""
    if not script.is_file():
        return
    shebang, _, rest = script.read_text(encoding="utf-8").partition("\n")
    note = (
        f"# The source: commit {revision.commit} on base {tree.base} of {tree.name}.\n"
        f"#   git fetch {tree.repository} {revision.commit} && git checkout FETCH_HEAD\n"
    )
    if (script.parents[2] / "series" / revision.kernel).is_dir():
        note += f"# or, on base: git am series/{revision.kernel}/*.eml of this run's folder\n"
    write(script, f"{shebang}\n{note}{rest}")
    script.chmod(0o755)
