"""Which accelerator runs a guest's instructions, by a short timed boot.

That /dev/kvm is there, opens and creates CPUs says nothing: where virtualization is nested
or emulated, guests may crawl or not start at all. So a tiny bare-metal program
(`Architecture.calibration`) is run under TCG and under KVM with the CPU models that guests
get, and KVM is taken only where it comes through and is not slower.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from pipeline import process
from pipeline.cache import publish, scratch
from pipeline.errors import InfraError, UserError
from pipeline.model import Accelerator, Architecture, Calibration
from pipeline.progress import Step
from pipeline.scope import Scope

KVM_DEVICE = Path("/dev/kvm")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
TCG_SECONDS = 30.0
CLOSE = 1.2  # a time that is this many times the other may be the other way round next time
SPARE_SECONDS = 0.5  # how much longer than that we wait for KVM: the start of QEMU is noisy
FORCED_SECONDS = 30.0
NAMES = ("kvm", "tcg")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """How the tiny program went. `seconds` None: it did not come through; `problem` says how.

    `late`: it did not come through in time, which a busy host may have done.
    """

    seconds: float | None
    problem: str = ""
    late: bool = False


def choose(
    architecture: Architecture,
    *,
    forced: str | None,
    cache: Path,
    scope: Scope,
    step: Step,
) -> Accelerator:
    """The accelerator for guests of this architecture on this host, and why.

    The answer is kept in `cache` until the host boots anew or QEMU changes, unless it was a
    close call. KVM that is asked for need only come through, however slow it is.

    Raises:
        UserError: `forced` is no accelerator.
        InfraError: there is no QEMU, or the forced accelerator does not work.
        Cancelled: the scope was cancelled.
    """
    if forced is not None and forced not in NAMES:
        raise UserError(f"unknown accelerator “{forced}”", hint="kvm or tcg")
    version = qemu_version(architecture, scope)
    if forced == "tcg":
        return Accelerator(name="tcg", reason="asked for with --accel tcg")
    obstacle = _obstacle(architecture)
    if obstacle:
        if forced:
            raise _no_kvm(architecture, obstacle)
        return Accelerator(name="tcg", reason=obstacle)
    if forced:
        step.note(f"trying KVM for {architecture.name}")
        return _asked_for(architecture, cache=cache, scope=scope)
    kept = _kept(architecture, version, cache)
    if kept is not None:
        return kept
    step.note(f"timing KVM against TCG for {architecture.name}")
    found, settled = timed(architecture, cache=cache, scope=scope)
    if settled:
        _keep(architecture, version, cache, found)
    return found


def qemu_version(architecture: Architecture, scope: Scope) -> str:
    """The first line of `qemu-system-… --version`; InfraError where there is none."""
    try:
        done = process.run([architecture.qemu, "--version"], scope=scope.child(20))
    except InfraError as error:
        raise InfraError(
            f"{architecture.qemu} is not there", hint=f"apt-get install {architecture.qemu_package}"
        ) from error
    return process.check(done, f"{architecture.qemu} --version").text.splitlines()[0]


def _no_kvm(architecture: Architecture, why: str) -> InfraError:
    return InfraError(
        f"KVM was asked for and does not work for {architecture.name}: {why}",
        hint="leave out --accel kvm",
    )


def _asked_for(architecture: Architecture, *, cache: Path, scope: Scope) -> Accelerator:
    """KVM, if only a guest comes through under it."""
    asked = "asked for with --accel kvm"
    if architecture.calibration is None:
        return Accelerator(name="kvm", reason=f"{asked}; there is no program to try it with")
    with scratch(cache, "accelerator") as folder:
        path = folder / "program.bin"
        path.write_bytes(program(architecture.calibration))
        tried = trial(architecture, "kvm", path, FORCED_SECONDS, scope)
    if tried.seconds is None:
        raise _no_kvm(architecture, f"it fails a timed boot: {tried.problem}")
    return Accelerator(name="kvm", reason=f"{asked}; timed boot: {tried.seconds:.2f} s")


def _obstacle(architecture: Architecture, device: Path = KVM_DEVICE) -> str:
    """Why KVM need not even be tried, or ""."""
    host = platform.machine()
    if host not in architecture.machines:
        return f"{architecture.name} on a {host} host is emulated"
    if not device.exists():
        return f"this host has no {device}"
    if not os.access(device, os.R_OK | os.W_OK):
        return f"this user may not open {device} (usermod -aG kvm USER)"
    return ""


def timed(architecture: Architecture, *, cache: Path, scope: Scope) -> tuple[Accelerator, bool]:
    """The accelerator that a timed boot under each shows to be the better one, and whether
    that is beyond doubt."""
    calibration = architecture.calibration
    if calibration is None:
        return Accelerator(name="tcg", reason="there is no program to time KVM with"), True
    with scratch(cache, "accelerator") as folder:
        path = folder / "program.bin"
        path.write_bytes(program(calibration))
        tcg = better(lambda: trial(architecture, "tcg", path, TCG_SECONDS, scope))
        limit = (tcg.seconds or TCG_SECONDS) * CLOSE + SPARE_SECONDS
        kvm = better(lambda: trial(architecture, "kvm", path, limit, scope))
        return judge(tcg, kvm), not is_close(tcg, kvm)


def better(run: Callable[[], Trial]) -> Trial:
    """The better of two trials.

    The first start of QEMU reads it from disk, and the answer is kept for long: what else
    the host did in one moment must not settle it. A trial that failed, not for its time, does.
    """
    tries: list[Trial] = []
    while len(tries) < 2:
        tries.append(run())
        if tries[-1].seconds is None and not tries[-1].late:
            return tries[-1]
    return min(tries, key=lambda each: math.inf if each.seconds is None else each.seconds)


def is_close(tcg: Trial, kvm: Trial) -> bool:
    """Whether the busy moment of a host may have decided which of the two is quicker."""
    if tcg.seconds is None or kvm.seconds is None:
        return False
    quick, slow = sorted((tcg.seconds, kvm.seconds))
    return slow <= quick * CLOSE


def judge(tcg: Trial, kvm: Trial) -> Accelerator:
    """The better of the two, KVM only where it came through and is not slower."""
    if kvm.seconds is None:
        against = f" (TCG: {tcg.seconds:.2f} s)" if tcg.seconds is not None else ""
        return Accelerator(name="tcg", reason=f"KVM fails a timed boot: {kvm.problem}{against}")
    if tcg.seconds is None:
        return Accelerator(
            name="kvm", reason=f"timed boot: KVM {kvm.seconds:.2f} s, TCG {tcg.problem}"
        )
    figures = f"timed boot: KVM {kvm.seconds:.2f} s, TCG {tcg.seconds:.2f} s"
    if kvm.seconds > tcg.seconds:
        return Accelerator(name="tcg", reason=f"KVM is slower here ({figures})")
    return Accelerator(name="kvm", reason=figures)


def trial(architecture: Architecture, name: str, path: Path, seconds: float, scope: Scope) -> Trial:
    """Run the tiny program once under an accelerator, with the CPU model of its guests."""
    calibration = architecture.calibration
    assert calibration is not None
    done = process.run(
        [
            architecture.qemu,
            *("-nodefaults", "-no-user-config", "-display", "none"),
            *("-accel", name, "-cpu", architecture.cpu[name]),
            *(word.replace("{program}", str(path)) for word in calibration.arguments),
        ],
        scope=scope.child(seconds),
    )
    scope.check()
    if done.timed_out:
        return Trial(seconds=None, problem=f"not through after {seconds:.1f} s", late=True)
    if done.exit_code != calibration.exit_status:
        return Trial(seconds=None, problem=_last_words(done))
    return Trial(seconds=done.seconds)


def _last_words(done: process.Completed) -> str:
    lines = [line.strip() for line in done.text.splitlines() if line.strip()]
    return lines[-1][-200:] if lines else f"QEMU exited with {done.exit_code}"


def program(calibration: Calibration) -> bytes:
    """The bytes of a tiny program.

    Raises:
        UserError: a line is not "OFFSET: HEX BYTES ; source", or lies outside `size`.
    """
    image = bytearray(calibration.size)
    for line in calibration.program:
        try:
            place, _, rest = line.partition(":")
            offset, code = int(place, 16), bytes.fromhex(rest.partition(";")[0])
        except ValueError as error:
            raise UserError(f"calibration: cannot read “{line}”: {error}") from error
        if offset + len(code) > calibration.size:
            raise UserError(f"calibration: “{line}” lies outside the {calibration.size} bytes")
        image[offset : offset + len(code)] = code
    return bytes(image)


# --------------------------------------------------------------------------- cache


def _kept(architecture: Architecture, version: str, cache: Path) -> Accelerator | None:
    """What was found since the host booted; a broken entry is none."""
    try:
        text = _entry(architecture, version, cache).read_text(encoding="utf-8")
        return Accelerator(**json.loads(text))
    except (OSError, ValueError, TypeError):
        return None


def _keep(architecture: Architecture, version: str, cache: Path, found: Accelerator) -> None:
    publish(_entry(architecture, version, cache), lambda part: _write(part, found))


def _entry(architecture: Architecture, version: str, cache: Path) -> Path:
    return cache / "accelerators" / f"{_key(architecture, version)}.json"


def _write(path: Path, found: Accelerator) -> None:
    path.write_text(json.dumps(asdict(found)), encoding="utf-8")


def _key(architecture: Architecture, version: str) -> str:
    boot = BOOT_ID.read_text().strip() if BOOT_ID.exists() else ""
    facts = [architecture.name, version, boot, str(os.geteuid()), repr(architecture.calibration)]
    return hashlib.sha256(json.dumps([*facts, dict(architecture.cpu)]).encode()).hexdigest()[:24]
