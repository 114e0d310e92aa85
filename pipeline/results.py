"""The result folder of a run: where everything lies, and how it is written.

results/<id>/
  summary.txt  junit.xml  result.json
  apply.<kernel>.log
  builds/<arch>.<kernel>/     .config, build.log, build.sh
  cells/<cell>/<kernel>.block<n>.boot<n>/
                              console.log, domain.xml, qemu.log, outputs/, repeat.sh
results/latest -> <id>
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import UserError
from pipeline.model import BootId, Build, BuildFailure, ConfigFailure


@dataclass(frozen=True)
class Folder:
    """Paths below one run's folder."""

    root: Path

    def apply_log(self, kernel: str) -> Path:
        return self.root / f"apply.{kernel}.log"

    def build(self, architecture: str, kernel: str) -> Path:
        return made(self.root / "builds" / f"{architecture}.{kernel}")

    def boot(self, boot: BootId) -> Path:
        name = f"{boot.kernel}.block{boot.block}.boot{boot.boot}"
        return made(self.root / "cells" / boot.cell.name / name)

    def relative(self, path: Path | None) -> str:
        """As the reports name it: relative to the folder where it lies below it."""
        if path is None:
            return ""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)


def made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def new_folder(results: Path) -> Iterator[Folder]:
    """A new run's folder; gone again where the run ends in an error before it was kept.

    Raises UserError where it cannot be written.
    """
    run_id = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"
    root = results / run_id
    missing = [path for path in (results, *results.parents) if not path.exists()]
    try:
        root.mkdir(parents=True)
    except OSError as error:
        raise UserError(
            f"cannot write results to {results}: {error.strerror}", hint="give --results DIR"
        ) from error
    try:
        yield Folder(root)
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        for path in missing:
            _remove_if_empty(path)
        raise


def _remove_if_empty(path: Path) -> None:
    with suppress(OSError):
        path.rmdir()


def point_latest(folder: Folder) -> None:
    """Let `latest` name this run; readers never see it missing."""
    link = folder.root.parent / "latest"
    fresh = folder.root.parent / f".latest.{folder.root.name}"
    fresh.symlink_to(folder.root.name)
    fresh.replace(link)


def write(path: Path, text: str) -> None:
    """Write a whole file or nothing: a reader or a kill never finds half of it."""
    fresh = path.with_name(f".{path.name}.part")
    fresh.write_text(text, encoding="utf-8", errors="replace")
    fresh.replace(path)


def keep_build(folder: Folder, result: Build | BuildFailure | ConfigFailure) -> None:
    """Put the final .config, the log and the script that repeats the build beside the results."""
    if not isinstance(result, Build):
        return
    target = folder.build(result.architecture, result.kernel)
    for name, source in (
        (".config", result.config),
        ("build.log", result.log),
        ("build.sh", result.folder / "build.sh"),
    ):
        if source.is_file() and source != target / name:
            shutil.copyfile(source, target / name)
