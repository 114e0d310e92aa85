"""Reaps the QEMU processes that libvirt starts inside this process, at once.

QEMU daemonizes itself and so becomes a child of init. libvirt asks every 200 ms whether it
is gone, and goes on for as long as init has not reaped it: 1 to 2 s for each guest and each
capability probe where PID 1 is slow (measured in a container). As the *subreaper* this
process becomes the parent instead, and learns QEMU's exit status, which libvirt keeps to
itself. Only processes named by libvirt's pid files in one root are touched, so the
children of `subprocess` are safe.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
SCAN_MILLISECONDS = 5
# Guests, and capability probes (libvirt 9.0: qemuProcessQMPInit).
PID_FILES = ("run/qemu/*.pid", "lib/qemu/qmp-*/qmp.pid")
NOT_A_GUEST = "driver"

OnExit = Callable[[str, int | None], None]


class Reaper:
    """Watches the QEMU processes of one libvirt root; a context manager.

    `on_exit(name, status)` is called in its thread when the guest `name` is gone; `status`
    is that of waitpid(2), None where it was not ours to reap.
    """

    def __init__(self, root: Path, on_exit: OnExit) -> None:
        self._root = root
        self._on_exit = on_exit
        self._poll = select.poll()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll.register(self._wake, select.POLLIN)
        self._processes: dict[int, tuple[str, int]] = {}  # pidfd -> (name, pid)
        self._seen: set[int] = set()
        self._starting = 0
        self._leaving = False
        self._guard = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="qemu reaper", daemon=True)

    def __enter__(self) -> Reaper:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._leaving = True
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        for descriptor in (self._wake, *self._processes):
            os.close(descriptor)

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Look for new processes meanwhile: libvirt is about to start some."""
        with self._guard:
            self._starting += 1
        os.eventfd_write(self._wake, 1)
        try:
            yield
        finally:
            with self._guard:
                self._scan()
                self._starting -= 1

    def kill(self, name: str) -> bool:
        """Send SIGKILL to the guest `name`; whether there was one."""
        with self._guard:
            for descriptor, (known, _) in self._processes.items():
                if known == name:
                    with suppress(ProcessLookupError):
                        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                    return True
        return False

    def _run(self) -> None:
        while not self._leaving:
            for descriptor, _ in self._poll.poll(SCAN_MILLISECONDS if self._starting else None):
                if descriptor == self._wake:
                    with suppress(BlockingIOError):
                        os.eventfd_read(self._wake)
                else:
                    self._reap(descriptor)
            if self._starting:
                with self._guard:
                    self._scan()

    def _scan(self) -> None:
        for pattern in PID_FILES:
            for path in self._root.glob(pattern):
                with suppress(OSError, ValueError):
                    self._adopt(path.stem, int(path.read_text()))

    def _adopt(self, name: str, pid: int) -> None:
        if pid in self._seen or name == NOT_A_GUEST:
            return
        descriptor = os.pidfd_open(pid)
        self._seen.add(pid)
        self._processes[descriptor] = (name, pid)
        self._poll.register(descriptor, select.POLLIN)
        os.eventfd_write(self._wake, 1)

    def _reap(self, descriptor: int) -> None:
        with self._guard:
            name, pid = self._processes.pop(descriptor)
            self._poll.unregister(descriptor)
            os.close(descriptor)
            status: int | None = None
            with suppress(ChildProcessError):
                status = os.waitpid(pid, 0)[1]
            self._seen.discard(pid)
        self._on_exit(name, status)
