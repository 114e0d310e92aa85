"""Kernel trees from Debian's `linux-source-*` packages, of any suite, through the machine's
own mirror, without changing the machine's configuration or installing anything.

apt runs with a configuration, state and cache of its own; it only learns from the
machine's configuration where Debian's mirror is and which proxy to use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline import process
from pipeline.errors import InfraError, UserError
from pipeline.process import Completed
from pipeline.progress import Step
from pipeline.scope import Scope

SUITES = ("bullseye", "bookworm", "trixie", "sid")
SUITE_OF = {"5.10": "bullseye", "6.1": "bookworm", "6.12": "bookworm"}
"""Where the versions that scenarios name lie; others are searched for in every suite."""
MIRROR, SECURITY_MIRROR = "http://deb.debian.org/debian", "http://deb.debian.org/debian-security"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
INDEX_SECONDS, PACKAGE_SECONDS = 180, 600
NETWORK_HINT = "look at the network and the mirror, or give a git repository with --tree PATH"

PACKAGE = re.compile(r"^linux-source-(\d+\.\d+) - ", re.MULTILINE)


class TreeUnavailable(InfraError):
    """The package of a tree that should be there is not to be had from this mirror."""


@dataclass(frozen=True, kw_only=True)
class Mirrors:
    """Base addresses of Debian's archive and of its security archive."""

    main: str = MIRROR
    security: str = SECURITY_MIRROR


@dataclass(frozen=True, kw_only=True)
class SourcePackage:
    """A kernel source tarball, unpacked from its package, and the package's version."""

    name: str
    version: str
    tarball: Path


def fetch(version: str, *, work: Path, scope: Scope, step: Step) -> SourcePackage:
    """Download `linux-source-<version>` into the empty folder `work` and unpack it there.

    Raises:
        UserError: Debian has no such version; the hint lists those it has.
        TreeUnavailable: a version that should be there is not, or no mirror answers.
        InfraError: apt or dpkg are not there.
    """
    name = f"linux-source-{version}"
    mirrors = read_mirrors(_indextargets(scope))
    expected = SUITE_OF.get(version)
    for suites in ((expected,), SUITES) if expected else (SUITES,):
        step.note(f"reading the package lists of {', '.join(suites)}")
        apt = _Apt(work=work, scope=scope)
        apt.update(mirrors, suites)
        if candidate := apt.candidate(name):
            return _unpacked(apt, name, candidate, step)
    known = available(apt.search())
    if version in SUITE_OF:
        raise TreeUnavailable(f"{name} is not to be had from {mirrors.main}", hint=_listed(known))
    raise UserError(f"Debian has no kernel source {version}", hint=_listed(known))


def available(listing: str) -> tuple[str, ...]:
    """The versions in the output of `apt-cache search linux-source`, oldest first."""
    found = set(PACKAGE.findall(listing))
    return tuple(sorted(found, key=lambda version: [int(part) for part in version.split(".")]))


def _listed(versions: Sequence[str]) -> str:
    return f"there are: {', '.join(f'debian:{version}' for version in versions)}"


def read_mirrors(indextargets: str) -> Mirrors:
    """Debian's mirrors among lines of `REPO_URI RELEASE ORIGIN`, or the well-known ones.

    Only an address that carries a suite of Debian's own counts: other vendors use the
    same release names for their repositories, so the last part of the path has to say
    debian or debian-security.
    """
    main, security = MIRROR, SECURITY_MIRROR
    for line in reversed(indextargets.splitlines()):
        address, _, _ = line.strip().partition(" ")
        address = address.rstrip("/")
        kind = address.rsplit("/", 1)[-1]
        if kind == "debian":
            main = address
        elif kind in ("debian-security", "security"):
            security = address
    return Mirrors(main=main, security=security)


def source_list(mirrors: Mirrors, suites: Iterable[str], keyring: Path) -> str:
    """A sources.list with `main` of the suites and, but for sid, of their security suites."""
    lines = []
    for suite in suites:
        lines.append(f"deb [signed-by={keyring}] {mirrors.main} {suite} main\n")
        if suite != "sid":
            lines.append(f"deb [signed-by={keyring}] {mirrors.security} {suite}-security main\n")
    return "".join(lines)


