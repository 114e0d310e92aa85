"""Make command lines, compilers and keys."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import recipe, store, workspaces
from pipeline.buildkeys import key_of
from pipeline.compiler import Compiler, prefix_of
from pipeline.errors import InfraError, UserError
from pipeline.model import FileTimes
from pipeline.workspaces import dump_times, load_times
from tests.build_setup import GCC, architecture

CROSS = Compiler(
    program="aarch64-linux-gnu-gcc",
    prefix="aarch64-linux-gnu-",
    version="aarch64-linux-gnu-gcc (Debian 12.2.0-14) 12.2.0",
    linker="GNU ld 2.40",
    make=("V=0",),
)
ARM = recipe.Recipe(
    architecture=architecture("aarch64"),
    compiler=CROSS,
    source=Path("/src"),
    build=Path("/build"),
    jobs=3,
)

MODULAR = {"CONFIG_MODULES": "y", "CONFIG_A": "m"}


def test_compile() -> None:
    assert " ".join(ARM.compile(MODULAR)) == (
        "make -C /src O=/build ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu- V=0 -j3 "
        "--output-sync=target KCFLAGS=-g1 Image modules"
    )


def test_configure_merges_the_fragments_in_their_order() -> None:
    tiny, merge, old = ARM.configure(
        (Path("/fragments/00-a.config"), Path("/fragments/01-b.config"))
    )
    assert (tiny[-1], old[-1]) == ("tinyconfig", "olddefconfig")
    assert merge[-2:] == ("/fragments/00-a.config", "/fragments/01-b.config")
    assert merge[1] == "/src/scripts/kconfig/merge_config.sh"


def test_configure_from_another_base() -> None:
    (made,) = ARM.configure((), base="allnoconfig")
    assert made[-1] == "allnoconfig"
    made, _, _ = ARM.configure((Path("/fragments/00-a.config"),), base="randconfig", seed=42)
    assert made[-2:] == ("KCONFIG_SEED=42", "randconfig")
    (made,) = ARM.configure((), base="randconfig", seed=42, probability="10")
    assert made[-3:] == ("KCONFIG_SEED=42", "KCONFIG_PROBABILITY=10", "randconfig")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"CONFIG_MODULES": "y", "CONFIG_A": "m"}, True),
        ({"CONFIG_MODULES": "y", "CONFIG_A": "y"}, False),
        ({"CONFIG_A": "m"}, False),
    ],
)
def test_modules_are_wanted_where_there_are_any(config: dict[str, str], expected: bool) -> None:
    assert recipe.wants_modules(config) is expected


def test_script_is_valid_shell_and_names_no_sandbox_path(tmp_path: Path) -> None:
    text = recipe.render_script(ARM, MODULAR)
    assert "without the sandbox" in text
    path = tmp_path / "build.sh"
    path.write_text(text)
    subprocess.run(("sh", "-n", path), check=True)
    assert "-C /src" not in text
    assert "O=/build" not in text
    assert "-fdebug-prefix-map=$folder=/build" in text
    assert "export PATH=/usr/sbin:/usr/bin:/sbin:/bin\n" in text
    assert 'make -C "$tree" "O=$folder" ARCH=arm64' in text


@pytest.mark.parametrize(
    ("name", "machine", "expected"),
    [
        ("x86_64", "x86_64", ""),
        ("aarch64", "x86_64", "aarch64-linux-gnu-"),
        ("aarch64", "aarch64", ""),
        ("x86_64", "aarch64", "x86_64-linux-gnu-"),
    ],
)
def test_prefix_in_both_directions(name: str, machine: str, expected: str) -> None:
    assert prefix_of(GCC, architecture(name), machine) == expected


def test_prefix_for_one_host_only() -> None:
    odd = replace(GCC, compilers={"x86_64-on-riscv64": "x86-", "x86_64": "y-"})
    assert prefix_of(odd, architecture("x86_64"), "riscv64") == "x86-"


def test_toolchain_without_the_architecture() -> None:
    with pytest.raises(UserError, match="no compiler for aarch64"):
        prefix_of(replace(GCC, compilers={}), architecture("aarch64"), "x86_64")


def test_identity_holds_version_and_arguments() -> None:
    assert CROSS.identity != replace(CROSS, version="newer").identity
    assert CROSS.identity != replace(CROSS, make=()).identity
    assert CROSS.identity != replace(CROSS, others=("LLVM version 14.0.6",)).identity
    assert CROSS.identity == "\n".join((CROSS.program, CROSS.version, CROSS.linker, "V=0"))


def test_keys_keep_parts_apart() -> None:
    assert key_of("ab", "c") != key_of("a", "bc")
    assert key_of("a", ("b",)) == key_of("a", ("b",))


def test_times_are_read_back() -> None:
    times = FileTimes(tree_id="abc", later={"mm/slub.c": 1_700_000_000_123_456_789}, newest=7)
    assert load_times(dump_times(times)) == times


def test_the_newest_file_of_a_build_folder(tmp_path: Path) -> None:
    assert workspaces.newest(tmp_path) == 0
    (tmp_path / "mm").mkdir()
    for number, name in enumerate(("a", "mm/b", "c"), start=1):
        (tmp_path / name).symlink_to("/nowhere")
        os.utime(tmp_path / name, ns=(number, number), follow_symlinks=False)
    assert workspaces.newest(tmp_path) == 3


def test_times_that_are_still_to_come() -> None:
    ahead = time.time_ns() + 10**12
    assert not workspaces.from_the_future(FileTimes(tree_id="t", later={"a": 5}, newest=9))
    assert workspaces.from_the_future(FileTimes(tree_id="t", later={"a": 5}, newest=ahead))
    assert workspaces.from_the_future(FileTimes(tree_id="t", later={"a": ahead}))


def test_space_is_checked(tmp_path: Path) -> None:
    workspaces.require_space(tmp_path, 1)
    with pytest.raises(InfraError, match="too full") as caught:
        workspaces.require_space(tmp_path / "new", 1 << 62)
    assert "ktrial clean" in caught.value.hint


def test_links_that_lead_out_of_a_build_folder_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret")
    build = tmp_path / "build"
    (build / "arch").mkdir(parents=True)
    (build / "vmlinux").symlink_to("../secret")
    (build / "up").symlink_to("..")
    (build / "arch" / "Image").write_text("image")
    (build / "link").symlink_to("arch/Image")
    for bad in ("vmlinux", "up/secret", "missing", "arch"):
        with pytest.raises(InfraError, match=bad):
            store.own_file(build, bad)
    assert store.own_file(build, "link").read_text() == "image"
