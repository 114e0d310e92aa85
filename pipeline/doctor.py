"""`ktrial doctor`: what works on this host, what does not, and the command that mends it.

A check says True (works), False (a run on this host will fail for it) or None (something
is not there or not known, but only some runs want it).
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pipeline import checks, host
from pipeline.checks import Check, Choose
from pipeline.errors import KtrialError
from pipeline.model import Architecture, Toolchain
from pipeline.progress import Step
from pipeline.scope import Scope
from pipeline.settings import TOOLCHAIN

Look = Callable[[], Check]


def examine(
    *,
    cache: Path,
    connect: str,
    architectures: Sequence[Architecture],
    choose: Choose,
    scope: Scope,
    step: Step,
    toolchains: Sequence[Toolchain] = (),
    machine: str = "",
) -> tuple[Check, ...]:
    """Look at the whole host; takes some seconds, most of them for `choose`'s timed boots.

    `choose` decides on an accelerator by a timed boot, and raises where none works.
    `machine` is the host's architecture (`uname -m`); "" asks. Raises Cancelled.
    """
    machine = machine or platform.machine()
    looks: list[tuple[str, Look]] = [
        ("python", checks.check_python),
        ("git", lambda: checks.check_tool("git", "git", scope)),
        (
            "packages",
            lambda: checks.check_packages(checks.groups_for(architectures, machine), scope),
        ),
        ("apt", lambda: checks.check_apt(cache, scope)),
        ("b4", lambda: checks.check_b4(scope)),
        ("mmdebstrap", lambda: checks.check_tool("mmdebstrap", "mmdebstrap", scope)),
        ("ssh", lambda: checks.check_ssh(scope)),
        ("user namespaces", lambda: checks.check_namespaces(scope)),
        ("sandbox", lambda: checks.check_sandbox(cache, scope)),
        ("user", checks.check_user),
        ("libvirt", lambda: checks.check_libvirt(connect, scope)),
        ("libvirt QEMU driver", checks.check_qemu_driver),
        ("/dev/kvm", checks.check_kvm),
    ]
    for each in sorted(architectures, key=lambda one: machine not in one.machines):
        looks += _of_architecture(each, machine, toolchains, choose, scope)
    looks += [
        ("disk", lambda: checks.check_disk(cache, host.free_disk(cache))),
        ("memory", lambda: checks.check_memory(host.memory())),
        ("cores", lambda: Check(name="cores", ok=True, found=str(host.cpu_count()))),
    ]
    return tuple(_look(name, look, scope, step) for name, look in looks)


def _look(name: str, look: Look, scope: Scope, step: Step) -> Check:
    """One check; whatever it stumbles over is its finding, not the end of the examination."""
    scope.check()
    step.note(name)
    try:
        return replace(look(), name=name)
    except KtrialError as error:
        return Check(name=name, ok=False, found=error.message, remedy=error.hint)
    except OSError as error:
        return Check(name=name, ok=False, found=str(error), remedy="give --cache DIR, or mend that")


def _of_architecture(
    architecture: Architecture,
    machine: str,
    toolchains: Sequence[Toolchain],
    choose: Choose,
    scope: Scope,
) -> list[tuple[str, Look]]:
    """Checks for one architecture; what a foreign one lacks hinders only runs that ask for it,
    and so does what a toolchain lacks that no run takes by itself."""
    native = machine in architecture.machines

    def mild(look: Look, needed: bool = True) -> Look:
        def milder() -> Check:
            try:
                check = look()
            except KtrialError as error:
                check = Check(name="", ok=False, found=error.message, remedy=error.hint)
            return check if (native and needed) or check.ok else replace(check, ok=None)

        return milder

    looks = [
        (
            f"{architecture.name}: compiler {each.name}",
            mild(
                partial(checks.check_compiler, each, architecture, machine, scope),
                needed=each.name == TOOLCHAIN,
            ),
        )
        for each in toolchains
    ]
    return [
        *looks,
        (f"{architecture.name}: QEMU", mild(lambda: checks.check_qemu(architecture, scope))),
        (
            f"{architecture.name}: accelerator",
            mild(lambda: checks.check_accelerator(architecture, choose)),
        ),
    ]


# ------------------------------------------------------------------------- rendering

MARKS = {True: "ok", None: "--", False: "NO"}


def render(found: Sequence[Check]) -> str:
    """A line per check, below it what mends it; at the end one line that sums up."""
    width = max((len(check.name) for check in found), default=0)
    lines = []
    for check in found:
        lines.append(f"{MARKS[check.ok]}  {check.name:<{width}}  {check.found}")
        if check.remedy:
            lines.append(f"{'':{width + 4}}  → {check.remedy}")
    failed = [check.name for check in found if check.ok is False]
    mild = sum(check.ok is None for check in found)
    verdict = f"to be mended: {', '.join(failed)}" if failed else "ready for a run on this host"
    aside = f" ({mild} marked -- {'hinders' if mild == 1 else 'hinder'} only some runs)"
    return "\n".join([*lines, "", verdict + (aside if mild else "")]) + "\n"
