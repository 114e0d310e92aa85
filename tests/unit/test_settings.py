from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import settings
from pipeline.errors import UserError


def read(
    environment: dict[str, str], cwd: Path, **options: str | bool | int | None
) -> settings.Settings:
    return settings.read({"HOME": "/home/ada"} | environment, cwd=cwd, options=options)


def test_options_go_before_variables_before_defaults(tmp_path: Path) -> None:
    found = read({"KTRIAL_CACHE": "/v", "KTRIAL_RESULTS": "/r"}, tmp_path, cache="/o")
    assert (found.cache, found.origins["cache"]) == (Path("/o"), "--cache")
    assert (found.results, found.origins["results"]) == (Path("/r"), "KTRIAL_RESULTS")
    assert found.origins["connect"] == "default"


def test_the_cache_follows_xdg(tmp_path: Path) -> None:
    assert read({}, tmp_path).cache == Path("/home/ada/.cache/ktrial")
    assert read({"XDG_CACHE_HOME": "/x"}, tmp_path).cache == Path("/x/ktrial")


def test_the_users_own_roots_come_first(tmp_path: Path) -> None:
    (tmp_path / ".ktrial").mkdir()
    found = read({}, tmp_path, share="/mine")
    assert found.share == (Path("/mine"), tmp_path / ".ktrial", settings.shipped_root())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accel": "xen"}, "unknown accelerator xen"),
        ({"jobs": 0}, "--jobs: 0 is not a number of jobs"),
    ],
)
def test_bad_values_name_their_origin(
    tmp_path: Path, options: dict[str, str | int], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        read({}, tmp_path, **options)


def test_auto_means_measured(tmp_path: Path) -> None:
    assert read({}, tmp_path, accel="auto").accel is None
