"""The single checks of `ktrial doctor`: each looks at one thing of the host."""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline import cache as caches
from pipeline import compiler, deterministic, host, packages, process, sandbox
from pipeline.errors import InfraError, UserError
from pipeline.model import Accelerator, Architecture, Toolchain
from pipeline.scope import Scope
from pipeline.virt import EMBEDDED, require_usable

SECONDS = 20.0
NEEDED_DISK = 3 * host.GIB  # what a first run writes: tree, sources, three builds, image
WANTED_DISK = 15 * host.GIB
NEEDED_MEMORY = 1 * host.GIB  # a guest of 512 MiB, and a compiler per core
WANTED_MEMORY = 3 * host.GIB
APT_HELPER = "/usr/lib/apt/apt-helper"
QEMU_DRIVERS = ("/usr/lib*", "/usr/lib*/*", "/usr/local/lib*", "/usr/local/lib*/*")
QEMU_DRIVER = "libvirt/connection-driver/libvirt_driver_qemu.so"

Choose = Callable[[Architecture], Accelerator]


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing looked at. `found` is what is there, `remedy` a command or advice, or ""."""

    name: str
    ok: bool | None
    found: str
    remedy: str = ""


def check_python() -> Check:
    found = f"{platform.python_version()} ({sys.prefix})"
    return Check(name="python", ok=sys.version_info >= (3, 11), found=found)


def check_tool(program: str, package: str, scope: Scope, option: str = "--version") -> Check:
    version = host.tool_version(program, scope=scope, option=option)
    return Check(
        name=program,
        ok=bool(version),
        found=version or f"{program} is not there",
        remedy="" if version else f"sudo apt-get install {package}",
    )


def check_ssh(scope: Scope) -> Check:
    """Only people want it, to look into a guest by hand."""
    check = check_tool("ssh", "openssh-client", scope, "-V")
    return replace(check, ok=check.ok or None)


def groups_for(architectures: Sequence[Architecture], machine: str) -> tuple[str, ...]:
    """The groups of packages.txt that a run on this host's own architecture needs."""
    native = [each.name for each in architectures if machine in each.machines]
    return ("python", "build", "guest", *(f"qemu-{name}" for name in native))


def check_packages(groups: Sequence[str], scope: Scope) -> Check:
    wanted = packages.of_groups(packages.shipped(), groups)
    lack = packages.missing(wanted, scope=scope)
    return Check(
        name="packages",
        ok=not lack,
        found="; ".join(f"{each.name} is missing ({each.why})" for each in lack)
        or f"all {len(wanted)} are there",
        remedy=packages.install_command(lack) if lack else "",
    )


def check_apt(cache: Path, scope: Scope) -> Check:
    """Whether the machine's own mirror answers, through apt's own configuration and proxies.

    Only a tree or an image that is not in the cache yet wants it, so a failure is mild.
    """
    if not Path(APT_HELPER).exists():
        return Check(
            name="apt",
            ok=None,
            found="not a Debian system: debian: trees and guest images cannot be had",
            remedy="use --tree with a git repository of yours",
        )
    command = ("apt-get", "indextargets", "--format", "$(BASE_URI)", "Created-By: Packages")
    listed = process.run(command, scope=scope.child(SECONDS), merge_stderr=False)
    mirror = next((line for line in listed.text.split() if re.match("https?:", line)), "")
    if not mirror:
        return Check(name="apt", ok=None, found="no mirror over http(s)", remedy="sources.list(5)")
    with caches.scratch(cache, "doctor") as scratch:
        fetch = (APT_HELPER, "download-file", f"{mirror}InRelease", f"{scratch}/InRelease")
        fetched = process.run(fetch, scope=scope.child(SECONDS))
    return Check(
        name="apt",
        ok=True if fetched.ok else None,
        found=f"{mirror} {'answers' if fetched.ok else 'does not answer: ' + _last_line(fetched)}",
        remedy="" if fetched.ok else "sudo apt-get update, and see to what it complains of",
    )


def _last_line(completed: process.Completed) -> str:
    if completed.timed_out:
        return f"nothing within {completed.seconds:.0f} s"
    lines = [line.strip() for line in completed.text.splitlines() if line.strip()]
    return lines[-1] if lines else f"exit {completed.exit_code}"


def check_b4(scope: Scope) -> Check:
    program = Path(sys.executable).with_name("b4")
    if not program.exists():
        return Check(
            name="b4",
            ok=False,
            found=f"{program} is not there",
            remedy=f"{sys.executable} -m pip install b4",
        )
    return check_tool(str(program), "b4", scope)


def check_namespaces(scope: Scope) -> Check:
    unshared = process.run(("unshare", "--user", "--map-root-user", "true"), scope=scope)
    return Check(
        name="user namespaces",
        ok=True if unshared.ok or os.getuid() == 0 else None,
        found="can be made" if unshared.ok else _last_line(unshared),
        remedy="" if unshared.ok else "sudo sysctl kernel.unprivileged_userns_clone=1",
    )


def check_sandbox(cache: Path, scope: Scope) -> Check:
    with caches.scratch(cache, "doctor") as scratch:
        box = sandbox.Sandbox(source=scratch, build=scratch)
        sandbox.require(box, scope=scope.child(SECONDS))
    version = host.tool_version(box.bwrap, scope=scope)
    return Check(name="sandbox", ok=True, found=f"{version} works")


def check_compiler(
    toolchain: Toolchain, architecture: Architecture, machine: str, scope: Scope
) -> Check:
    try:
        found = compiler.find(toolchain, architecture, machine=machine, scope=scope)
    except UserError as error:
        return Check(name="", ok=None, found=error.message)
    return Check(name="", ok=True, found=found.version)


