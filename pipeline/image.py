"""Guest images: an initramfs from Debian packages, or a root disk and what hands over to it.

An initramfs runs no foreign code and nobody need be root (see `bootstrap`). Owners do not
matter: the archive is written by `initramfs`, in which everything belongs to root.

A root disk is Debian, installed by mmdebstrap, or a file that a user brings. It is never written:
each guest has an overlay of its own. The same small initramfs, `HANDOVER`, boots them all.
"""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline import bootstrap, disk, guestprograms, initramfs, rootfs, schema
from pipeline import cache as caches
from pipeline.errors import InfraError, UserError
from pipeline.model import Architecture, Image, ImageRecipe
from pipeline.progress import Step
from pipeline.scope import Scope
from pipeline.settings import shipped_root

# Raised when the same recipe gives another image than before.
RECIPE_VERSION = 1
ARCHIVE = "initramfs.cpio"
DISK = "disk.ext4"
DIGEST = "initramfs.sha256"  # images made before there was one have none
NEEDED_BYTES = 1 << 29  # twice what the packages of `bench` take, unpacked and kept
NEEDED_DISK_BYTES = 3 << 29  # a Debian as an archive, unpacked, and on its disk

FAULT = re.compile(r"ktrial: image fault: ([^\r\n]+)")
SERVER = "dropbear"  # comes to a disk's system with its own libraries, below:
SERVER_FOLDER = "ktrial/server"


@dataclass(frozen=True, kw_only=True)
class GuestFile:
    """A file that one run puts into its guests."""

    data: bytes
    mode: int = 0o644


@dataclass(frozen=True, kw_only=True)
class UserImage:
    """A disk that the user brings. `name`: as it may stand in a file's name."""

    name: str
    path: Path


@dataclass(frozen=True, kw_only=True)
class _Job:
    """One image in the making. `apt` keeps packages from one to the next."""

    recipe: ImageRecipe
    architecture: Architecture
    overlays: tuple[Path, ...]
    cache: Path
    scope: Scope
    step: Step

    @property
    def apt(self) -> Path:
        return self.cache / "apt"

    @property
    def log(self) -> Path:
        return self.apt / "mmdebstrap.log"

    @property
    def key(self) -> str:
        return image_key(self.recipe, self.architecture, self.overlays)

    @property
    def folder(self) -> Path:
        name = f"{self.recipe.name}-{self.architecture.name}-{self.key[:16]}"
        return self.cache / "images" / name

    def wish(self, temporary: Path) -> bootstrap.Wish:
        return bootstrap.Wish(
            what=f"image {self.recipe.name} ({self.architecture.name})",
            suite=self.recipe.suite,
            debian_arch=self.architecture.debian_arch,
            packages=self.recipe.packages,
            apt=self.apt,
            log=self.log,
            temporary=temporary,
            scope=self.scope,
            step=self.step,
        )


def resolve(name: str, known: Mapping[str, ImageRecipe], *, cwd: Path) -> ImageRecipe | UserImage:
    """The image that a user names: one of `known`, or a file (relative to `cwd`).

    Raises:
        UserError: there is neither; the hint has the nearest name.
    """
    if name in known:
        return known[name]
    path = Path(name).expanduser()
    path = cwd / path
    if path.is_file():
        return UserImage(name=_slug(path.stem), path=path.resolve())
    if path.is_dir() and "/" in name:
        raise UserError(f"image {name} is a folder", hint="give a qcow2 or raw disk")
    if "/" in name or "." in name:
        raise UserError(f"there is no image {name}", hint="give the path of a qcow2 or raw disk")
    raise UserError(f"unknown image “{name}”", hint=schema.nearest(name, known))


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:40] or "disk"


def programs(wanted: ImageRecipe | UserImage) -> frozenset[str] | None:
    """What workloads may count on; None where nobody knows: a user's disk."""
    return frozenset(wanted.programs) if isinstance(wanted, ImageRecipe) else None


def fault(console: str) -> str:
    """What a guest said of its disk that cannot be booted, "" where it said nothing of the kind:
    the kernel is not to blame."""
    found = FAULT.search(console)
    return found[1].strip() if found else ""


def refusal(wanted: ImageRecipe | UserImage, architecture: Architecture, machine: str = "") -> str:
    """Why this image cannot be made here, or "". `machine`: the host's `uname -m`."""
    foreign = (machine or platform.machine()) not in architecture.machines
    if isinstance(wanted, ImageRecipe) and wanted.kind == "disk" and foreign:
        return (
            f"image {wanted.name} is made by running its packages' own scripts, which are "
            f"{architecture.name}'s and not this host's; make the disk on such a machine and "
            "give it as --image PATH, or take image bench"
        )
    return ""


