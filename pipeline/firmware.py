"""A guest's firmware tables, replaced where its kernel would else not see vCPUs that may come.

Why and how: `acpitables`. What a guest of the same shape shows is kept by `tablecache`.
"""

from __future__ import annotations

import shutil
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline import acpitables, image, patience, repeat, tablecache
from pipeline.domain import GuestSpec
from pipeline.errors import InfraError
from pipeline.hypervisor import Hypervisor
from pipeline.keys import Keys
from pipeline.model import Build, Image
from pipeline.progress import Step
from pipeline.scope import Scope
from pipeline.transport import OverSsh, Program

LOCKDEP = "CONFIG_LOCKDEP=y"
OVERRIDE_SYMBOL = "CONFIG_ACPI_TABLE_UPGRADE=y"


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What it takes to boot a guest for its tables. `cache`: the cache's folder."""

    image: Image
    keys: Keys
    cache: Path
    hypervisor: Hypervisor


@dataclass(frozen=True, kw_only=True)
class Tables:
    """An archive that now stands in front of the initramfs, empty where none does, and a note."""

    archive: bytes = b""
    note: str = ""


def wanted(spec: GuestSpec, build: Build) -> bool:
    """Whether this kernel only sees vCPUs that may come where the tables say so."""
    return (
        spec.accelerator.name == "tcg"
        and spec.architecture.vcpu_hotplug
        and spec.shape.max_vcpus > spec.shape.vcpus
        and acpitables.needed(build.release)
    )


def replaced(spec: GuestSpec, build: Build, setup: Setup, *, scope: Scope, step: Step) -> Tables:
    """Put the tables in front of the guest's initramfs, or say why they are not."""
    symbols = build.config.read_text(encoding="utf-8").splitlines()
    if OVERRIDE_SYMBOL not in symbols:
        return _without(f"the kernel has no {OVERRIDE_SYMBOL}")
    if LOCKDEP in symbols:
        return _without("replaced tables would switch off this kernel's lockdep")

    def read() -> str:
        step.note("reading the firmware's tables")
        return _read(spec, setup, scope=scope)

    try:
        tables = tablecache.tables(spec, read, cache_folder=setup.cache, scope=scope)
    except InfraError as error:
        return _without(str(error))
    archive = acpitables.archive(tables)
    _put_in_front(archive, spec.initrd)
    return Tables(archive=archive, note=acpitables.NOTE)


def _without(why: str) -> Tables:
    return Tables(note=f"firmware tables not replaced: {why}")


def _put_in_front(archive: bytes, initrd: Path) -> None:
    plain = initrd.with_suffix(".plain")
    initrd.rename(plain)
    with initrd.open("wb") as out, plain.open("rb") as source:
        out.write(archive)
        shutil.copyfileobj(source, out)
    plain.unlink()


def _read(spec: GuestSpec, setup: Setup, *, scope: Scope) -> str:
    """What `tablecache.COMMAND` prints in a guest of this shape that has its own tables."""
    way = OverSsh(keys=setup.keys, program=Program(run=None, probes=()))
    with setup.hypervisor.guest(_reader(spec, setup, way, scope=scope), scope=scope) as guest:
        end = patience.until_ready(guest, scope)
        if end is not None:
            raise InfraError(f"no guest to read firmware tables from: {end.reason}")
        with way.session(guest) as session:
            reply = session.run(tablecache.COMMAND, scope=scope)
    if not reply.ok:
        raise InfraError(f"the guest shows no firmware tables: {reply.problem or reply.text}")
    return reply.text


def _reader(spec: GuestSpec, setup: Setup, way: OverSsh, *, scope: Scope) -> GuestSpec:
    """The guest beside this one from which its tables are read."""
    initrd = spec.initrd.with_suffix(".reader")
    image.compose(setup.image, modules=None, files=way.files(), target=initrd)
    disk = None
    if spec.disk is not None:  # whatever this guest writes is not for the other
        disk = initrd.with_suffix(".reader-disk")
        repeat.lay_over(setup.image, disk, scope=scope)
    return replace(
        spec,
        name=f"{spec.name}.tables",
        uuid=str(uuid.uuid4()),
        initrd=initrd,
        console=spec.console.with_name("console-of-tables.log"),
        network=True,
        disk=disk,
    )
