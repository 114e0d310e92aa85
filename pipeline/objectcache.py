"""ccache below a build: objects that a trusted build compiled, for all that come after.

Its folder is written by trusted builds alone. A stranger's build sees it read-only and
leaves nothing in it: what it compiled could be anything.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pipeline import sandbox

PROGRAM = Path("/usr/bin/ccache")
COMPILERS = Path("/usr/lib/ccache")  # links with the names of compilers (Debian's ccache)
INSIDE = Path("/ccache")
MAX_SIZE = "5G"  # a tiny configuration takes 60 MB


@dataclass(frozen=True, kw_only=True)
class ObjectCache:
    """What a sandbox needs for it: folders as `Sandbox` takes them, and the environment."""

    readable: Mapping[Path, Path] = field(default_factory=dict)
    writable: Mapping[Path, Path] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


def find(cache: Path, *, identity: str, trusted: bool, sandboxed: bool) -> ObjectCache:
    """The cache of objects below `cache`; nothing where ccache is not installed.

    `identity` names the compiler. Without the sandbox nothing would keep a build from writing
    to it, and paths would be the host's: then it is not used.
    """
    if not sandboxed or not (PROGRAM.exists() and COMPILERS.is_dir()):
        return ObjectCache()
    folder = cache / "ccache"
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(OSError):  # `clean` goes by this time
        os.utime(folder)
    environment = {
        "PATH": f"{COMPILERS}:{sandbox.PATH}",
        "CCACHE_DIR": str(INSIDE),
        "CCACHE_COMPILERCHECK": f"string:{' '.join(identity.split())}",
        "CCACHE_MAXSIZE": MAX_SIZE,
        "CCACHE_TEMPDIR": "/tmp",
    }
    if trusted:
        return ObjectCache(writable={INSIDE: folder}, environment=environment)
    return ObjectCache(
        readable={INSIDE: folder}, environment=environment | {"CCACHE_READONLY": "true"}
    )
