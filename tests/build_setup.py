"""What builds of the miniature kernel need: records of data files, and sources laid out."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pipeline import kconfig
from pipeline.build import BuildRequest, LayOut
from pipeline.model import Architecture, FileTimes, Fragment, Sources, Toolchain
from tests.minikernel_repo import git, tree_id

EPOCH_NS = 1_000_000_000 * 10**9


def architecture(name: str) -> Architecture:
    arm = name == "aarch64"
    image = "arch/arm64/boot/Image" if arm else "arch/x86/boot/bzImage"
    return Architecture(
        name=name,
        description="",
        aliases=(),
        machines=(name,),
        kernel_arch="arm64" if arm else "x86_64",
        source_dir="arm64" if arm else "x86",
        debian_arch="arm64" if arm else "amd64",
        image_target=Path(image).name,
        image_path=image,
        fragments=(),
        qemu="",
        qemu_package="",
        machine="",
        cpu={},
        console="",
        earlycon="",
        console_type="",
        vcpu_hotplug=False,
        acpi=False,
    )


GCC = Toolchain(
    name="gcc",
    description="",
    make=(),
    compilers={"x86_64": "x86_64-linux-gnu-", "aarch64": "aarch64-linux-gnu-"},
    probe={"x86_64": "gcc", "aarch64": "gcc"},
    packages={"native": "gcc", "aarch64": "gcc-aarch64-linux-gnu"},
)

WISHES: Mapping[str, str] = {
    "CONFIG_SYSFS": "y",
    "CONFIG_SLUB": "y",
    "CONFIG_SLUB_DEBUG": "y",
    "CONFIG_SMP": "y",
    "CONFIG_NUMA": "y",
    "CONFIG_NR_CPUS": "64",
}


def fragment(symbols: Mapping[str, str], name: str = "base") -> Fragment:
    text = "".join(f"{symbol}={value}\n" for symbol, value in symbols.items())
    return Fragment(
        name=name, path=Path(f"{name}.config"), symbols=kconfig.parse_fragment(text, name=name)
    )


class Plain:
    """A layout for tests: a checkout below `folder`, with times as `layout` gives them.

    The paths that differ between what a build folder has seen and what is laid out get
    the present time, the others keep theirs; `layouts` tells how often it was asked.
    """

    def __init__(self, repository: Path, folder: Path) -> None:
        self._repository = repository
        self._source = folder / "src"
        self.layouts = 0

    def of(self, revision: str) -> LayOut:
        @contextmanager
        def lay_out(seen: FileTimes | None) -> Iterator[Sources]:
            self.layouts += 1
            tree = tree_id(self._repository, revision)
            self._check_out(revision)
            yield Sources(path=self._source, times=self._stamp(tree, seen))

        return lay_out

    def _check_out(self, revision: str) -> None:
        subprocess.run(("rm", "-rf", str(self._source)), check=True)
        self._source.mkdir(parents=True)
        archive = subprocess.run(
            ("git", "-C", str(self._repository), "archive", revision),
            check=True,
            capture_output=True,
        )
        subprocess.run(("tar", "-x", "-C", str(self._source)), input=archive.stdout, check=True)

    def _stamp(self, tree: str, seen: FileTimes | None) -> FileTimes:
        later = dict(seen.later) if seen else {}
        if seen:
            changed = git(self._repository, "diff", "--name-only", seen.tree_id, tree)
            now = Path(self._source).stat().st_ctime_ns + 10_000_000
            later.update(dict.fromkeys(changed.splitlines(), now))
        for path in self._source.rglob("*"):
            name = str(path.relative_to(self._source))
            time = later.get(name, EPOCH_NS)
            os.utime(path, ns=(time, time), follow_symlinks=False)
        return FileTimes(tree_id=tree, later=later)


def request(  # every field of a request that tests vary
    repository: Path,
    revision: str = "HEAD",
    *,
    arch: str = "x86_64",
    symbols: Mapping[str, str] = WISHES,
    trusted: bool = True,
    base: str | None = None,
    sandboxed: bool = True,
) -> BuildRequest:
    return BuildRequest(
        kernel="kernel",
        tree_id=tree_id(repository, revision),
        origin="miniature",
        base_tree_id=tree_id(repository, base) if base else None,
        architecture=architecture(arch),
        toolchain=GCC,
        fragments=(fragment(symbols),),
        jobs=2,
        trusted=trusted,
        sandboxed=sandboxed,
    )
