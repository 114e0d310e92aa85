"""A build folder and a source tree with all it takes to run the tree's own make on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pipeline import recipe, sandbox, text
from pipeline.errors import InfraError
from pipeline.process import Completed
from pipeline.progress import Step
from pipeline.recipe import Recipe
from pipeline.sandbox import Sandbox
from pipeline.scope import Scope

DEADLINE = 3600.0


@dataclass(frozen=True, kw_only=True)
class Workbench:
    """`deadline`: seconds that all commands may take together, from the first one on."""

    kernel: str
    recipe: Recipe
    box: Sandbox
    scope: Scope
    step: Step
    logs: Path
    deadline: float = DEADLINE
    environment: Mapping[str, str] = field(default_factory=lambda: recipe.ENVIRONMENT)

    @cached_property
    def limit(self) -> Scope:
        return self.scope.child(self.deadline)

    @property
    def too_long(self) -> str:
        """What is said of a command that timed out."""
        return f"did not end in {self.deadline:g} s"

    def ended(self, completed: Completed) -> str:
        """What a command did for which it was ended from outside, "" where it was not."""
        return completed.stopped or (self.too_long if completed.timed_out else "")

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
        """Run a command in the sandbox. Where it times out, that is the tree's doing.

        Raises:
            InfraError: the deadline of the run as a whole passed, or somebody removed the folders
                under the command.
        """
        completed = sandbox.run(
            self.box,
            command,
            scope=self.limit,
            environment=self.environment,
            log=log,
            on_line=self._note,
        )
        if completed.timed_out and self.scope.expired:
            raise InfraError(
                f"the build of {self.kernel} was cut after {completed.seconds:.0f} s: "
                "its deadline passed",
                hint=f"the log is {log}",
            )
        self._still_there()
        return completed

    def _still_there(self) -> None:
        """What breaks for want of its folders is not the tree's doing: both are mounts in the
        sandbox, which nothing in it can remove."""
        for folder in (self.build, self.source):
            if not folder.is_dir():
                raise InfraError(
                    f"{folder} was removed while {self.kernel} was built in it",
                    hint="run it again, and remove nothing of the cache while a run is on "
                    "(ktrial clean leaves what is in use)",
                )

    def _note(self, line: str) -> None:
        if line.startswith("  "):  # kbuild's short lines: "  CC      mm/slub.o"
            self.step.note(" ".join(text.clean(line).split()))
