"""A public-inbox server with mails of one's own, on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

ADDRESS = "list@example.org"
START_SECONDS = 30.0


@contextmanager
def serving(folder: Path, mails: Iterable[bytes]) -> Iterator[str]:
    """The address of a list with these mails; `folder` is empty."""
    port = _free_port()
    address = f"http://127.0.0.1:{port}/list"
    config = folder / "config"
    environment = {**os.environ, "HOME": str(folder), "PI_CONFIG": str(config)}
    environment |= {"PI_EMERGENCY": str(folder / "emergency"), "ORIGINAL_RECIPIENT": ADDRESS}

    def run(*words: str, mail: bytes = b"") -> None:
        done = subprocess.run(words, env=environment, input=mail, capture_output=True, check=False)
        assert done.returncode == 0, (words, done.stderr.decode())

    run("public-inbox-init", "-V2", "-L", "basic", "list", str(folder / "inbox"), address, ADDRESS)
    run("git", "config", "-f", str(config), "publicinboxmda.spamcheck", "none")
    for mail in mails:
        run("public-inbox-mda", "--no-precheck", mail=mail)
    with (folder / "httpd.log").open("wb") as log:
        server = subprocess.Popen(
            ("public-inbox-httpd", "-W0", "-l", f"127.0.0.1:{port}"),
            env=environment, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        _await(address)
        yield address
    finally:
        server.terminate()
        server.wait(10)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await(address: str) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"{address}/", timeout=5):
                return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
