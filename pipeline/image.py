"""Guest images: Debian packages unpacked by mmdebstrap, packed as an initramfs.

No foreign code is run and nobody need be root: `--variant=extract` only unpacks, which its
mode "chrootless" does for any user and any architecture without a chroot, binfmt, user
namespaces or /etc/subuid (mmdebstrap 1.3.5; the mode's danger, maintainer scripts that run on
the host, is not met, since nothing is configured). Owners do not matter: the archive is
written by `initramfs`, in which everything belongs to root.
"""

from __future__ import annotations

import hashlib
import shlex
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline import cache as caches
from pipeline import initramfs, process, rootfs
from pipeline.errors import InfraError, UserError
from pipeline.model import Architecture, Image, ImageRecipe
from pipeline.progress import Step
from pipeline.scope import Scope
from pipeline.settings import shipped_root

# Raised when the same recipe gives another image than before.
RECIPE_VERSION = 1
ARCHIVE = "initramfs.cpio"
DEBIAN_INDEXES = ("Created-By: Packages", "Origin: Debian", "Label: Debian")
NEEDED_BYTES = 1 << 29  # twice what the packages of `bench` take, unpacked and kept
DEFAULT_MIRROR = "http://deb.debian.org/debian"

HOOK = Path(__file__).resolve().parent / "data" / "image" / "keep-packages.sh"


@dataclass(frozen=True, kw_only=True)
class GuestFile:
    """A file that one run puts into its guests."""

    data: bytes
    mode: int = 0o644


@dataclass(frozen=True, kw_only=True)
class _Job:
    """One image in the making. `apt` keeps packages from one to the next."""

    recipe: ImageRecipe
    architecture: Architecture
    overlays: tuple[Path, ...]
    apt: Path
    scope: Scope
    step: Step

    @property
    def log(self) -> Path:
        return self.apt / "mmdebstrap.log"


def build_image(
    recipe: ImageRecipe,
    architecture: Architecture,
    *,
    cache: Path,
    scope: Scope,
    step: Step,
) -> Image:
    """The image of a recipe, made where the cache does not have it.

    Raises:
        InfraError: mmdebstrap or the mirror failed, or the disk is too full.
        UserError: the recipe names a program that its packages do not have, or an overlay
            that is not there.
    """
    started = time.monotonic()
    overlays = _overlays(recipe)
    key = image_key(recipe, architecture, overlays)
    folder = cache / "images" / f"{recipe.name}-{architecture.name}-{key[:16]}"

    job = _Job(
        recipe=recipe,
        architecture=architecture,
        overlays=overlays,
        apt=cache / "apt",
        scope=scope,
        step=step,
    )

    def make(into: Path) -> None:
        step.note("waiting for another image")
        # One at a time: the second then finds the first one's packages in the cache.
        with caches.locked(job.apt / "images.lock", scope=scope):
            _build(job, into)

    made = caches.entry(folder, make)
    return Image(
        name=recipe.name,
        architecture=architecture.name,
        key=key,
        path=folder / ARCHIVE,
        seconds=time.monotonic() - started,
        how="built" if made else "cached",
    )


def image_key(recipe: ImageRecipe, architecture: Architecture, overlays: tuple[Path, ...]) -> str:
    """Hash of all that decides what the image holds, but for what the mirror serves that day."""
    digest = hashlib.sha256()
    for part in (
        str(RECIPE_VERSION),
        architecture.debian_arch,
        recipe.suite,
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
    return digest.hexdigest()


def compose(
    image: Image, *, modules: Path | None, files: Mapping[str, GuestFile], target: Path
) -> None:
    """Write the initramfs of one boot: the image, the kernel's modules, and the run's files.

    The kernel unpacks archives that follow each other in one file one after the other,
    later files over earlier ones, and takes a plain archive for one only where it begins on
    a multiple of four (init/initramfs.c).
    """
    own = initramfs.archive(
        initramfs.file(path, given.data, given.mode) for path, given in files.items()
    )
    with target.open("wb") as out:
        for part in (image.path, modules) if modules else (image.path,):
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


def _build(job: _Job, into: Path) -> None:
    if caches.free_bytes(into) < NEEDED_BYTES:
        raise InfraError(
            f"less than {NEEDED_BYTES >> 20} MiB free at {into.parent}",
            hint="`ktrial clean` frees what old runs left",
        )
    root = into / "root"
    _unpack(job, root)
    job.step.note("packing")
    entries = rootfs.entries(
        root,
        programs=job.recipe.programs,
        keep=job.recipe.keep,
        remove=job.recipe.remove,
        overlays=job.overlays,
    )
    (into / ARCHIVE).write_bytes(initramfs.archive(entries))
    shutil.copyfile(job.log, into / job.log.name)
    caches.remove(root)


def _unpack(job: _Job, root: Path) -> None:
    """Fill `root` with the packages, unpacked but not configured."""
    if shutil.which("mmdebstrap") is None:
        raise InfraError("mmdebstrap is not there", hint="apt-get install mmdebstrap")
    job.log.parent.mkdir(parents=True, exist_ok=True)
    job.log.unlink(missing_ok=True)
    options = root.with_name("apt.conf")
    options.write_text(_apt_options(job.scope), encoding="utf-8")
    hook = f'sh {shlex.quote(str(HOOK))} "$1"'

    def note(line: str) -> None:
        if line.startswith("I: "):
            job.step.note(line.removeprefix("I: "))

    completed = process.run(
        [
            "env",
            f"KTRIAL_APT={job.apt}",
            f"TMPDIR={root.parent}",
            "mmdebstrap",
            "--mode=chrootless",
            "--variant=extract",
            "--skip=check/chrootless",  # 1.4 and newer refuse to be root without it
            "--format=directory",
            f"--architectures={job.architecture.debian_arch}",
            f"--include={','.join(job.recipe.packages)}",
            f"--aptopt={options}",
            f"--setup-hook={hook}",
            f"--extract-hook={hook}",
            job.recipe.suite,
            str(root),
            f"deb {_mirror(job.scope)} {job.recipe.suite} main",
        ],
        scope=job.scope,
        log=job.log,
        on_line=note,
    )
    process.check(
        completed,
        f"mmdebstrap for image {job.recipe.name} ({job.architecture.name})",
        hint=f"see {job.log}; `ktrial doctor` checks whether the Debian mirror is within reach",
    )


def _apt_options(scope: Scope) -> str:
    """The machine's own settings of how to fetch (proxies, a mirror frozen in time)."""
    dump = process.run(
        ["apt-config", "dump", "--format", '%F "%v";%n', "Acquire"], scope=scope
    ).text.splitlines()
    lines = [line for line in dump if not line.startswith("Acquire::IndexTargets")]
    # As root apt drops to a user of its own, who may not be able to get into the cache folder.
    return "\n".join((*lines, 'APT::Sandbox::User "root";', ""))


def _mirror(scope: Scope) -> str:
    """Where this machine gets Debian from; Debian's own mirror on another distribution."""
    targets = process.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", *DEBIAN_INDEXES],
        scope=scope,
        merge_stderr=False,
    )
    uris = [line for line in targets.text.splitlines() if line.startswith("http")]
    return uris[0] if targets.ok and uris else DEFAULT_MIRROR
