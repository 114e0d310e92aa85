"""What would stop every cell of a run is found before anything is made."""

from __future__ import annotations

import platform
from pathlib import Path

from pipeline import catalog, compiler, store, virt
from pipeline.catalog import Catalog
from pipeline.errors import InfraError, UserError
from pipeline.model import Plan
from pipeline.scope import Scope
from pipeline.settings import TOOLCHAIN, Settings


def check(plan_: Plan, *, settings: Settings, shelf: Catalog, scope: Scope) -> None:
    """What would stop every cell is said before anything is made.

    Raises InfraError: no compiler for an architecture, no QEMU for it, a disk too full.
    """
    toolchain = catalog.pick("toolchain", TOOLCHAIN, shelf.toolchains)
    compiler.require_host_tools()
    for name in plan_.scenario.architectures:
        target = shelf.architecture(name)
        compiler.find(toolchain, target, machine=platform.machine(), scope=scope)
        if not Path("/usr/bin", target.qemu).exists():
            raise InfraError(
                f"no emulator for {name}: {target.qemu} is not there",
                hint=f"sudo apt-get install {target.qemu_package}",
            )
    _check_connection(settings)
    settings.cache.mkdir(parents=True, exist_ok=True)
    store.require_space(settings.cache, store.CLEAN_BYTES)


def _check_connection(settings: Settings) -> None:
    """A connection that can never work is bad usage, not a fault of the host."""
    try:
        virt.require_usable(settings.connect)
    except InfraError as error:
        raise UserError(error.message, hint=error.hint) from error
