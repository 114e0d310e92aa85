"""Programs of the kernel's own tree for a workload: built in the sandbox, packed for the guest.

They are as foreign as the tree is: make runs in the sandbox alone, and what it installed is
copied file by file into a cpio archive, never run and never followed (no links, no devices).
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from pipeline import buildlog, initramfs
from pipeline import cache as caches
from pipeline.initramfs import Entry
from pipeline.model import BuildFailure, TreePrograms
from pipeline.workbench import Workbench

Scalar = str | int | float | bool

INSTALLED = ".ktrial-programs"  # below the build folder
MISSING = "ktrial-not-built"  # in the guest, beside the programs: one target a line
LOG = "programs.log"
MOST_BYTES = 1 << 30  # it all goes into the guest's memory

# GNU make 4.3 under -i: "make[1]: [../lib.mk:219: /build/kselftest/mm/cow] Error 1 (ignored)".
_IGNORED = re.compile(
    r"^make(?:\[\d+\])?: \[[^\]]*?:\d+: (?P<target>[^\]]+)\] Error \d+ \(ignored\)$"
)
_FIELD = re.compile(r"{(\w+)}")


def build(
    bench: Workbench, spec: TreePrograms, parameters: Mapping[str, Scalar], *, name: str
) -> Path | BuildFailure:
    """Build them and pack them; the archive (newc, uncompressed) lies in the bench's folder of
    logs. `name`: of the file; no two calls with one bench may share it.

    What single targets of a make under -i did not give is listed in the guest, see `MISSING`.

    Raises:
        InfraError: the run's deadline passed, or there is no sandbox.
        Cancelled: the run was cancelled.
    """
    installed = bench.build / INSTALLED
    caches.remove(installed)
    installed.mkdir()
    log = bench.logs / f"{name}.{LOG}"
    log.unlink(missing_ok=True)
    said: list[str] = []
    for words in commands(bench, spec, parameters):
        done = bench.run(words, log)
        said.append(done.text)
        if not done.ok:
            return _failure(bench, done.text, log, timed_out=done.timed_out)
    root = spec.path.strip("/")
    try:
        entries = [*packed(installed, root), _missing(root, "\n".join(said))]
    except ValueError as error:
        return _failure(bench, str(error), log, timed_out=False)
    target = bench.logs / f"{name}.cpio"
    target.write_bytes(initramfs.archive(entries))
    shutil.rmtree(installed, ignore_errors=True)
    return target


def commands(
    bench: Workbench, spec: TreePrograms, parameters: Mapping[str, Scalar]
) -> tuple[tuple[str, ...], ...]:
    """The commands with all their fields filled in. A field that nobody knows stays as it is:
    braces are a shell's and make's as well."""
    recipe = bench.recipe
    known = {
        **{name: str(value) for name, value in parameters.items()},
        "tree": str(bench.box.seen_source),
        "build": str(bench.box.seen_build),
        "install": str(bench.box.seen_build / INSTALLED),
        "arch": recipe.architecture.kernel_arch,
        "cross": recipe.compiler.prefix,
        "jobs": str(recipe.jobs),
    }

    def fill(word: str) -> str:
        return _FIELD.sub(lambda found: known.get(found[1], found[0]), word)

    return tuple(tuple(fill(word) for word in words) for words in spec.make)


def not_built(text: str) -> tuple[str, ...]:
    """The targets that a make under -i went past, as "collection:name", in their order."""
    found = (_IGNORED.match(line.strip()) for line in text.splitlines())
    targets = [Path(each["target"].strip()) for each in found if each]
    return tuple(
        dict.fromkeys(f"{path.parent.name}:{path.name}" for path in targets if path.is_absolute())
    )


def packed(folder: Path, root: str) -> Iterator[Entry]:
    """Files, folders and links of `folder` as entries below `root`; nothing else, nothing that a
    link leads to.

    Raises:
        ValueError: they are more than a guest's memory should hold.
    """
    total = 0
    for place, folders, files in os.walk(folder):
        for name in sorted((*folders, *files)):
            path = Path(place) / name
            facts = path.lstat()
            inside = f"{root}/{path.relative_to(folder)}"
            mode = stat.S_IMODE(facts.st_mode) & 0o755 | stat.S_IRUSR
            if stat.S_ISLNK(facts.st_mode):
                yield initramfs.link(inside, str(path.readlink()))
            elif stat.S_ISDIR(facts.st_mode):
                yield initramfs.folder(inside)
            elif stat.S_ISREG(facts.st_mode):
                total += facts.st_size
                if total > MOST_BYTES:
                    raise ValueError(f"the programs have more than {MOST_BYTES >> 20} MiB")
                yield initramfs.file(inside, path.read_bytes(), mode)


def _missing(root: str, text: str) -> Entry:
    lines = "".join(f"{target}\n" for target in not_built(text))
    return initramfs.file(f"{root}/{MISSING}", lines.encode())


def _failure(bench: Workbench, text: str, log: Path, *, timed_out: bool) -> BuildFailure:
    first = buildlog.first_error(text, roots=bench.roots)
    return BuildFailure(
        kernel=bench.kernel,
        architecture=bench.recipe.architecture.name,
        error=bench.too_long if timed_out else first.error,
        file=first.file,
        line=first.line,
        log=log,
        ended=not timed_out,
    )
