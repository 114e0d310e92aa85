"""A kernel that somebody else built: the file that boots, and what it is for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import UserError
from pipeline.model import Architecture

HEAD_BYTES = 0x210
MODULES = "modules.cpio"  # beside a kernel in ktrial's own cache
# Documentation/arch/x86/boot.rst (the setup header) and arch/arm64/booting.rst in the tree.
MAGIC: Mapping[str, tuple[int, bytes]] = {
    "x86_64": (0x202, b"HdrS"),
    "aarch64": (0x38, b"ARM\x64"),
}
ELF = b"\x7fELF"
ELF_MACHINES = {62: "x86_64"}  # with a PVH entry; QEMU boots no ELF on arm64
PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ": "xz"}


@dataclass(frozen=True, kw_only=True)
class KernelFile:
    """`modules`: the cpio archive with its modules, None where there is none. `cmdline` and
    `slower`: what its configuration asks of a guest, as `Build` has them."""

    image: Path
    modules: Path | None
    architecture: Architecture
    cmdline: tuple[str, ...] = ()
    slower: float = 1.0


def find(path: Path, architectures: Iterable[Architecture]) -> KernelFile:
    """The kernel that `path` is, or that lies in a build folder; its architecture from its content.

    Raises:
        UserError: there is none, or nothing that QEMU boots by itself.
    """
    known = {each.name: each for each in architectures}
    image = _in_folder(path, known.values()) if path.is_dir() else path
    try:
        with image.open("rb") as source:
            head = source.read(HEAD_BYTES)
    except OSError as error:
        raise UserError(
            f"kernel {path}: {error.strerror}", hint="give a bzImage, an Image or a build folder"
        ) from error
    name = recognise(head)
    if name not in known:
        packed = next((how for magic, how in PACKED.items() if head.startswith(magic)), "")
        raise UserError(
            f"kernel {image} is "
            + (f"packed with {packed}" if packed else "none that QEMU boots by itself"),
            hint="give a bzImage (x86_64), an Image (arm64) or a build folder",
        )
    modules = image.parent / MODULES
    return KernelFile(
        image=image.resolve(),
        modules=modules if modules.is_file() else None,
        architecture=known[name],
    )


def recognise(head: bytes) -> str:
    """The architecture of a kernel's first bytes, "" where it is none."""
    for name, (offset, magic) in MAGIC.items():
        if head[offset : offset + len(magic)] == magic:
            return name
    if head.startswith(ELF):
        return ELF_MACHINES.get(int.from_bytes(head[18:20], "little"), "")
    return ""


def _in_folder(folder: Path, architectures: Iterable[Architecture]) -> Path:
    """The newest of the kernels at their usual places."""
    places = [place for each in architectures for place in (each.image_path, each.image_target)]
    found = [folder / place for place in places if (folder / place).is_file()]
    if not found:
        raise UserError(
            f"there is no built kernel in {folder}",
            hint=f"looked for {', '.join(dict.fromkeys(places))}",
        )
    return max(found, key=lambda path: path.stat().st_mtime_ns)
