"""What would stop every cell of a run is found before anything is made."""

from __future__ import annotations

import platform
from pathlib import Path

from pipeline import catalog, compiler, plan, store, virt
from pipeline.catalog import Catalog
from pipeline.errors import InfraError, UserError
from pipeline.model import Plan
from pipeline.scope import Scope
from pipeline.settings import TOOLCHAIN, Settings


def check(plan_: Plan, *, settings: Settings, shelf: Catalog, scope: Scope) -> Plan:
    """The plan, with the cells that this host cannot give marked as unsupported.

    Raises:
        UserError: a libvirt that can never have a run's files.
        InfraError: no compiler for an architecture, no emulator for any, a disk too full.
    """
    _check_connection(settings)
    toolchain = catalog.pick("toolchain", TOOLCHAIN, shelf.toolchains)
    compiler.require_host_tools()
    for name in plan_.scenario.architectures:
        target = shelf.architecture(name)
        compiler.find(toolchain, target, machine=platform.machine(), scope=scope)
    settings.cache.mkdir(parents=True, exist_ok=True)
    store.require_space(settings.cache, store.CLEAN_BYTES)
    return _without_emulators(plan_, shelf)


def _without_emulators(plan_: Plan, shelf: Catalog) -> Plan:
    """One missing emulator takes its own cells away, not the others; none at all ends the run."""
    lacking = {
        name: f"{target.qemu} is not there: sudo apt-get install {target.qemu_package}"
        for name in plan_.scenario.architectures
        if not Path("/usr/bin", (target := shelf.architecture(name)).qemu).exists()
    }
    if len(lacking) == len(plan_.scenario.architectures):
        raise InfraError("no emulator: " + "; ".join(lacking.values()))
    causes = {
        cell: lacking[cell.architecture] for cell in plan_.cells if cell.architecture in lacking
    }
    return plan.make(plan_.scenario, causes) if causes else plan_


def _check_connection(settings: Settings) -> None:
    """A connection that can never work is bad usage, not a fault of the host."""
    try:
        virt.require_usable(settings.connect)
    except InfraError as error:
        raise UserError(error.message, hint=error.hint) from error
