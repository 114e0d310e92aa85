"""File and line of each frame in a boot's findings, from the line tables of the build itself.

Kernels are built with -g1, so that vmlinux and modules have line tables with inlined functions.
All frames of a boot are looked up at once, by binutils' addr2line. These files come from a
stranger's build: what reads them runs in the sandbox.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from pipeline import framelines, sandbox
from pipeline.errors import InfraError
from pipeline.framelines import Frame, Place
from pipeline.model import Build, Finding
from pipeline.sandbox import Sandbox
from pipeline.scope import Scope

SECONDS = 20.0  # a damaged file must not keep a boot's result waiting
MODULE_BYTES = 256 << 20
MAP_CHARACTERS = 64 << 20  # a kernel with everything in it has 20 MB
NAME_BYTES = 4096
# Every tree has this one, and where it lies tells what a path begins with.
_LANDMARK, _LANDMARK_FILE = "start_kernel", "init/main.c"

_HEADER = 110  # bytes of a cpio header (newc)
_MAGIC = b"070701"


def decoded(findings: Sequence[Finding], build: Build, scope: Scope) -> tuple[Finding, ...]:
    """The findings with `decoded` filled where file and line are known.

    Nothing is decoded where the build has no line tables or the host no addr2line: a report
    without them is still a report.

    Raises:
        Cancelled: the run was cancelled.
    """
    frames = framelines.frames(each.excerpt for each in findings)
    if not frames:
        return tuple(findings)
    try:
        places = lookup(frames, build, scope.child(SECONDS))
    except (InfraError, OSError, ValueError):
        return tuple(findings)
    return tuple(_with_lines(each, places) for each in findings)


def lookup(frames: Iterable[Frame], build: Build, scope: Scope) -> dict[Frame, list[Place]]:
    """The places of the frames that are found, innermost first.

    Raises:
        InfraError: there is no addr2line or no sandbox.
        OSError, ValueError: the build's files cannot be read, or are damaged.
        Cancelled: the run was cancelled.
    """
    with tempfile.TemporaryDirectory(prefix="ktrial-symbols-") as name:
        folder = Path(name).resolve()
        box = Sandbox(source=build.folder, build=folder, enabled=build.sandboxed)
        reader = _Reader(box=box, build=build, scope=scope)
        asked = list(frames)
        found = reader.kernel([each for each in asked if not each.module])
        for module in dict.fromkeys(each.module for each in asked if each.module):
            found |= reader.module(module, [each for each in asked if each.module == module])
        return found


def _with_lines(finding: Finding, places: framelines.Places) -> Finding:
    text = framelines.decode(finding.excerpt, places)
    return finding if text == finding.excerpt else replace(finding, decoded=text)


@dataclass
class _Reader:
    """Reads a build's files in the sandbox. `prefix`: what the paths of its tree begin with."""

    box: Sandbox
    build: Build
    scope: Scope
    prefix: str = f"{sandbox.SOURCE}/"

    def kernel(self, frames: Sequence[Frame]) -> dict[Frame, list[Place]]:
        with (self.build.folder / "System.map").open(errors="replace") as stream:
            listing = stream.read(MAP_CHARACTERS)
        known = framelines.symbols(listing, [_LANDMARK, *(each.name for each in frames)])
        landmark = next((start for start, _ in known.get(_LANDMARK, ())), 0)
        asked = {each: framelines.address(each, known.get(each.name, ())) for each in frames}
        addresses = sorted({landmark, *(a for a in asked.values() if a is not None)})
        found = self._ask(self.box.seen_source / self.build.vmlinux.name, addresses)
        for place in found.get(landmark, ())[-1:]:
            if place.file.endswith(_LANDMARK_FILE):
                self.prefix = place.file.removesuffix(_LANDMARK_FILE)
        return self._short(asked, found)

    def module(self, name: str, frames: Sequence[Frame]) -> dict[Frame, list[Place]]:
        data = self.build.modules and _unpacked(self.build.modules, name)
        if not data:
            return {}
        (self.box.build / "module.ko").write_bytes(data)
        path = self.box.seen_build / "module.ko"
        known = self._functions(path)
        asked: dict[str, dict[Frame, int | None]] = {}
        for frame in frames:
            for section, candidates in known.get(frame.name, {}).items():
                fitting = framelines.nearly(frame, candidates)
                asked.setdefault(section, {})[frame] = framelines.address(frame, fitting)
        found: dict[Frame, list[Place]] = {}
        for section, wanted in asked.items():
            addresses = sorted({each for each in wanted.values() if each is not None})
            found |= self._short(wanted, self._ask(path, addresses, "-j", section))
        return found

    def _functions(self, path: Path) -> dict[str, dict[str, list[tuple[int, int]]]]:
        """Of a module, by name and section: the offsets in the section, and the sizes."""
        found: dict[str, dict[str, list[tuple[int, int]]]] = {}
        for line in self._run("nm", "-f", "sysv", str(path)).splitlines():
            cells = [cell.strip() for cell in line.split("|")]
            if len(cells) == 7 and cells[3] in ("FUNC", "NOTYPE") and cells[1]:
                size = int(cells[4] or "0", 16)
                sections = found.setdefault(cells[0], {})
                sections.setdefault(cells[6], []).append((int(cells[1], 16), size))
        return found

    def _ask(self, path: Path, addresses: Iterable[int], *options: str) -> dict[int, list[Place]]:
        words = [f"{each:#x}" for each in addresses]
        if not words:
            return {}
        return framelines.answers(self._run("addr2line", "-afi", *options, "-e", str(path), *words))

    def _run(self, program: str, *arguments: str) -> str:
        command = (_program(program, self.build.architecture), *arguments)
        done = sandbox.run(self.box, command, scope=self.scope, merge_stderr=False)
        return done.text if done.ok else ""

    def _short(
        self, asked: dict[Frame, int | None], found: dict[int, list[Place]]
    ) -> dict[Frame, list[Place]]:
        return {
            frame: [replace(p, file=p.file.removeprefix(self.prefix)) for p in found[address]]
            for frame, address in asked.items()
            if address is not None and address in found
        }


