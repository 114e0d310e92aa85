"""What would stop every cell of a run is found before anything is made."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline import (
    accelerator,
    catalog,
    compiler,
    domain,
    events,
    host,
    image,
    kconfig,
    plan,
    shapes,
    virt,
    workspaces,
)
from pipeline.budget import Budget
from pipeline.catalog import Catalog
from pipeline.errors import InfraError, UserError
from pipeline.model import Cell, Fragment, Plan
from pipeline.scope import Scope
from pipeline.settings import Settings


def check(
    plan_: Plan,
    *,
    settings: Settings,
    shelf: Catalog,
    budget: Budget,
    transport: str,
    scope: Scope,
) -> Plan:
    """The plan, with the cells that this host cannot give marked as unsupported.

    Raises:
        UserError: a libvirt that can never have a run's files; events that make no sense.
        InfraError: no compiler for an architecture, no emulator for any, a disk too full.
    """
    _check_connection(settings)
    _check_events(plan_, shelf, transport)
    if plan_.cells:
        _check_image(plan_, shelf, transport)
    _check_configurations(plan_, shelf)
    toolchain = catalog.pick("toolchain", settings.toolchain, shelf.toolchains)
    compiler.require_host_tools()
    for name in dict.fromkeys(each.architecture for each in plan_.targets):
        target = shelf.architecture(name)
        compiler.find(toolchain, target, machine=platform.machine(), scope=scope)
    settings.cache.mkdir(parents=True, exist_ok=True)
    workspaces.require_space(settings.cache, workspaces.CLEAN_BYTES)
    return supported(plan_, shelf, Host.look(plan_, shelf, budget, settings, scope))


@dataclass(frozen=True, kw_only=True)
class Host:
    """What this host can give. Keys are architectures; `qemu`: (7, 2), and "" or what is wrong
    with an emulator in `lacking`; `memory` in MiB for all guests together."""

    lacking: Mapping[str, str]
    qemu: Mapping[str, tuple[int, ...]]
    memory: int
    accelerator: str | None = None

    @classmethod
    def look(
        cls, plan_: Plan, shelf: Catalog, budget: Budget, settings: Settings, scope: Scope
    ) -> Host:
        lacking, versions = {}, {}
        for name in dict.fromkeys(cell.architecture for cell in plan_.cells):
            target = shelf.architecture(name)
            if not Path("/usr/bin", target.qemu).exists():
                lacking[name] = (
                    f"{target.qemu} is not there: sudo apt-get install {target.qemu_package}"
                )
            else:
                version = accelerator.qemu_version(target, scope)
                versions[name] = host.version_numbers(version)
        return cls(lacking=lacking, qemu=versions, memory=budget.memory, accelerator=settings.accel)


def supported(plan_: Plan, shelf: Catalog, here: Host) -> Plan:
    """One missing emulator takes its own cells away, not the others; none at all ends the run."""
    if plan_.cells and here.lacking and not here.qemu:
        raise InfraError("no emulator: " + "; ".join(here.lacking.values()))
    causes = {cell: why for cell in plan_.cells if (why := _refusal(cell, plan_, shelf, here))}
    return plan.without(plan_, causes)


def _refusal(cell: Cell, plan_: Plan, shelf: Catalog, here: Host) -> str:
    """Why this host cannot give a cell, or ""."""
    if cell.architecture in here.lacking:
        return here.lacking[cell.architecture]
    architecture = shelf.architecture(cell.architecture)
    wanted = image.resolve(plan_.scenario.image, shelf.images, cwd=Path("/"))
    for fragment in _fragments(cell.configuration, plan_, shelf):
        if why := kconfig.refusal(fragment, cell.architecture):
            return why
    if why := image.refusal(wanted, architecture):
        return why
    kernels = (each for each in plan_.scenario.kernels if each.boots)
    for name in dict.fromkeys(plan.guest_of(cell, kernel) for kernel in kernels):
        why = shapes.refusal(
            shelf.guests[name],
            architecture,
            host_memory=here.memory,
            accelerator=here.accelerator,
            qemu=here.qemu.get(cell.architecture),
            firmware_there=_has_firmware(cell.architecture),
            counts=plan_.scenario.deterministic,
        )
        if why:
            return why if name == cell.guest else f"guest {name}: {why}"
    return ""


def _has_firmware(architecture: str) -> bool:
    path = domain.FIRMWARE.get(architecture)
    return path is not None and path.exists()


def _check_image(plan_: Plan, shelf: Catalog, transport: str) -> None:
    wanted = image.resolve(plan_.scenario.image, shelf.images, cwd=Path("/"))
    on_disk = isinstance(wanted, image.UserImage) or wanted.kind == "disk"
    if on_disk and transport == "console":
        raise UserError(
            f"image {wanted.name} has an init of its own, which does not run ktrial's steps",
            hint="leave out --transport console, or take image bench",
        )


def _check_configurations(plan_: Plan, shelf: Catalog) -> None:
    """What is only built has nothing to boot."""
    booted = {cell.configuration for cell in plan_.cells}
    for name in {each.configuration: None for each in plan_.targets}:
        given = _fragments(name, plan_, shelf)
        if name in booted and not kconfig.boots(given):
            names = ", ".join(each.name for each in given if each.base)
            raise UserError(
                f"{names} makes a kernel that boots in no guest",
                hint="`ktrial build` builds it; to boot, leave it out or take defconfig",
            )


def _fragments(configuration: str, plan_: Plan, shelf: Catalog) -> tuple[Fragment, ...]:
    """Those that the kernels of a configuration have besides what every kernel has."""
    scenario = plan_.scenario
    names = (*scenario.fragments, *plan.configuration(scenario, configuration).fragments)
    return tuple(catalog.pick("kconfig fragment", name, shelf.fragments) for name in names)


def _check_events(plan_: Plan, shelf: Catalog, transport: str) -> None:
    scenario = plan_.scenario
    if scenario.events and transport == "console":
        raise UserError(
            "events need ssh: the console carries no answers", hint="leave out --transport console"
        )
    for event in scenario.events:
        for guest in event.guests:
            catalog.pick(f"guest of event {event.label}", guest, shelf.guests)
    for cell in plan_.cells:
        for kernel in (each for each in scenario.kernels if each.boots):
            events.check(
                plan.events_of(scenario, cell, kernel),
                shelf.guests[plan.guest_of(cell, kernel)],
                shelf.architecture(cell.architecture),
                has_workload=scenario.workload(cell.workload) is not None,
            )


def _check_connection(settings: Settings) -> None:
    """A connection that can never work is bad usage, not a fault of the host."""
    try:
        virt.require_usable(settings.connect)
    except InfraError as error:
        raise UserError(error.message, hint=error.hint) from error
