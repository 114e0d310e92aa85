"""What goes into a guest: the programs that a recipe names, their libraries, its overlays.

Reads a folder of unpacked packages and gives the entries of the initramfs. Nothing in that
folder is run: it may be of another architecture.

In the guest all programs lie in /bin (/sbin, /usr/bin and /usr/sbin lead there) and all
libraries in /lib, which the dynamic linker searches on every architecture. /lib itself is a
real folder, since the archive with the kernel's modules brings /lib/modules.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from pipeline import elf, initramfs
from pipeline.errors import InfraError, UserError
from pipeline.initramfs import Entry
from pipeline.schema import nearest

PROGRAM_FOLDERS = ("usr/bin", "usr/sbin", "bin", "sbin")
LIBRARY_FOLDERS = ("lib", "usr/lib")
MAX_LINKS = 16


def entries(
    root: Path,
    *,
    programs: Sequence[str],
    keep: Sequence[str],
    remove: Sequence[str],
    overlays: Sequence[Path],
    own: Mapping[str, Path] | None = None,
) -> tuple[Entry, ...]:
    """All of the image, later ones over earlier ones. `own`: programs that are not taken from the
    packages but from these files.

    Raises:
        UserError: a program is neither in the packages nor a busybox applet.
        InfraError: a library that a program needs is in none of the packages.
    """
    whole = {entry.path: entry for entry in _skeleton()}
    for entry in (
        *_programs(root, programs, own or {}),
        *(_entry(path, path.relative_to(root)) for path in _matching(root, keep)),
        *(entry for overlay in overlays for entry in overlay_entries(overlay)),
    ):
        whole[entry.path] = entry
    return tuple(e for e in whole.values() if not any(fnmatch.fnmatch(e.path, g) for g in remove))


def _skeleton() -> Iterator[Entry]:
    """What must be there before anything is mounted."""
    for path in ("dev", "proc", "sys", "run", "lib/modules", "ktrial", "var"):
        yield initramfs.folder(path)
    yield initramfs.folder("tmp", 0o1777)
    yield initramfs.folder("root", 0o700)
    yield initramfs.folder("root/.ssh", 0o700)
    yield initramfs.link("root/.ssh/authorized_keys", "/ktrial/authorized_keys")
    yield initramfs.link("sbin", "bin")
    yield initramfs.link("usr/bin", "../bin")
    yield initramfs.link("usr/sbin", "../bin")
    yield initramfs.link("var/run", "/run")
    yield initramfs.link("var/tmp", "/tmp")
    yield initramfs.link("etc/mtab", "/proc/mounts")
    # The kernel opens /dev/console for PID 1 before there is a devtmpfs.
    yield initramfs.character_device("dev/console", 5, 1)
    yield initramfs.character_device("dev/null", 1, 3, 0o666)


def _programs(root: Path, programs: Sequence[str], own: Mapping[str, Path]) -> Iterator[Entry]:
    busybox = _find(root, "busybox", PROGRAM_FOLDERS)
    applets = busybox_applets(busybox.read_bytes()) if busybox else ()
    packaged = {name: _find(root, name, PROGRAM_FOLDERS) for name in programs}
    found = {name: path for name, path in {**packaged, **own}.items() if path}
    for name in programs:
        if name not in found and name not in applets:
            raise UserError(
                f"the image's program {name} is in none of its packages, nor in busybox",
                hint=nearest(name, (*applets, *_names(root))),
            )
    for applet in applets:
        if applet not in found:
            yield initramfs.link(f"bin/{applet}", "busybox")
    for name, path in found.items():
        yield initramfs.file(f"bin/{name}", path.read_bytes(), 0o755)
    yield from _libraries(root, found.values())


def _libraries(root: Path, programs: Iterable[Path]) -> Iterator[Entry]:
    """The closure of what the programs need; each library under the name it is asked for by."""
    done: set[str] = set()
    todo = list(programs)
    while todo:
        path = todo.pop()
        for wanted in _wanted(path):
            name = PurePosixPath(wanted).name
            if name in done:
                continue
            done.add(name)
            library = _find_library(root, wanted, asked_by=path)
            todo.append(library)
            # The interpreter must lie where the program says; libraries are searched for.
            target = wanted if wanted.startswith("/") else f"lib/{name}"
            yield initramfs.file(target, library.read_bytes(), 0o755)


def portable(root: Path, program: str, folder: str) -> tuple[Entry, ...]:
    """A program that runs wherever `folder` is, whatever libraries are around it: with its own in
    that folder, the dynamic linker among them, whose path in the program is changed.

    It has to be started with LD_LIBRARY_PATH=/FOLDER.

    Raises:
        InfraError: it is not in the packages, or the folder's name is too long.
    """
    path = _find(root, program, PROGRAM_FOLDERS)
    if path is None:
        raise InfraError(f"{program} is in none of the image's packages")
    data = path.read_bytes()
    linker = next((wanted for wanted in _wanted(path) if wanted.startswith("/")), "")
    if linker:
        # The kernel takes the path up to its first NUL (load_elf_binary() in fs/binfmt_elf.c).
        old, new = linker.encode() + b"\0", f"/{folder}/ld.so".encode() + b"\0"
        if len(new) > len(old):
            raise InfraError(
                f"/{folder}/ld.so is longer than {linker}: it has no room in {program}"
            )
        data = data.replace(old, new.ljust(len(old), b"\0"), 1)
    libraries = [
        initramfs.file(
            f"{folder}/{'ld.so' if entry.path == linker.lstrip('/') else Path(entry.path).name}",
            entry.data,
            0o755,
        )
        for entry in _libraries(root, [path])
    ]
    return (initramfs.file(f"{folder}/{program}", data, 0o755), *libraries)


def _wanted(path: Path) -> tuple[str, ...]:
    data = path.read_bytes()
    if not elf.is_elf(data):
        return ()
    try:
        needs = elf.needs(data)
    except ValueError as error:
        raise InfraError(f"{path} cannot be read: {error}") from error
    return ((needs.interpreter,) if needs.interpreter else ()) + needs.libraries


def _find_library(root: Path, wanted: str, *, asked_by: Path) -> Path:
    name = PurePosixPath(wanted)
    if name.is_absolute():
        found = _inside(root, name) or _inside(root, PurePosixPath("/usr") / wanted.lstrip("/"))
    else:
        triplets = [p for p in LIBRARY_FOLDERS for p in (p, *_subfolders(root, p))]
        found = _find(root, wanted, triplets)
    if found is None:
        raise InfraError(
            f"{asked_by.name} needs {wanted}, which is in none of the image's packages",
            hint="add the package that has it to `packages` in image.toml",
        )
    return found


def _subfolders(root: Path, folder: str) -> list[str]:
    """lib/x86_64-linux-gnu and its like."""
    return sorted(f"{folder}/{path.name}" for path in (root / folder).glob("*-linux-*"))


def _find(root: Path, name: str, folders: Iterable[str]) -> Path | None:
    return next((p for f in folders if (p := _inside(root, PurePosixPath(f) / name))), None)


def _names(root: Path) -> list[str]:
    return [path.name for f in PROGRAM_FOLDERS for path in (root / f).glob("*")]


def _inside(root: Path, path: PurePosixPath) -> Path | None:
    """The regular file that `path` leads to inside `root`, whose absolute links are its own.

    Links from outside to inside and back are walked by hand: `Path.resolve` would leave the
    root through an absolute one and find the host's file.
    """
    todo = list(reversed([part for part in path.parts if part != "/"]))
    here, links = root, 0
    while todo:
        part = todo.pop()
        if part == "..":
            here = here.parent if here != root else root
            continue
        here = here / part
        if here.is_symlink():
            links += 1
            if links > MAX_LINKS:
                return None
            target = here.readlink()
            here = root if target.is_absolute() else here.parent
            todo += reversed([part for part in target.parts if part != "/"])
    return here if here.is_file() else None


def busybox_applets(data: bytes) -> tuple[str, ...]:
    """The applets of a busybox binary, read from its table of names: it may be foreign.

    The table (`applet_names`) is a run of NUL-terminated names in alphabetical order that
    ends with an empty one; "[" and "[[" come first in it.
    """
    match = re.search(rb"\[\0\[\[\0(?:[a-z0-9_.+-]+\0)+", data)
    return tuple(match.group().decode().rstrip("\0").split("\0")) if match else ()


def _matching(root: Path, globs: Sequence[str]) -> Iterator[Path]:
    for pattern in globs:
        yield from (p for p in sorted(root.glob(pattern)) if p.is_symlink() or not p.is_dir())


def overlay_entries(overlay: Path) -> Iterator[Entry]:
    """The files of an overlay folder; scripts (#!) may be run, whatever their mode on disk.

    Modes and links do not survive every way in which ktrial may be installed, so neither
    carries meaning here.
    """
    for path in sorted(overlay.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            mode = 0o755 if data.startswith(b"#!") else 0o644
            yield initramfs.file(str(path.relative_to(overlay)), data, mode)


def _entry(path: Path, inside: Path) -> Entry:
    """A kept file, at its place; what lies in a folder of programs goes to /bin."""
    folder = "bin" if str(inside.parent) in PROGRAM_FOLDERS else str(inside.parent)
    target = f"{folder}/{inside.name}"
    if path.is_symlink():
        return initramfs.link(target, str(path.readlink()))
    return initramfs.file(target, path.read_bytes(), path.stat().st_mode & 0o755)
