"""kernelbuild with the settings of a test."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack

from pipeline import kernelbuild
from pipeline.catalog import Catalog
from pipeline.kernelbuild import Wish
from pipeline.model import Build
from pipeline.progress import Step
from pipeline.scope import Scope
from pipeline.settings import Settings
from pipeline.workbench import Workbench


class Maker:
    """For whoever has these four."""

    shelf: Catalog
    settings: Settings
    scope: Scope
    step: Step

    def make(self, wish: Wish, stack: ExitStack | None = None) -> Build:
        built = kernelbuild.make(
            wish,
            shelf=self.shelf,
            settings=self.settings,
            scope=self.scope,
            step=self.step,
            stack=stack,
        )
        assert isinstance(built, Build), built
        return built

    def bench(
        self, wish: Wish, built: Build, *, copy: bool = True
    ) -> AbstractContextManager[Workbench]:
        return kernelbuild.bench(
            wish,
            built,
            copy=copy,
            shelf=self.shelf,
            settings=self.settings,
            scope=self.scope,
            step=self.step,
        )
