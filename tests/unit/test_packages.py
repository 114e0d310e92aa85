from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import packages
from pipeline.catalog import Catalog
from pipeline.packages import Package
from pipeline.settings import PACKAGE, shipped_root


def test_a_line_has_four_fields() -> None:
    read = packages.read("# comment\n\nzstd\tbuild\tzstd\tguest images\n")
    assert read == (Package(name="zstd", group="build", probe="zstd", why="guest images"),)
    (either,) = packages.read("a|b\ttest\ta\twhy")
    assert either.name == "a"
    with pytest.raises(ValueError, match=r"packages.txt:2: expected 4 fields"):
        packages.read("# comment\nzstd build zstd guest images\n")


def test_what_is_shipped_is_whole() -> None:
    shipped = packages.shipped()
    names = [package.name for package in shipped]
    assert len(set(names)) == len(names)
    for package in shipped:
        assert " " not in package.name + package.group
        assert package.probe.partition(":")[0] in ("pc", "header", "path") or (
            package.probe.isprintable() and " " not in package.probe
        )


def test_each_architecture_has_its_qemu_and_its_compiler() -> None:
    catalog = Catalog(data=PACKAGE / "data", share=(shipped_root(),))
    shipped = packages.shipped()
    for name, architecture in catalog.architectures.items():
        (qemu,) = [each for each in shipped if each.probe == architecture.qemu]
        assert (qemu.name, qemu.group) == (architecture.qemu_package, f"qemu-{name}")
        # Programs of ours for its guests are linked with a C library, which GCC only recommends.
        assert {each.name for each in packages.of_groups(shipped, [f"cc-{name}"])} == {
            catalog.toolchains["gcc"].packages[name],
            f"libc6-dev-{architecture.debian_arch}-cross",
        }


def test_the_launcher_knows_every_group() -> None:
    launcher = Path(PACKAGE.parent / "ktrial")
    if not launcher.exists():
        pytest.skip("not a checkout")
    text = launcher.read_text(encoding="utf-8")
    for group in {package.group.partition("-")[0] for package in packages.shipped()}:
        assert group in text


def test_one_command_installs_them() -> None:
    one, two = packages.read("zstd\tbuild\tzstd\twhy\nflex\tbuild\tflex\twhy")
    assert packages.install_command([one, two, one]) == (
        "sudo apt-get install --no-install-recommends zstd flex"
    )
