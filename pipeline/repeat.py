"""What a boot was made of, kept so that a person can do it again: domain, steps, a script.

A guest whose image lies on a disk has an overlay that takes what it writes: made here, for the
boot itself and in the script.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline import domain, initramfs, process, results
from pipeline.domain import GuestSpec
from pipeline.image import GuestFile
from pipeline.model import Build, Image
from pipeline.results import Folder
from pipeline.scope import Scope
from pipeline.workload import StepSpec

BY_HAND_PORT = 2222
UP = Path("../../..")  # from a boot's folder to that of the run
OVERLAY = Path("root.qcow2")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """`kept`: where the run's folder has the build. `files`: what the run put into the guest;
    `tables`: an archive in front of the initramfs, empty where there is none; `key`: the
    private key that the guest lets in."""

    spec: GuestSpec
    build: Build
    kept: Path
    image: Image
    files: Mapping[str, GuestFile]
    steps: tuple[StepSpec, ...]
    tables: bytes
    key: str


def write(recipe: Recipe, folder: Folder, here: Path) -> None:
    """Into the boot's folder `here`: domain.xml, steps.sh, repeat.sh and the archives of it."""
    results.write(here / "domain.xml", domain.render(recipe.spec))
    steps = [f"# {each.source}, {each.phase.value}\n{each.command}\n" for each in recipe.steps]
    head = "# What was run in the guest, in this order.\n\n"
    results.write(here / "steps.sh", head + "\n".join(steps))
    results.write(here / "repeat.sh", _script(recipe, folder, _parts(recipe, folder, here)))
    (here / "repeat.sh").chmod(0o755)


def _script(recipe: Recipe, folder: Folder, parts: list[Path]) -> str:
    own = replace(
        recipe.spec,
        kernel=UP / recipe.kept.relative_to(folder.root) / recipe.build.image.name,
        initrd=Path("initrd.img"),
        ssh_port=BY_HAND_PORT,
        disk=OVERLAY if recipe.spec.disk else None,
    )
    how = "It runs its steps by itself and powers off."
    if recipe.spec.network:
        how = f"ssh -i {UP}/guest/key -p {BY_HAND_PORT} root@127.0.0.1 sh < steps.sh"
    lines = [
        "#!/bin/sh",
        "# Boots this guest by hand; its console is the terminal.",
        f"# {how}",
        'cd "$(dirname "$0")" || exit 1',
        f"cat {shlex.join(str(UP / part) for part in parts)} > initrd.img",
    ]
    if own.disk:
        lines.append(shlex.join(_overlay(recipe.image, own.disk)))
    return "\n".join([*lines, f"exec {shlex.join(domain.by_hand(own))}", ""])


def _parts(recipe: Recipe, folder: Folder, here: Path) -> list[Path]:
    """The archives of the initramfs, kept in the run's folder; relative to that."""
    guest = results.made(folder.root / "guest")
    kept = [guest / f"{recipe.image.name}.{recipe.image.architecture}.cpio"]
    results.link(recipe.image.path, kept[0])
    for archive in filter(None, (recipe.build.modules, recipe.build.programs)):
        kept.append(recipe.kept / archive.name)
        results.link(archive, kept[-1])
    kept.append(here / "guest-files.cpio")
    files = [
        initramfs.file(path, given.data, given.mode) for path, given in sorted(recipe.files.items())
    ]
    kept[-1].write_bytes(initramfs.archive(files))
    if recipe.tables:
        kept.insert(0, here / "firmware-tables.cpio")
        kept[0].write_bytes(recipe.tables)
    key = guest / "key"
    key.touch(mode=0o600)
    key.write_text(recipe.key)
    return [path.relative_to(folder.root) for path in kept]


def _overlay(image: Image, overlay: Path) -> list[str]:
    base = ("-b", str(image.disk), "-F", image.disk_format)
    return ["qemu-img", "create", "-q", "-f", "qcow2", *base, str(overlay)]


def lay_over(image: Image, overlay: Path, *, scope: Scope) -> None:
    """Make the file that takes what one guest writes, so that the image stays as it is.

    Raises:
        InfraError: qemu-img fails or is not there.
    """
    done = process.run(_overlay(image, overlay), scope=scope)
    process.check(done, "qemu-img", hint="apt-get install qemu-utils")
