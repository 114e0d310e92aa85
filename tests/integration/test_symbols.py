"""File and line of frames with the real compiler, addr2line and sandbox."""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline import initramfs, symbols
from pipeline.model import Build, Finding
from pipeline.scope import Scope

KERNEL = """\
__attribute__((noinline)) static int ring_check(volatile int *p)
{
    return *p;
}

static inline int slot(volatile int *p)
{
    return ring_check(p) + 1;
}

__attribute__((noinline)) int ring_add(volatile int *p)
{
    return slot(p) * 3;
}

int start_kernel(void)
{
    int a[2] = {1, 2};
    return ring_add(a);
}
"""
MODULE = """\
extern int ring_add(volatile int *p);

int heap_open(volatile int *p)
{
    *p = 7;
    return ring_add(p) + 1;
}
"""


def compiled(compiler: str, source: Path, out: Path, text: str, *options: str) -> None:
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(text)
    command = [compiler, "-O2", "-g1", "-fno-pie", "-ffreestanding", *options]
    subprocess.run([*command, "-o", str(out), str(source)], check=True)


def made(tmp_path: Path, compiler: str, architecture: str) -> Build:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not there")
    folder, tree = tmp_path / "entry", tmp_path / "tree"
    folder.mkdir()
    image = folder / "vmlinux"
    options = ("-no-pie", "-nostdlib", "-static", "-Wl,-e,start_kernel")
    compiled(compiler, tree / "init" / "main.c", image, KERNEL, *options)
    listing = subprocess.run(["nm", "-n", str(image)], check=True, capture_output=True).stdout
    (folder / "System.map").write_bytes(listing)
    module = tmp_path / "heap-x.ko"
    compiled(compiler, tree / "drivers" / "heap.c", module, MODULE, "-c")
    (folder / "modules.cpio").write_bytes(
        initramfs.archive(
            [
                initramfs.file("lib/modules/6.12.0/kernel/drivers/other.ko", b"no module"),
                initramfs.file("lib/modules/6.12.0/kernel/drivers/heap-x.ko", module.read_bytes()),
            ]
        )
    )
    return Build(
        kernel="base",
        architecture=architecture,
        key="k",
        folder=folder,
        image=image,
        vmlinux=image,
        config=folder / "config",
        modules=folder / "modules.cpio",
        log=folder / "build.log",
        release="6.12.0",
        compiler=compiler,
        sandboxed=True,
        seconds=0.0,
        how="test",
    )


@pytest.fixture(params=["x86_64", "aarch64"])
def build(request: pytest.FixtureRequest, tmp_path: Path) -> Build:
    return made(tmp_path, f"{request.param}-linux-gnu-gcc", request.param)


def sizes(build: Build) -> dict[str, int]:
    rows = [line.split() for line in (build.folder / "System.map").read_text().splitlines()]
    code = [(int(a, 16), name) for a, kind, name in rows if kind in "tT" and name[0] != "$"]
    ends = [*(address for address, _ in code[1:]), code[-1][0] + 16]
    return {name: end - start for (start, name), end in zip(code, ends, strict=True)}


def finding(excerpt: str) -> Finding:
    return Finding(kind="oops", title="t", line=1, excerpt=excerpt, fatal=True)


def at(build: Build, name: str, *, call: str = "") -> str:
    """A frame of `name` as the kernel prints it: behind its call of `call`, or at its beginning."""
    size = sizes(build)[name]
    if not call:
        return f"{name}+0x0/{size:#x}"
    dump = subprocess.run(
        [f"{build.architecture}-linux-gnu-objdump", "-d", str(build.vmlinux)],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    part = dump.split(f"<{name}>:")[1].split("\n\n")[0].splitlines()[1:]
    index = next(n for n, line in enumerate(part) if f"<{call}" in line and "+" not in line)
    start, after = (int(part[n].split(":")[0], 16) for n in (0, index + 1))
    return f"{name}+{after - start:#x}/{size:#x}"


def real(build: Build, name: str) -> str:
    """The symbol of a function, which may be a clone of it."""
    return next(each for each in sizes(build) if each.split(".")[0] == name)


def test_the_kernel_s_frames(build: Build) -> None:
    check = real(build, "ring_check")
    pointer, caller = at(build, check), at(build, "ring_add", call=check)
    report = f"pc : {pointer}\nCall trace:\n {pointer}\n {caller}\n gone+0x1/0x2"
    (found,) = symbols.decoded([finding(report)], build, Scope())
    assert found.excerpt == report
    lines = found.decoded.splitlines()
    assert lines[0].startswith(f"pc : {pointer} (init/main.c:")
    assert lines[2].strip() == lines[0].removeprefix("pc : ")  # the same instruction once more
    assert lines[3:] == [
        " slot (init/main.c:8) [inline]",
        f" {caller} (init/main.c:13)",
        " gone+0x1/0x2",
    ]


def test_a_module_s_frames(build: Build) -> None:
    report = "Call trace:\n heap_open+0x4/0x20 [heap_x]\n other_open+0x4/0x20 [other]"
    (found,) = symbols.decoded([finding(report)], build, Scope())
    # The tree of the test does not lie in /src, and only the kernel's own paths tell where it does.
    assert "heap_open+0x4/0x20 [heap_x] (" in found.decoded
    assert "drivers/heap.c:" in found.decoded
    assert "other_open+0x4/0x20 [other]" in found.decoded.splitlines()[-1]


@pytest.mark.parametrize("damage", ["none", "text", "folder"])
def test_what_cannot_be_read_leaves_the_report_as_it_is(build: Build, damage: str) -> None:
    if damage == "text":
        build.vmlinux.write_bytes(b"\x7fELF" + b"\0" * 99)
        assert build.modules is not None
        build.modules.write_bytes(b"070701zzzzzzzz" + b"x" * 200)
    elif damage == "folder":
        build = replace(build, folder=build.folder / "gone")
    report = " heap_open+0x4/0x20 [heap_x]\n " + (
        "gone+0x1/0x2" if damage == "none" else "ring_add+0x1/0x2"
    )
    if damage == "none":
        build = replace(build, modules=None)
    (found,) = symbols.decoded([finding(report)], build, Scope())
    assert (found.excerpt, found.decoded) == (report, "")


def test_a_file_that_keeps_addr2line_busy_does_not_keep_us(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(symbols, "SECONDS", 0.0)
    begun = time.monotonic()
    (found,) = symbols.decoded([finding(" ring_add+0x1/0x2")], build, Scope())
    assert found.decoded == ""
    assert time.monotonic() - begun < 60
