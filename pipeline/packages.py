"""What ktrial needs of the host, from data/packages.txt (which the launcher reads too)."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline import host, process
from pipeline.scope import Scope

FILE = Path(__file__).parent / "data" / "packages.txt"
INCLUDES = ("/usr/include", "/usr/include/*", "/usr/local/include")


@dataclass(frozen=True, kw_only=True)
class Package:
    """A Debian package, the group of uses it belongs to, and how to tell that it is there."""

    name: str
    group: str
    probe: str
    why: str


def read(text: str) -> tuple[Package, ...]:
    """The lines of packages.txt; ValueError for one that does not have four fields.

    Of alternatives ("A|B") the first is the one to install.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) != 4 or not all(fields):
            raise ValueError(f"packages.txt:{number}: expected 4 fields with tabs between: {line}")
        name, group, probe, why = fields
        found.append(Package(name=name.partition("|")[0], group=group, probe=probe, why=why))
    return tuple(found)


def shipped() -> tuple[Package, ...]:
    """Those of this installation."""
    return read(FILE.read_text(encoding="utf-8"))


def of_groups(packages: Sequence[Package], groups: Sequence[str]) -> tuple[Package, ...]:
    """Those that belong to one of the groups, in the file's order."""
    return tuple(package for package in packages if package.group in groups)


def is_there(package: Package, *, scope: Scope) -> bool:
    """Whether what the package brings is there, wherever it came from."""
    kind, _, rest = package.probe.rpartition(":")
    if kind == "pc":
        config = host.which("pkg-config")
        return bool(config) and process.run((str(config), "--exists", rest), scope=scope).ok
    if kind == "header":
        return any(_matches(f"{folder}/{rest}") for folder in INCLUDES)
    if kind == "path":
        return _matches(rest)
    return host.which(package.probe) is not None


def _matches(pattern: str) -> bool:
    return any(Path("/").glob(pattern.lstrip("/")))


def missing(packages: Sequence[Package], *, scope: Scope) -> tuple[Package, ...]:
    return tuple(package for package in packages if not is_there(package, scope=scope))


def install_command(packages: Sequence[Package]) -> str:
    """What to type on Debian to get them."""
    names = dict.fromkeys(package.name for package in packages)
    return f"sudo apt-get install --no-install-recommends {shlex.join(names)}"
