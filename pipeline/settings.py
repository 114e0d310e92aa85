"""What a run is told from outside, read once; each value knows where it came from.

Nothing below the command line reads the environment: it is handed a Settings.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from pipeline.errors import UserError
from pipeline.virt import EMBEDDED

Chosen = TypeVar("Chosen")

TOOLCHAIN = "gcc"
CACHE_SIZE = "40G"
PACKAGE = Path(__file__).resolve().parent


@dataclass(frozen=True, kw_only=True)
class Settings:
    """`share` are the roots that hold patches/, kconfigs/, vm_images/, workloads/ and so on,
    the user's first; `data` holds what belongs to the program. `origins` tells for each value
    whether it is a default, or which option or variable set it.
    """

    cache: Path
    results: Path
    runtime: Path
    share: tuple[Path, ...]
    data: Path
    connect: str
    accel: str | None
    sandboxed: bool
    toolchain: str
    jobs: int
    cache_size: int  # MiB that the cache may take
    memory: int | None  # MiB for all guests together; None: what is free
    terminal: str  # TERM: what an interactive shell in a guest is told
    lore: str  # public-inbox server, with %s for the message-id; "": b4's own choice
    origins: Mapping[str, str]


def version() -> str:
    """ktrial's own version; in a checkout that was never installed, what pyproject.toml says."""
    try:
        return metadata.version("ktrial")
    except metadata.PackageNotFoundError:
        declared = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))
        return str(declared["project"]["version"])


def shipped_root() -> Path:
    """Where patches/, kconfigs/ and vm_images/ of this installation lie.

    In a checkout they lie beside the package; a wheel carries them inside it.
    """
    inside = PACKAGE / "_share"
    return inside if inside.is_dir() else PACKAGE.parent


def read(
    environment: Mapping[str, str],
    *,
    cwd: Path,
    options: Mapping[str, str | bool | int | None],
) -> Settings:
    """Options win over the environment (KTRIAL_*), which wins over the defaults.

    Raises UserError where a value has the wrong form.
    """
    origins: dict[str, str] = {}

    def pick(name: str, default: Chosen) -> Chosen | str | bool | int:
        option = options.get(name)
        if option is not None:
            origins[name] = f"--{name.replace('_', '-')}"
            return option
        variable = f"KTRIAL_{name.upper()}"
        if environment.get(variable):
            origins[name] = variable
            return environment[variable]
        origins[name] = "default"
        return default

    home = Path(environment.get("HOME") or "/")
    caches = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
    own = pick("share", "")
    configured = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    roots = [(cwd / str(own)).absolute()] if own else []
    if own and not roots[0].is_dir():
        raise UserError(f"{origins['share']}: {own} is no folder")
    # Not from the current folder: that is often the tree on trial, and a toolchain file names
    # programs that run on the host.
    roots += [configured / "ktrial"] if (configured / "ktrial").is_dir() else []
    return Settings(
        cache=Path(str(pick("cache", caches / "ktrial"))).absolute(),
        results=Path(str(pick("results", cwd / "results"))).absolute(),
        # Short: the path of a UNIX socket ends at 108 characters, and libvirt's go deep.
        runtime=Path(str(pick("runtime", f"/tmp/ktrial-{os.getuid()}"))).absolute(),
        share=(*roots, shipped_root()),
        data=PACKAGE / "data",
        connect=str(pick("connect", EMBEDDED)),
        accel=_accelerator(pick("accel", None), origins["accel"]),
        sandboxed=str(pick("sandbox", "1")).lower() not in ("0", "false", "no"),
        toolchain=str(pick("toolchain", TOOLCHAIN)),
        jobs=_count(pick("jobs", os.cpu_count() or 1), origins["jobs"]),
        cache_size=_mebibytes(str(pick("cache_size", CACHE_SIZE)), origins["cache_size"]) or 0,
        memory=_mebibytes(str(pick("memory", "")), origins["memory"]),
        terminal=environment.get("TERM") or "dumb",
        lore=str(pick("lore", "")),
        origins=origins,
    )


def _accelerator(value: object, origin: str) -> str | None:
    if value in (None, "auto"):
        return None
    if value not in ("kvm", "tcg"):
        raise UserError(f"{origin}: unknown accelerator {value}", hint="use kvm, tcg or auto")
    return str(value)


def _count(value: object, origin: str) -> int:
    try:
        number = int(str(value))
    except ValueError:
        number = 0
    if number < 1:
        raise UserError(f"{origin}: {value!r} is not a number of jobs", hint="use 1 or more")
    return number


def _mebibytes(text: str, origin: str) -> int | None:
    """16G, 512M or a number of MiB; None where nothing is said."""
    if not text:
        return None
    units = {"G": 1024, "M": 1, "": 1}
    found = re.fullmatch(r"(\d+)\s*([GM]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    number = int(found[1]) * units[found[2].upper()] if found else 0
    if number < 1:
        raise UserError(f"{origin}: {text!r} is no size", hint="write 16G or 4096M")
    return number
