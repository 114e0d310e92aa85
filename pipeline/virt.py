"""libvirt in this process: imported late, silent, with its event loop running.

And the last words of its QEMU: how it ended, and what it wrote.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from pipeline.errors import InfraError

EMBEDDED = "qemu:///embed"
LIBVIRT_NOTES = ("is tainted:", "shutting down, reason", "terminating on signal 15 from")

_guard = threading.Lock()
_loaded: list[ModuleType] = []


def load_libvirt(log: Path | None = None) -> ModuleType:
    """Import libvirt once, silent, with its event loop running in a thread.

    Messages of libvirt itself go to `log` (first call only) and never to stderr.

    Raises:
        InfraError: there is no libvirt here.
    """
    with _guard:
        if _loaded:
            return _loaded[0]
        try:
            libvirt = _import_with_log(log)
        except ImportError as error:
            raise InfraError(
                f"libvirt cannot be loaded: {error}",
                hint="apt-get install libvirt-daemon libvirt-daemon-driver-qemu libvirt0",
            ) from error
        libvirt.registerErrorHandler(_ignore_error, None)
        libvirt.virEventRegisterDefaultImpl()
        threading.Thread(
            target=_run_events, args=(libvirt,), name="libvirt events", daemon=True
        ).start()
        _loaded.append(libvirt)
        return libvirt


def require_usable(uri: str) -> None:
    """Refuse a libvirt whose guests could not have a run's files.

    Kernel, initramfs and console lie in folders that only this user may enter: on this machine,
    and not for the libvirt-qemu of a system-wide daemon. libvirt gives root's qemu:///session
    to that daemon too.

    Raises:
        InfraError: it is on another machine, another user's, or not QEMU's.
    """
    if uri == EMBEDDED:
        return
    given = urlsplit(uri)
    driver, _, transport = given.scheme.partition("+")
    hint = f"leave out --connect: {EMBEDDED} needs no daemon"
    if given.netloc or transport not in ("", "unix"):
        raise InfraError(f"guests cannot run at {uri}: the files of a run are here", hint=hint)
    if driver != "qemu":
        raise InfraError(f"guests cannot run at {uri}: it is not QEMU's driver", hint=hint)
    if given.path != "/session" or os.geteuid() == 0:
        raise InfraError(
            f"guests cannot run at {uri}: its QEMU is another user, who may not read a run's files",
            hint=f"{hint}; an ordinary user may give qemu:///session",
        )


def _import_with_log(log: Path | None) -> ModuleType:
    """libvirt reads where to log from the environment, and only while it is initialised."""
    os.putenv("LIBVIRT_LOG_OUTPUTS", f"3:file:{log or os.devnull}")
    try:
        import libvirt  # noqa: PLC0415
    finally:
        os.unsetenv("LIBVIRT_LOG_OUTPUTS")
    module: ModuleType = libvirt
    return module


def _ignore_error(context: object, error: object) -> None:
    """Errors reach us as exceptions; libvirt's own handler would print them as well."""


def _run_events(libvirt: Any) -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


def exit_words(status: int) -> str:
    """A waitpid(2) status in words; "" for a good one."""
    if os.WIFSIGNALED(status):
        return f"QEMU was ended by {signal.Signals(os.WTERMSIG(status)).name}"
    code = os.waitstatus_to_exitcode(status)
    return f"QEMU exited with status {code}" if code else ""


def qemu_words(log: str) -> list[str]:
    """The lines of a domain's log that QEMU wrote: not libvirt's notes and command line."""
    words = []
    in_command = False
    for line in log.splitlines():
        if " starting up libvirt version" in line:
            in_command = True
        elif in_command:
            in_command = line.endswith("\\")
        elif line.strip() and not any(note in line for note in LIBVIRT_NOTES):
            words.append(line)
    return words
