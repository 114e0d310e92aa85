"""Checks of the source besides the compiler's: W=1, sparse, checkpatch (pipeline/data/checks).

A check by make reads the objects of what a series changes, on a copy of a build folder, in its
kernel and in the one below; only what is new is news. A script of the base tree reads patches.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePosixPath

from pipeline import buildlog, diagnostics, kconfig, sandbox, store
from pipeline import text as texts
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
# Made by a make of their own with other flags, or for the host: kbuild's single targets
# (`single-goals` in the Makefile, 6.12) do not get there.
APART = re.compile(r"^(?:scripts|tools|usr)/|/(?:boot|realmode|purgatory|vdso\w*)/")
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
    """What a check said of one kernel. `problem`: why it could not be made, "" where it was.
    `read`: of how many objects or patches."""

    said: tuple[Diagnostic, ...] = ()
    read: int = 0
    problem: str = ""
    log: Path | None = None


def touched(files: Sequence[str], bench: Workbench, *, most: int = MOST_OBJECTS) -> Touched:
    """The objects of these files of the tree, and of those that include them.

    Of a header at most `most` objects are taken: those that are changed themselves, some beside
    them, and some from all over the kernel.
    """
    present = [name for name in files if (bench.source / name).is_file()]
    objects: list[str] = []
    left: list[str] = []
    for name in (each for each in present if each.endswith(COMPILED)):
        if why := _unfit(_object(name), bench):
            left.append(f"{name}: {why}")
        else:
            objects.append(_object(name))
    folders = {str(PurePosixPath(each).parent) for each in objects}
    headers = [name for name in present if name.endswith(".h")]
    for header, users in including(headers, bench).items():
        others = [each for each in users if each not in objects]
        room = max(0, most - (len(users) - len(others)))
        chosen = _spread(others, room, folders)
        objects += chosen
        if not users:
            left.append(f"{header}: no object includes it in this configuration")
        elif rest := len(others) - len(chosen):
            left.append(f"{header}: {rest} of {len(users)} objects that include it")
    return Touched(objects=tuple(objects), left_out=tuple(left))


def _unfit(target: str, bench: Workbench) -> str:
    """Why make cannot be asked for an object alone, "" where it can."""
    if not (bench.build / target).exists():
        return "not built in this configuration"
    return "make does not build it by itself" if APART.search(target) else ""


def _spread(names: Sequence[str], room: int, folders: Collection[str]) -> list[str]:
    """At most `room` of them: half of them in these folders, of the others one every so many."""
    beside = [each for each in names if str(PurePosixPath(each).parent) in folders]
    near = beside[: (room + 1) // 2]
    far = [each for each in names if each not in near]
    left = min(room - len(near), len(far))
    return near + [far[number * len(far) // left] for number in range(left)]


def including(headers: Sequence[str], bench: Workbench) -> dict[str, list[str]]:
    """The objects that include each header, by what kbuild wrote down when it made them; 1 s for
    a small kernel."""
    found: dict[str, list[str]] = {header: [] for header in headers}
    paths = {header: f"{bench.roots[0]}/{header}".encode() for header in headers}
    for name, path in _commands(bench) if headers else ():
        words = path.read_bytes()
        if any(each in words for each in paths.values()):
            own = set(re.split(rb"[\s:]+", words))
            for header, each in paths.items():
                found[header] += [name] if each in own else []
    return {header: sorted(names) for header, names in found.items()}


def _commands(bench: Workbench) -> Iterator[tuple[str, Path]]:
    """Each object that is made of a source file of the tree, and the file about it."""
    for folder, _, names in os.walk(bench.build):
        where = Path(folder).relative_to(bench.build)
        for made in filter(None, map(COMMAND.match, names)):
            target, about = str(where / made["object"]), str(where / made[0])
            unfit = store.not_own(bench.build, about, most=COMMAND_BYTES)
            if not unfit and not APART.search(target) and _source(target, bench):
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
        read=len(wanted) - len(silent),
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
    return f"{spec.name} read nothing of {texts.some(silent, SHOWN)}: {first.error}"


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
    problem = _broke(spec, completed, said)
    return Heard(said=said, read=0 if problem else 1, problem=problem, log=log)


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
        read=sum(one.read for one in heard),
        problem="; ".join(dict.fromkeys(one.problem for one in heard if one.problem)),
        log=next((one.log for one in heard if one.log), None),
    )


def compare(
    spec: CheckSpec, below: Heard, this: Heard, *, told: Iterable[Diagnostic] = ()
) -> Checked:
    """What is new in a kernel. Where one of both could not be read, that is the problem.

    `told`: the build's own warnings, which W=1 repeats: they are no news of a check.
    """
    known = {(each.file, each.kind, each.text) for each in told}
    new = diagnostics.new(below.said, this.said)
    return Checked(
        check=spec.name,
        new=tuple(each for each in new if (each.file, each.kind, each.text) not in known),
        old=len(below.said),
        read=this.read,
        problem=this.problem or below.problem,
        log=this.log,
    )
