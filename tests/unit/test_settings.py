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
    for name in ("mine", "config/ktrial", ".ktrial"):
        (tmp_path / name).mkdir(parents=True)
    found = read({"XDG_CONFIG_HOME": str(tmp_path / "config")}, tmp_path, share="mine")
    # Nothing comes from the current folder by itself: it may be the tree on trial.
    own = (tmp_path / "mine", tmp_path / "config" / "ktrial")
    assert found.share == (*own, settings.shipped_root())


def test_a_share_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--share: nope is no folder"):
        read({}, tmp_path, share="nope")


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