def build_image(
    recipe: ImageRecipe | UserImage,
    architecture: Architecture,
    *,
    cache: Path,
    scope: Scope,
    step: Step,
) -> Image:
    """The image of a recipe, made where the cache does not have it, or that of a user's disk.

    Raises:
        InfraError: mmdebstrap, the mirror or qemu-img failed, or the disk is too full.
        UserError: the recipe names a program that its packages do not have, an overlay that is
            not there, or cannot be made here (`refusal`); the user's file is no disk that boots.
    """
    started = time.monotonic()
    if isinstance(recipe, UserImage):
        found = disk.look(recipe.path, scope=scope)
        handover, _ = _made(HANDOVER, architecture, cache=cache, scope=scope, step=step)
        return Image(
            name=recipe.name,
            architecture=architecture.name,
            key=_file_key(recipe.path, handover.key),
            path=handover.folder / ARCHIVE,
            seconds=time.monotonic() - started,
            how=f"the user's {found.format} disk",
            disk=recipe.path,
            disk_format=found.format,
        )
    job, made = _made(recipe, architecture, cache=cache, scope=scope, step=step)
    first = job
    if recipe.kind == "disk":
        first, _ = _made(HANDOVER, architecture, cache=cache, scope=scope, step=step)
    on_disk = recipe.kind == "disk"
    return Image(
        name=recipe.name,
        architecture=architecture.name,
        key=hashlib.sha256(f"{job.key} {first.key}".encode()).hexdigest() if on_disk else job.key,
        path=first.folder / ARCHIVE,
        seconds=time.monotonic() - started,
        how="built" if made else "cached",
        disk=job.folder / DISK if on_disk else None,
        disk_format="raw" if on_disk else "",
    )


def _file_key(path: Path, handover: str) -> str:
    """Names a user's file without reading all of it: gigabytes, for each run."""
    facts = path.stat()
    text = f"{path} {facts.st_size} {facts.st_mtime_ns} {facts.st_ino} {handover}"
    return hashlib.sha256(text.encode()).hexdigest()


def _made(
    recipe: ImageRecipe, architecture: Architecture, *, cache: Path, scope: Scope, step: Step
) -> tuple[_Job, bool]:
    """The entry of a recipe in the cache, and whether it was made now."""
    if cause := refusal(recipe, architecture):
        raise UserError(cause)
    _check(recipe)
    job = _Job(
        recipe=recipe,
        architecture=architecture,
        overlays=_overlays(recipe),
        cache=cache,
        scope=scope,
        step=step,
    )

    def make(into: Path) -> None:
        step.note("waiting for another image")
        # One at a time: the second then finds the first one's packages in the cache.
        with caches.locked(job.apt / "images.lock", scope=scope):
            step.note("getting packages")
            BUILDERS[recipe.kind](job, into)

    if job.folder.is_dir() and not whole(job.folder):
        step.note("the cached image is damaged: it is made anew")
        caches.remove_unused(job.folder)
    return job, caches.entry(job.folder, make)


def whole(folder: Path) -> bool:
    """Whether a cached initramfs is as it was made: what lacks a part of it fails to boot, and the
    kernel would be charged with that. A disk is not looked at: it has gigabytes."""
    archive, digest = folder / ARCHIVE, folder / DIGEST
    if not archive.is_file():
        return (folder / DISK).is_file()
    content = archive.read_bytes()
    if digest.is_file():
        return digest.read_text().strip() == hashlib.sha256(content).hexdigest()
    return initramfs.TRAILER.encode() in content[-2 * initramfs.ALIGNMENT :]


def _check(recipe: ImageRecipe) -> None:
    if recipe.kind not in BUILDERS:
        raise UserError(
            f"image {recipe.name}: unknown kind “{recipe.kind}”",
            hint=schema.nearest(recipe.kind, BUILDERS),
        )
    if recipe.kind == "disk":
        if recipe.disk_size <= 0:
            raise UserError(f"image {recipe.name}: a disk needs a disk_size, in MiB")
        for field in ("keep", "remove", "overlays"):
            if getattr(recipe, field):
                raise UserError(f"image {recipe.name}: {field} has no meaning for a disk")


def image_key(recipe: ImageRecipe, architecture: Architecture, overlays: tuple[Path, ...]) -> str:
    """Hash of all that decides what the image holds, but for what the mirror serves that day."""
    digest = hashlib.sha256()
    for part in (
        str(RECIPE_VERSION),
        architecture.debian_arch,
        recipe.suite,
        # Left out where they are as ever, so that no image has to be made anew for their sake.
        *((recipe.kind, str(recipe.disk_size)) if recipe.kind == "disk" else ()),
        *(
            "\n".join(names)
            for names in (recipe.packages, recipe.programs, recipe.keep, recipe.remove)
        ),
    ):
        digest.update(part.encode() + b"\0")
    for overlay in overlays:
        for entry in rootfs.overlay_entries(overlay):
            content = hashlib.sha256(entry.data).hexdigest()
            digest.update(f"{entry.path} {entry.mode:o} {content}\n".encode())
        digest.update(b"\0")
    for line in guestprograms.key(guestprograms.sources(recipe)):
        digest.update(f"{line}\n".encode())
    return digest.hexdigest()