def check_qemu(architecture: Architecture, scope: Scope) -> Check:
    check = check_tool(architecture.qemu, architecture.qemu_package, scope)
    if check.ok and host.version_numbers(check.found) < deterministic.MANY_VCPUS:
        note = "before 8.1: deterministic guests (-icount) have one vCPU only"
        remedy = f"only for more: {deterministic.newer_qemu(architecture.qemu_package)}"
        return replace(check, found=f"{check.found}; {note}", remedy=remedy)
    return check


def check_accelerator(architecture: Architecture, choose: Choose) -> Check:
    if host.which(architecture.qemu) is None:
        return Check(
            name="",
            ok=False,
            found=f"{architecture.qemu} is not there",
            remedy=f"sudo apt-get install {architecture.qemu_package}",
        )
    chosen = choose(architecture)
    return Check(name="", ok=True, found=f"{chosen.name}: {chosen.reason}")


# libvirt 9.0 opens one embedded root a process, and nothing ends a connection that hangs: so a
# process of its own opens what a run would.
OPEN_LIBVIRT = """\
import sys
import tempfile
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from pipeline.errors import InfraError
from pipeline.hypervisor import Hypervisor
folder, uri = Path(sys.argv[2]), sys.argv[3] or None
try:
    with Hypervisor(runtime=folder / "r", cache=folder, families=(), connect=uri) as opened:
        print(opened.versions()["libvirt"])
except InfraError as error:
    sys.exit(f"{error.message}\\n{error.hint}")
"""


def check_libvirt(connect: str, scope: Scope) -> Check:
    """The library, its binding, and a connection such as a run opens."""
    try:
        import libvirt  # noqa: F401, PLC0415  # doctor must work where the binding does not
    except ImportError as error:
        raise InfraError(
            f"the Python binding does not load: {error}",
            hint="sudo apt-get install libvirt-dev pkgconf gcc; then remove .venv and start again",
        ) from error
    require_usable(connect)
    uri = "" if connect == EMBEDDED else connect
    package = str(Path(__file__).resolve().parents[1])
    # In /tmp: the paths of libvirt's sockets must be short.
    with tempfile.TemporaryDirectory(prefix="ktrial-", dir="/tmp") as folder:
        opened = process.run(
            (sys.executable, "-c", OPEN_LIBVIRT, package, folder, uri), scope=scope.child(SECONDS)
        )
    if opened.ok:
        return Check(name="libvirt", ok=True, found=f"{opened.text.strip()}, {connect} opens")
    if opened.timed_out:
        raise InfraError(
            f"{connect} does not open within {SECONDS:.0f} s", hint=_look_at(connect, "")
        )
    *_, message, hint = ["", *opened.text.splitlines()]
    raise InfraError(message, hint=_look_at(connect, hint))


def _look_at(connect: str, hint: str) -> str:
    """What mends a libvirt: virsh tells more, but cannot open the embedded one."""
    return hint if connect == EMBEDDED else f"virsh --connect {shlex.quote(connect)} uri"


def check_user() -> Check:
    """Works either way: advice only."""
    if os.geteuid() != 0:
        return Check(name="user", ok=True, found="not root")
    return Check(
        name="user",
        ok=True,
        found="root: then QEMU, with the kernel under trial in it, runs as root too",
        remedy="better an ordinary user: nothing in ktrial needs root",
    )


def check_qemu_driver() -> Check:
    drivers = [
        path for folder in QEMU_DRIVERS for path in Path("/").glob(f"{folder[1:]}/{QEMU_DRIVER}")
    ]
    if not drivers:
        return Check(
            name="libvirt QEMU driver",
            ok=False,
            found=f"no {QEMU_DRIVER}",
            remedy="sudo apt-get install --no-install-recommends libvirt-daemon-driver-qemu",
        )
    return Check(name="libvirt QEMU driver", ok=True, found=str(drivers[0]))


def check_kvm(node: Path = Path("/dev/kvm")) -> Check:
    """The node only: whether KVM is any good, the accelerator's timed boot tells."""
    if not node.exists():
        return Check(
            name="/dev/kvm",
            ok=None,
            found="is not there: guests are emulated",
            remedy="switch virtualization on in the firmware; sudo modprobe kvm_intel or kvm_amd",
        )
    if not os.access(node, os.R_OK | os.W_OK):
        return Check(
            name="/dev/kvm",
            ok=None,
            found="is there, but not for you: guests are emulated",
            remedy='sudo adduser "$USER" kvm, then log in anew',
        )
    return Check(name="/dev/kvm", ok=True, found="is there (what it is worth: see accelerator)")


def check_disk(cache: Path, free: int) -> Check:
    return _amount(
        "disk",
        f"free for {cache}",
        free,
        needed=NEEDED_DISK,
        wanted=WANTED_DISK,
        remedy="ktrial clean --older-than 7d",
    )


def check_memory(available: int) -> Check:
    return _amount(
        "memory",
        "available",
        available,
        needed=NEEDED_MEMORY,
        wanted=WANTED_MEMORY,
        remedy="end other programs",
    )


def _amount(name: str, what: str, amount: int, *, needed: int, wanted: int, remedy: str) -> Check:
    text = f"{amount / host.GIB:.1f} GiB {what}"
    if amount >= wanted:
        return Check(name=name, ok=True, found=text)
    text += f"; {needed / host.GIB:.0f} is the least, {wanted / host.GIB:.0f} is plenty"
    return Check(name=name, ok=None if amount >= needed else False, found=text, remedy=remedy)
