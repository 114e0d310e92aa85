"""What several tests of real things share."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import settings
from pipeline.catalog import Catalog
from pipeline.intake import Desk
from pipeline.scope import Scope
from tests.conftest import QuietStep


@pytest.fixture
def desk(tmp_path: Path, scope: Scope) -> Desk:
    (tmp_path / "scratch").mkdir()
    found = settings.read({"HOME": str(tmp_path)}, cwd=tmp_path, options={})
    return Desk(
        shelf=Catalog(data=found.data, share=found.share),
        cache=tmp_path / "cache",
        scratch=tmp_path / "scratch",
        cwd=tmp_path,
        native="x86_64",
        scope=scope,
        step=QuietStep(),
    )