def compose(
    image: Image,
    *,
    modules: Path | None,
    files: Mapping[str, GuestFile],
    target: Path,
    programs: Path | None = None,
) -> None:
    """Write the initramfs of one boot: the image, the kernel's modules, programs of its tree, and
    the run's files.

    The kernel unpacks archives that follow each other in one file one after the other,
    later files over earlier ones, and takes a plain archive for one only where it begins on
    a multiple of four (init/initramfs.c).
    """
    own = initramfs.archive(
        initramfs.file(path, given.data, given.mode) for path, given in files.items()
    )
    with target.open("wb") as out:
        for part in (each for each in (image.path, modules, programs) if each):
            with part.open("rb") as source:
                shutil.copyfileobj(source, out)
            out.write(bytes(-out.tell() % initramfs.ALIGNMENT))
        out.write(own)


def _overlays(recipe: ImageRecipe) -> tuple[Path, ...]:
    """The overlays that the recipe names, beside it or among the shipped ones, then its own."""
    named = [_overlay(recipe, name) for name in recipe.overlays]
    own = recipe.folder / "overlay"
    return (*named, own) if own.is_dir() else tuple(named)


def _overlay(recipe: ImageRecipe, name: str) -> Path:
    for parent in (recipe.folder.parent, shipped_root() / "vm_images"):
        if (parent / name / "overlay").is_dir():
            return parent / name / "overlay"
    raise UserError(
        f"image {recipe.name}: there is no overlay {name}",
        hint=f"make {recipe.folder.parent / name / 'overlay'} or take it out of `overlays`",
    )


# --------------------------------------------------------------------------- making them


def _build_initramfs(job: _Job, into: Path) -> None:
    _require_room(into, NEEDED_BYTES)
    root = into / "root"
    bootstrap.unpack(job.wish(into), root)
    own = _compiled(job, into)
    job.step.note("packing")
    entries = rootfs.entries(
        root,
        programs=job.recipe.programs,
        keep=job.recipe.keep,
        remove=job.recipe.remove,
        overlays=job.overlays,
        own=own,
    )
    if job.recipe is HANDOVER:
        entries += rootfs.portable(root, SERVER, SERVER_FOLDER)
    content = initramfs.archive(entries)
    (into / ARCHIVE).write_bytes(content)
    (into / DIGEST).write_text(hashlib.sha256(content).hexdigest() + "\n")
    shutil.copyfile(job.log, into / job.log.name)
    caches.remove(root)
    caches.remove(into / guestprograms.FOLDER)


def _compiled(job: _Job, into: Path) -> Mapping[str, Path]:
    """Our own programs of this image, in a folder that the caller removes."""
    found = guestprograms.sources(job.recipe)
    if found:
        job.step.note("compiling programs of our own")
        (into / guestprograms.FOLDER).mkdir()
    return guestprograms.build(
        found, job.architecture, into=into / guestprograms.FOLDER, scope=job.scope
    )


def _build_disk(job: _Job, into: Path) -> None:
    _require_room(into, NEEDED_DISK_BYTES)
    archive = into / "system.tar"
    bootstrap.install(job.wish(into), archive)
    shutil.copyfile(job.log, into / job.log.name)
    guestprograms.add(_compiled(job, into), archive)
    caches.remove(into / guestprograms.FOLDER)
    disk.make_ext4(
        archive,
        into / DISK,
        size=job.recipe.disk_size,
        scope=job.scope,
        step=job.step,
        log=into / "mke2fs.log",
    )
    archive.unlink()


def _require_room(into: Path, needed: int) -> None:
    if caches.free_bytes(into) < needed:
        raise InfraError(
            f"less than {needed >> 20} MiB free at {into.parent}",
            hint="`ktrial clean` frees what old runs left",
        )


BUILDERS: Mapping[str, Callable[[_Job, Path], None]] = {
    "initramfs": _build_initramfs,
    "disk": _build_disk,
}

# Not an image that anybody chooses, so it has no image.toml: mounts a disk and hands over to it.
HANDOVER = ImageRecipe(
    name="handover",
    description="finds the root on a disk and hands over to the init that it has",
    folder=shipped_root() / "vm_images" / "handover",
    suite="bookworm",
    packages=("busybox-static", "dropbear-bin"),
    programs=("busybox", "sh", "switch_root", "modprobe", "cttyhack"),
)
