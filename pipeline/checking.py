"""A check of one kernel of a series: by make on the kernel and the one below it, or by a script
of base's tree on each patch."""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from pipeline import kernelbuild, sourcechecks
from pipeline.catalog import Catalog
from pipeline.kernelbuild import Wish
from pipeline.model import Build, Checked, CheckSpec, Patch, Revision, Series, Tree
from pipeline.progress import Step
from pipeline.repository import Git
from pipeline.sandbox import Sandbox
from pipeline.scope import Scope
from pipeline.settings import Settings
from pipeline.sourcechecks import Heard, Touched

SHOWN = 3  # reasons why nothing was read


@dataclass(frozen=True, kw_only=True)
class Side:
    """A kernel that was built, with what it was asked for."""

    wish: Wish
    built: Build


@dataclass(frozen=True, kw_only=True)
class Checker:
    """What every check needs. `log_folder`: where what was printed is kept."""

    shelf: Catalog
    settings: Settings
    scope: Scope
    step: Step
    log_folder: Path

    def by_make(self, spec: CheckSpec, below: Side, this: Side) -> Checked:
        """What make with the arguments of `spec` says of the objects of the files in which `this`
        differs from `below`, and did not say of `below`.

        Raises:
            InfraError: as `kernelbuild.bench`.
        """
        self.log_folder.mkdir(parents=True, exist_ok=True)
        touched, heard = self._hear(spec, this, Touched(), "patched")
        _, before = self._hear(spec, below, touched, "below")
        told = this.built.warnings or ()
        checked = sourcechecks.compare(spec, before, heard, told=told)
        return with_reason(replace(checked, left_out=touched.left_out))

    def _hear(
        self, spec: CheckSpec, side: Side, touched: Touched, name: str
    ) -> tuple[Touched, Heard]:
        with kernelbuild.bench(
            side.wish,
            side.built,
            copy=True,
            shelf=self.shelf,
            settings=self.settings,
            scope=self.scope,
            step=self.step,
        ) as bench:
            if name == "patched":
                touched = sourcechecks.touched(side.wish.revision.files_changed, bench)
            log = self.log_folder / f"{spec.name}-{name}.log"
            return touched, sourcechecks.run(spec, bench, touched.objects, log)

    def on_patches(self, spec: CheckSpec, tree: Tree, base: Revision, series: Series) -> Checked:
        """What a script of base says of each patch of a series.

        Raises:
            InfraError: no sandbox, or the deadline passed.
        """
        self.log_folder.mkdir(parents=True, exist_ok=True)
        at = Git(git_dir=tree.repository, scope=self.scope)
        with self._scripts(spec, at, base) as box:
            heard = []
            for patch in series.patches:
                self.step.note(patch.subject)
                log = self.log_folder / f"{spec.name}-{patch.number}.log"
                mail = patch.mail or at.output("format-patch", "--stdout", "-1", patch.commit)
                name = _name(patch)
                heard.append(
                    sourcechecks.on_patch(spec, box, mail, log, name=name, scope=self.scope)
                )
        return with_reason(sourcechecks.compare(spec, Heard(), sourcechecks.together(heard)))

    @contextmanager
    def _scripts(self, spec: CheckSpec, at: Git, base: Revision) -> Iterator[Sandbox]:
        """A sandbox with the folder of base's script, and nothing else of the tree."""
        where = str(PurePosixPath(spec.script[0]).parent)
        with tempfile.TemporaryDirectory() as folder:
            source, build = Path(folder) / "source", Path(folder) / "build"
            source.mkdir()
            build.mkdir()
            if at.output("ls-tree", base.commit, where):
                archive = at.output("archive", base.commit, where)
                with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
                    packed.extractall(source, filter="data")
            yield Sandbox(source=source, build=build, enabled=self.settings.sandboxed)


def with_reason(checked: Checked) -> Checked:
    """A check that read nothing, and says nothing, has found nothing out: that is a problem."""
    if checked.read or checked.new or checked.problem:
        return checked
    why = "; ".join(checked.left_out[:SHOWN]) or "no object here is made of what changed"
    return replace(checked, problem=f"{checked.check} read nothing: {why}")


def _name(patch: Patch) -> str:
    """What a finding about the mail itself is filed under."""
    return f"patch {patch.number}"
