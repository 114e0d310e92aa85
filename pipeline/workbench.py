"""A build folder and a source tree with all it takes to run the tree's own make on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline import recipe, sandbox
from pipeline.errors import InfraError
from pipeline.process import Completed
from pipeline.progress import Step
from pipeline.recipe import Recipe
from pipeline.sandbox import Sandbox
from pipeline.scope import Scope


@dataclass(frozen=True, kw_only=True)
class Workbench:
    kernel: str
    recipe: Recipe
    box: Sandbox
    scope: Scope
    step: Step
    logs: Path

    @property
    def source(self) -> Path:
        """The tree's folder on the host."""
        return self.box.source

    @property
    def build(self) -> Path:
        """The build folder on the host."""
        return self.box.build

    @property
    def roots(self) -> tuple[str, str]:
        """Both as the tree's programs name them in what they print."""
        return str(self.box.seen_source), str(self.box.seen_build)

    def run(self, command: Sequence[str], log: Path) -> Completed:
        """Run a command in the sandbox.

        Raises:
            InfraError: its deadline passed.
        """
        completed = sandbox.run(
            self.box,
            command,
            scope=self.scope,
            environment=recipe.ENVIRONMENT,
            log=log,
            on_line=self._note,
        )
        if completed.timed_out:
            raise InfraError(
                f"the build of {self.kernel} was cut after {completed.seconds:.0f} s: "
                "its deadline passed",
                hint=f"the log is {log}",
            )
        return completed

    def _note(self, line: str) -> None:
        if line.startswith("  "):  # kbuild's short lines: "  CC      mm/slub.o"
            self.step.note(" ".join(line.split()))
