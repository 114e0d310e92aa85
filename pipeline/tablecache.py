"""The firmware tables of a guest shape, read once from a guest of it, kept in the cache.

The FADT holds addresses that follow from the memory's layout, so tables fit the guest that they
were read from: same shape, same machine, same QEMU. The key is made from all of that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from pipeline import acpitables, cache, domain
from pipeline.domain import GuestSpec
from pipeline.errors import InfraError
from pipeline.scope import Scope

SHELF = "tables"
# One process per table; `od` is a program of its own only in a larger image.
COMMAND = "\n".join(
    f"echo {name}; od -An -v -tx1 $t || busybox od -An -v -tx1 $t".replace(
        "$t", f"/sys/firmware/acpi/tables/{name}"
    )
    for name in acpitables.NAMES
)


def tables(
    spec: GuestSpec, read: Callable[[], str], *, cache_folder: Path, scope: Scope
) -> Mapping[str, bytes]:
    """FACP and APIC as guests of `spec` are to have them; `read` gives what COMMAND printed in
    one that has its own.

    Raises:
        InfraError: the guest's tables cannot be read.
    """
    entry = cache_folder / SHELF / key(spec)
    with cache.locked(cache_folder / "locks" / f"tables-{entry.name}", scope=scope):
        cache.entry(entry, lambda part: _make(read(), part))
    return {name: (entry / f"{name}.aml").read_bytes() for name in acpitables.NAMES}


def _make(text: str, part: Path) -> None:
    try:
        made = acpitables.upgraded(parse(text))
    except ValueError as error:
        raise InfraError(f"the guest's firmware tables cannot be read: {error}") from error
    for name, data in made.items():
        (part / f"{name}.aml").write_bytes(data)


def parse(text: str) -> dict[str, bytes]:
    """Names, each with hex bytes behind it. ValueError where it is something else."""
    found: dict[str, bytes] = {}
    name = ""
    for line in text.splitlines():
        if line.strip() in acpitables.NAMES:
            name = line.strip()
            found[name] = b""
        elif name:
            found[name] += bytes.fromhex(line.strip())
    return found


def key(spec: GuestSpec) -> str:
    """Of all that makes the machine: its definition without what is one guest's own, and the
    emulator's file."""
    emulator = spec.emulator or Path("/usr/bin") / spec.architecture.qemu
    shared = replace(
        spec,
        name="",
        uuid="",
        kernel=Path("kernel"),
        initrd=Path("initrd"),
        console=Path("console"),
        cmdline=(),
        disk=Path("disk") if spec.disk else None,
    )
    try:
        state = emulator.stat()
        version = f"{emulator} {state.st_size} {state.st_mtime_ns}"
    except OSError:
        version = str(emulator)
    return hashlib.sha256(f"{version}\n{domain.render(shared)}".encode()).hexdigest()[:24]
