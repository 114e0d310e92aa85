"""Checks of the source besides the compiler's: W=1, sparse, checkpatch (pipeline/data/checks).

A check by make reads the objects of what a series changes, on a copy of a build folder, in its
kernel and in the one below; only what is new is news. A script of the base tree reads patches.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePosixPath

from pipeline import buildlog, diagnostics, kconfig, sandbox, store
from pipeline.errors import InfraError
from pipeline.model import Checked, CheckSpec, Diagnostic
from pipeline.process import Completed
from pipeline.sandbox import Sandbox
from pipeline.scope import Scope
from pipeline.workbench import Workbench

MOST_OBJECTS = 24  # that are read for the sake of headers; the compiler takes 1 to 3 s each
COMPILED = (".c", ".S", ".rs")
PATCH = Path("/patch")
PATCH_SECONDS = 300.0
SHOWN = 5
LOG_BYTES = 64 << 20
COMMAND_BYTES = 4 << 20  # what a stranger's build wrote may be of any size
# An object's dependencies: kbuild's, with the command that made it.
COMMAND = re.compile(r"^\.(?P<object>.+\.o)\.cmd$")


@dataclass(frozen=True, kw_only=True)
class Touched:
    """Objects (`mm/slub.o`) in which a series changes something. `left_out`: what is not read,
    and why."""

    objects: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What a check said of one kernel. `problem`: why it could not be made, "" where it was."""

    said: tuple[Diagnostic, ...] = ()
    problem: str = ""
    log: Path | None = None


def touched(files: Sequence[str], bench: Workbench, *, most: int = MOST_OBJECTS) -> Touched:
    """The objects of these files of the tree, and of those that include them.

    Of a header at most `most` objects are taken, those that are changed themselves first.
    """
    present = [name for name in files if (bench.source / name).is_file()]
    own = {name: _object(name) for name in present if name.endswith(COMPILED)}
    built = {name: each for name, each in own.items() if (bench.build / each).exists()}
    left = [f"{name}: not built in this configuration" for name in own if name not in built]
    objects = list(built.values())
    headers = [name for name in present if name.endswith(".h")]
    found = including(headers, bench)
    for header in headers:
        users = [each for each in found[header] if each not in objects]
        known = len(found[header]) - len(users)
        room = max(0, most - known)
        objects += users[:room]
        if not found[header]:
            left.append(f"{header}: no object includes it in this configuration")
        elif rest := len(users[room:]):
            left.append(f"{header}: {rest} of {len(found[header])} objects that include it")
    return Touched(objects=tuple(dict.fromkeys(objects)), left_out=tuple(left))


def including(headers: Sequence[str], bench: Workbench) -> dict[str, list[str]]:
    """The objects that include each header, by what kbuild wrote down when it made them."""
    found: dict[str, list[str]] = {header: [] for header in headers}
    if not headers:
        return found
    patterns = {
        header: re.compile(rb"(?<!\S)" + re.escape(f"{bench.roots[0]}/{header}".encode()) + rb"\s")
        for header in headers
    }
    for name, path in _commands(bench):
        text = path.read_bytes()
        for header, pattern in patterns.items():
            if pattern.search(text):
                found[header].append(name)
    return {header: sorted(names) for header, names in found.items()}


def _commands(bench: Workbench) -> Iterator[tuple[str, Path]]:
    """Each object that is made of a source file of the tree, and the file about it."""
    for folder, _, names in os.walk(bench.build):
        where = Path(folder).relative_to(bench.build)
        for made in filter(None, map(COMMAND.match, names)):
            target, about = str(where / made["object"]), str(where / made[0])
            unfit = store.not_own(bench.build, about, most=COMMAND_BYTES)
            if not unfit and _source(target, bench):
                yield target, bench.build / about


def _object(source: str) -> str:
    return str(PurePosixPath(source).with_suffix(".o"))


def _source(target: str, bench: Workbench) -> str:
    """The tree's file that an object is made of, "" where there is none."""
    names = (str(PurePosixPath(target).with_suffix(suffix)) for suffix in COMPILED)
    return next((name for name in names if (bench.source / name).is_file()), "")


# ---------------------------------------------------------------------- by make


def run(spec: CheckSpec, bench: Workbench, objects: Sequence[str], log: Path) -> Heard:
    """What a check by make says of those objects of the kernel of `bench`, a throw-away copy of
    its build folder. Those that the kernel has no source of are passed over.

    Raises:
        InfraError: the deadline of the run passed.
    """
    if missing := _missing(spec, bench.environment.get("PATH", sandbox.PATH)):
        return Heard(problem=missing)
    wanted = [each for each in objects if _source(each, bench)]
    if not wanted:
        return Heard()
    log.unlink(missing_ok=True)
    config = kconfig.parse_config(store.own_file(bench.build, ".config").read_text())
    made = bench.recipe.single(config, "-k", *spec.make, *wanted)
    completed = bench.run(made, log)
    text = _log(log)
    spoken = diagnostics.read(text, roots=bench.roots, tool=spec.name)
    said = diagnostics.flat({each: spoken.get(each, ()) for each in wanted})
    silent = [each for each in wanted if each not in spoken]
    return Heard(
        said=diagnostics.placed(said, _reader(bench)),
        problem=_unread(spec, bench, completed, silent, text),
        log=log,
    )


