"""Debian packages as a folder or an archive, through mmdebstrap.

`unpack` runs no foreign code, and nobody need be root: `--variant=extract` only unpacks, which
its mode "chrootless" does for any user and any architecture without a chroot, binfmt, user
namespaces or /etc/subuid (mmdebstrap 1.3.5; the mode's danger, maintainer scripts that run on
the host, is not met, since nothing is configured).

`install` makes a whole system: the packages' own scripts run in a chroot, as root or, for an
ordinary user, in a user namespace with the ids that /etc/subuid gives.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline import process
from pipeline.errors import InfraError
from pipeline.progress import Step
from pipeline.scope import Scope

DEBIAN_INDEXES = ("Created-By: Packages", "Origin: Debian", "Label: Debian")
DEFAULT_MIRROR = "http://deb.debian.org/debian"
HOOK = Path(__file__).resolve().parent / "data" / "image" / "keep-packages.sh"


@dataclass(frozen=True, kw_only=True)
class Wish:
    """Which packages, and who asks. `apt` keeps packages from one to the next, `log` is
    written anew, `temporary` has room for what mmdebstrap works with."""

    what: str  # in messages: "image bench (x86_64)"
    suite: str
    debian_arch: str
    packages: tuple[str, ...]
    apt: Path
    log: Path
    temporary: Path
    scope: Scope
    step: Step


def unpack(wish: Wish, root: Path) -> None:
    """Fill the folder `root` with the packages, unpacked but not configured.

    Raises:
        InfraError: mmdebstrap is not there, or it or the mirror failed.
    """
    hook = f'sh {shlex.quote(str(HOOK))} "$1"'
    options = (
        "--mode=chrootless",
        "--variant=extract",
        "--skip=check/chrootless",  # 1.4 and newer refuse to be root without it
        "--format=directory",
        f"--setup-hook={hook}",
        f"--extract-hook={hook}",
    )
    _mmdebstrap(wish, options, root)


def install(wish: Wish, archive: Path) -> None:
    """Write a system of the packages, installed and configured, as the tar file `archive`.

    Raises:
        InfraError: mmdebstrap is not there, may not make a user namespace, or it or the mirror
            failed.
    """
    root = os.geteuid() == 0
    if not root and not may_map_ids():
        raise InfraError(
            f"{wish.what} needs root, or user namespaces with the ids of /etc/subuid",
            hint="apt-get install uidmap, then: sudo usermod --add-subuids 100000-165535 "
            "--add-subgids 100000-165535 $USER",
        )
    hook = f'sh {shlex.quote(str(HOOK))} "$1"'
    # In a user namespace the hook could neither read nor write the folder of packages.
    kept = (f"--setup-hook={hook}", f"--extract-hook={hook}") if root else ()
    options = (f"--mode={'root' if root else 'unshare'}", "--variant=apt", "--format=tar", *kept)
    _mmdebstrap(wish, options, archive)


def may_map_ids() -> bool:
    """Whether this user has ids of his own to give away in a user namespace."""
    names = {str(os.geteuid())}
    try:
        import pwd  # noqa: PLC0415

        names.add(pwd.getpwuid(os.geteuid()).pw_name)
        lines = Path("/etc/subuid").read_text().splitlines()
    except (OSError, KeyError):
        return False
    granted = any(line.split(":")[0] in names for line in lines)
    return granted and shutil.which("newuidmap") is not None


def _mmdebstrap(wish: Wish, options: Sequence[str], target: Path) -> None:
    if shutil.which("mmdebstrap") is None:
        raise InfraError("mmdebstrap is not there", hint="apt-get install mmdebstrap")
    wish.log.parent.mkdir(parents=True, exist_ok=True)
    wish.log.unlink(missing_ok=True)
    settings = target.with_name("apt.conf")
    settings.write_text(_apt_options(wish.scope), encoding="utf-8")

    def note(line: str) -> None:
        if line.startswith("I: ") and "-hook " not in line:
            wish.step.note(line.removeprefix("I: "))

    completed = process.run(
        [
            "env",
            f"KTRIAL_APT={wish.apt}",
            f"TMPDIR={wish.temporary}",
            "mmdebstrap",
            *options,
            f"--architectures={wish.debian_arch}",
            f"--include={','.join(wish.packages)}",
            f"--aptopt={settings}",
            wish.suite,
            str(target),
            f"deb {_mirror(wish.scope)} {wish.suite} main",
        ],
        scope=wish.scope,
        log=wish.log,
        on_line=note,
    )
    process.check(
        completed,
        f"mmdebstrap for {wish.what}",
        hint=f"see {wish.log}; `ktrial doctor` checks whether the Debian mirror is within reach",
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