def configuration(work: Path) -> str:
    """apt.conf(5) text that keeps apt's hands off the machine's own state.

    `#clear` takes away what the machine runs after an update (appstreamcli, PackageKit).
    Old suites are no longer signed anew, so their Valid-Until has passed.
    """
    return "".join(
        (
            "#clear APT::Update::Pre-Invoke;\n",
            "#clear APT::Update::Post-Invoke;\n",
            "#clear APT::Update::Post-Invoke-Success;\n",
            "#clear Acquire::IndexTargets::deb::DEP-11;\n",
            f'Dir::Etc::SourceList "{work}/sources.list";\n',
            'Dir::Etc::SourceParts "/dev/null";\n',
            'Dir::Etc::Preferences "/dev/null";\n',
            'Dir::Etc::PreferencesParts "/dev/null";\n',
            f'Dir::State "{work}/state";\n',
            f'Dir::State::Lists "{work}/state/lists";\n',
            f'Dir::Cache "{work}/cache";\n',
            f'Dir::Cache::Archives "{work}/cache/archives";\n',
            'Acquire::Languages "none";\n',
            'Acquire::Check-Valid-Until "false";\n',
            'Acquire::Retries "2";\n',
            'Acquire::http::Timeout "20";\n',
        )
    )


class _Apt:
    """apt with its state in one folder."""

    def __init__(self, *, work: Path, scope: Scope) -> None:
        self.work, self._scope = work, scope
        self._conf, self._log = work / "apt.conf", work / "apt.log"
        for folder in ("state/lists/partial", "cache/archives/partial", "package"):
            (work / folder).mkdir(parents=True, exist_ok=True)
        self._conf.write_text(configuration(work))

    def update(self, mirrors: Mirrors, suites: Iterable[str]) -> None:
        """Read the package lists; a suite that is missing is not fatal, all of them are."""
        if not KEYRING.is_file():
            raise InfraError(
                f"{KEYRING} is not there", hint="apt-get install debian-archive-keyring"
            )
        (self.work / "sources.list").write_text(source_list(mirrors, suites, KEYRING))
        done = self._run("apt-get", "update", "--quiet", seconds=INDEX_SECONDS)
        if not any((self.work / "state" / "lists").glob("*_Packages*")):
            raise TreeUnavailable(
                f"no package list could be read from {mirrors.main}: {last_error(done.text)}",
                hint=NETWORK_HINT,
            )

    def candidate(self, package: str) -> str:
        """The newest version of a package, "" where there is none."""
        text = self._run("apt-cache", "policy", package, seconds=INDEX_SECONDS).text
        found = re.search(r"^  Candidate: (\S+)$", text, re.MULTILINE)
        return found[1] if found and found[1] != "(none)" else ""

    def search(self) -> str:
        return self._run(
            "apt-cache", "search", "--names-only", "^linux-source-[0-9.]+$", seconds=INDEX_SECONDS
        ).text

    def download(self, package: str, version: str) -> Path:
        """The package's file, its hash checked by apt against the signed list."""
        folder = self.work / "package"
        done = self._run(
            "apt-get", "download", f"{package}={version}", seconds=PACKAGE_SECONDS, cwd=folder
        )
        files = list(folder.glob("*.deb"))
        if not done.ok or not files:
            raise TreeUnavailable(
                f"{package} {version} could not be downloaded: {last_error(done.text)}",
                hint=NETWORK_HINT,
            )
        return files[0]

    def unpack(self, package: Path, target: Path) -> None:
        done = self._run("dpkg-deb", "--extract", package, target, seconds=PACKAGE_SECONDS)
        process.check(done, f"unpacking {package.name}")

    def _run(self, *words: str | Path, seconds: float, cwd: Path | None = None) -> Completed:
        # The option file is read after the machine's own, so that `#clear` has something to clear.
        options = ("-c", self._conf) if str(words[0]).startswith("apt") else ()
        return process.run(
            (words[0], *options, *words[1:]),
            scope=self._scope.child(seconds),
            log=self._log,
            cwd=cwd or self.work,
        )


def _unpacked(apt: _Apt, name: str, version: str, step: Step) -> SourcePackage:
    step.note(f"downloading {name} {version}")
    package = apt.download(name, version)
    step.note(f"unpacking {name} {version}")
    apt.unpack(package, apt.work / "unpacked")
    package.unlink()
    tarballs = sorted((apt.work / "unpacked" / "usr" / "src").glob(f"{name}.tar.*"))
    if not tarballs:
        raise InfraError(f"there is no kernel tarball in the package {name} {version}")
    return SourcePackage(name=name, version=version, tarball=tarballs[0])


def _indextargets(scope: Scope) -> str:
    """Where the machine itself gets packages from, in any form of its configuration."""
    done = process.run(
        ("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"),
        scope=scope.child(INDEX_SECONDS),
        merge_stderr=False,
    )
    return done.text if done.ok else ""


def last_error(text: str) -> str:
    """The last line in which apt says what is wrong."""
    told = [line for line in text.splitlines() if line.startswith(("E:", "Err:", "W:"))]
    return (told or text.splitlines() or ["no output"])[-1].strip()
