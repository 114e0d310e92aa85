"""The kernel that `ktrial shell` boots: the tree at hand as it lies, built by the real stages."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from pipeline import settings, shell
from pipeline.catalog import Catalog
from pipeline.errors import UserError
from pipeline.progress import QuietReporter
from pipeline.scope import Scope
from pipeline.shell import Place, ShellRequest
from pipeline.terminal import Ends
from tests.minikernel_repo import FAULTS, make_repository

X86 = "x86_64"


class Told(QuietReporter):
    """Remembers what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture
def place(tmp_path: Path, scope: Scope) -> Place:
    """In a folder of a miniature tree that knows the symbols of the real fragments."""
    found = settings.read({"HOME": str(tmp_path)}, cwd=tmp_path, options={"jobs": 2})
    shelf = Catalog(data=found.data, share=found.share)
    wanted = ("base", *shelf.architecture(X86).fragments)
    symbols = {k: v for name in wanted for k, v in shelf.fragments[name].symbols.items()}
    repo = make_repository(tmp_path / "linux", symbols=symbols)
    return Place(
        settings=found,
        shelf=shelf,
        reporter=Told(),
        scope=scope,
        cwd=repo / "mm",
        machine=X86,
        memory=4096,
        ends=Ends(),
    )


def build(place: Place, tmp_path: Path, request: ShellRequest) -> bytes:
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    with ExitStack() as stack:
        found = shell.find_kernel(request, place, work, stack)
        assert found.architecture.name == X86
        return found.image.read_bytes()


def test_an_uncommitted_change_is_in_the_kernel(place: Place, tmp_path: Path) -> None:
    request = ShellRequest(architecture=X86)
    before = build(place, tmp_path, request)
    source = place.cwd / "slub.c"
    changed = source.read_text().replace("clamp(objects, ", "clamp(objects + 41, ")
    source.write_text(changed)
    after = build(place, tmp_path, request)
    assert after != before
    # The commit itself is still what it was, and comes from the cache.
    assert build(place, tmp_path, ShellRequest(architecture=X86, rev="HEAD")) == before
    assert source.read_text() == changed
    reporter = place.reporter
    assert isinstance(reporter, Told)
    assert reporter.lines == [f"{place.cwd.parent} with uncommitted changes in 1 file"]


def test_a_change_that_does_not_build_is_shown(place: Place, tmp_path: Path) -> None:
    FAULTS["syntax-error"](place.cwd.parent)
    with pytest.raises(UserError, match=r"mm/slub\.c"):
        build(place, tmp_path, ShellRequest(architecture=X86))
    reporter = place.reporter
    assert isinstance(reporter, Told)
    assert "slub.c" in reporter.lines[-1]


def test_outside_of_a_tree_it_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no kernel to boot") as caught:
        shell.tree_spec(ShellRequest(), tmp_path)
    assert "--kernel" in caught.value.hint
    named = shell.tree_spec(ShellRequest(tree="debian:6.12"), tmp_path)
    assert (named.name, named.base) == ("debian:6.12", "HEAD")


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(UserError, match="built already"):
        shell.check(ShellRequest(kernel="bzImage", kconfigs=("lockdep",)))
    with pytest.raises(UserError, match="no exit status") as caught:
        shell.check(ShellRequest(console=True, command=("uname", "-r")))
    assert caught.value.hint.endswith("-- uname -r")


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (ShellRequest(guest="smp3x"), "unknown guest “smp3x”"),
        (ShellRequest(kernel="/nowhere/bzImage"), "/nowhere/bzImage: No such file"),
        (ShellRequest(image="gone.qcow2"), "there is no image gone.qcow2"),
        (ShellRequest(architecture="aarch46"), "unknown architecture “aarch46”"),
        (ShellRequest(kconfigs=("lockup",)), "unknown kconfig fragment “lockup”"),
        (ShellRequest(guest="hugemem"), "guest hugemem cannot be had here: it may take 16592 MiB"),
        (ShellRequest(rev="no-such"), "there is no revision “no-such”"),
    ],
)
def test_bad_input_is_refused_before_anything_is_built(
    place: Place, request_: ShellRequest, told: str
) -> None:
    with pytest.raises(UserError, match=re.escape(told)):
        shell.shell(request_, place)
    assert not (place.settings.cache / "builds").exists()
    assert not list(place.settings.cache.glob("tmp/*"))