def _unread(
    spec: CheckSpec, bench: Workbench, completed: Completed, silent: Sequence[str], text: str
) -> str:
    """Why some objects were not read, "" where all were."""
    if why := bench.ended(completed):
        return f"{spec.name} {why}"
    if not silent:
        return ""
    first = buildlog.first_error(text, roots=bench.roots)
    return f"{spec.name} read nothing of {_some(silent)}: {first.error}"


def _reader(bench: Workbench) -> Callable[[str], str]:
    """The text of a file of the tree; "" where there is none, or a link leads out of it."""

    @cache
    def text(name: str) -> str:
        path = (bench.source / name).resolve()
        inside = path.is_relative_to(bench.source.resolve()) and path.is_file()
        return path.read_text(errors="replace") if inside else ""

    return text


def _log(path: Path) -> str:
    with path.open("rb") as source:
        return source.read(LOG_BYTES).decode(errors="replace")


def _some(names: Sequence[str]) -> str:
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _missing(spec: CheckSpec, path: str) -> str:
    """The program that is not there, with how to get it."""
    if not spec.needs or shutil.which(spec.needs, path=path):
        return ""
    return f"{spec.needs} is not installed: apt-get install {spec.package or spec.needs}"


# ---------------------------------------------------------------------- by a script


def on_patch(
    spec: CheckSpec, box: Sandbox, patch: bytes, log: Path, *, name: str, scope: Scope
) -> Heard:
    """What a script of the tree in `box` says of a patch. `name`: for what has no file.

    The tree is base's, or at least has its scripts: what checks a patch is no part of it.

    Raises:
        InfraError: the deadline of the run passed.
    """
    if missing := _missing(spec, sandbox.PATH):
        return Heard(problem=missing)
    if not (box.source / spec.script[0]).is_file():
        return Heard(problem=f"the tree has no {spec.script[0]}")
    log.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "patch").write_bytes(patch)
        its = replace(box, extra={**box.extra, PATCH: Path(folder)})
        words = (str(box.seen_source / spec.script[0]), *spec.script[1:])
        command = ("sh", "-c", 'exec "$@" < "$0"', str(its.seen(PATCH / "patch")), *words)
        completed = sandbox.run(its, command, scope=scope.child(PATCH_SECONDS), log=log)
    if completed.timed_out and scope.expired:
        raise InfraError(f"{spec.name} was cut: the deadline of the run passed")
    roots = (str(box.seen_source), str(box.seen_build))
    said = tuple(_messages(spec, _log(log), roots, name))
    return Heard(said=said, problem=_broke(spec, completed, said), log=log)


def _messages(spec: CheckSpec, text: str, roots: Sequence[str], name: str) -> Iterator[Diagnostic]:
    for found in filter(None, map(re.compile(spec.message).match, text.splitlines())):
        groups = found.groupdict(default="")
        yield Diagnostic(
            tool=spec.name,
            file=buildlog.relative(groups["file"], roots) if groups["file"] else name,
            line=int(groups["line"] or 0),
            function=groups.get("function", ""),
            text=groups["text"].strip(),
            kind=groups.get("kind", ""),
        )


def _broke(spec: CheckSpec, completed: Completed, said: Sequence[Diagnostic]) -> str:
    """A script that fails without a finding did not do its work."""
    if completed.stopped or completed.timed_out:
        return f"{spec.name} {completed.stopped or f'did not end in {PATCH_SECONDS:g} s'}"
    if completed.ok or said:
        return ""
    last = next((line for line in reversed(completed.text.splitlines()) if line.strip()), "")
    why = f"{spec.name} ended with status {completed.exit_code}"
    return f"{why}: {last.strip()}" if last else why


# ---------------------------------------------------------------------- together


def together(heard: Sequence[Heard]) -> Heard:
    """What was said of several patches, as of one."""
    return Heard(
        said=tuple(each for one in heard for each in one.said),
        problem="; ".join(dict.fromkeys(one.problem for one in heard if one.problem)),
        log=next((one.log for one in heard if one.log), None),
    )


def compare(spec: CheckSpec, below: Heard, this: Heard) -> Checked:
    """What is new in a kernel. Where one of both could not be read, that is the problem."""
    return Checked(
        check=spec.name,
        new=diagnostics.new(below.said, this.said),
        old=len(below.said),
        problem=this.problem or below.problem,
        log=this.log,
    )