def _program(name: str, architecture: str) -> str:
    """binutils' own for that architecture, which knows its relocations, or what there is."""
    for each in (f"{architecture}-linux-gnu-{name}", name, f"llvm-{name}"):
        if shutil.which(each, path=sandbox.PATH):
            return each
    raise InfraError(f"there is no {name}", hint="apt-get install binutils")


def _unpacked(archive: Path, module: str) -> bytes:
    """A module's file out of a cpio archive, b"" where it has none of that name.

    A module's name has `_` where its file's may have `-`.
    """
    with archive.open("rb") as stream:
        for name, size in _entries(stream):  # the stream stands at the data
            stem, dot, kind = name.rpartition("/")[2].rpartition(".")
            if dot and kind == "ko" and stem.replace("-", "_") == module:
                return stream.read(size) if size <= MODULE_BYTES else b""
    return b""


def _entries(stream: IO[bytes]) -> Iterator[tuple[str, int]]:
    """Name and size of each entry of a cpio archive (newc), with the stream at its data."""
    at = 0
    while True:
        stream.seek(at)
        header = stream.read(_HEADER)
        if len(header) < _HEADER or header[:6] != _MAGIC:
            return
        size, length = int(header[54:62], 16), int(header[94:102], 16)
        if length > NAME_BYTES:
            return
        name = stream.read(length)[:-1].decode(errors="replace")
        data = _aligned(at + _HEADER + length)
        if name == "TRAILER!!!":
            return
        stream.seek(data)
        yield name, size
        at = _aligned(data + size)


def _aligned(offset: int) -> int:
    return -(-offset // 4) * 4
