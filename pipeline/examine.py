"""What a series comes to in one target: what it changed in the kernel, and which of its lines
were compiled at all.

Objects are preprocessed by their own saved command with -E -dD instead of -c, in the sandbox:
`make FILE.i` knows no objects outside obj-y (arch/x86/boot), does not show #defines, and goes
through `prepare` first. Nothing of the build folder changes.
"""

from __future__ import annotations

import json
import shlex
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from pipeline import changekind, coverage, makefiles, objectindex, preprocessed, store, takespart
from pipeline import conditionals as conditions
from pipeline.changekind import Side
from pipeline.model import Change, ChangedFile, ChangeKind, Examination, HiddenLines
from pipeline.objectindex import Object
from pipeline.workbench import Workbench

OpenBench = Callable[[], AbstractContextManager[Workbench]]
# Of what is kept: raise it when the same kernels would give something else.
VERSION = 2
COMMAND_BYTES = 4 << 20  # what a stranger's build wrote may be of any size
TEXT_BYTES = 64 << 20


def examine(
    base_bench: OpenBench,
    patched_bench: OpenBench,
    *,
    changed: Mapping[str, tuple[int, ...]],
    identical: bool,
    source_dir: str,
    config: Mapping[str, str],
) -> Examination:
    """`changed`: path -> lines (`changedlines.read`); `config`: the patched kernel's.

    Benches are opened one after the other. Base's is not where the images are `identical`.

    Raises:
        InfraError: a deadline passed, no sandbox.
    """
    code = [path for path in changed if path.endswith(takespart.CODE)]
    with patched_bench() as bench:
        index = _index(bench, changed)
        names = objectindex.choose(code, index.objects)
        after = _look(bench, index, names)
        read = _reader(bench.source)
        files = tuple(
            _file(path, changed[path], side=after, source_dir=source_dir, config=config, read=read)
            for path in code
            if read(path) is not None
        )
        plain = _plain(read, code)
        callers = _callers(bench.source, changed)
    if identical:
        return Examination(change=Change(kind=ChangeKind.NOTHING), files=files)
    with base_bench() as bench:
        before = _look(bench, _index(bench, changed, names), names)
        only_moved = plain == _plain(_reader(bench.source), code)
    other = _others(changed, before, after, callers)
    change = changekind.change(before, after, only_moved=only_moved, other=other)
    return Examination(change=change, files=files)


def _others(changed: Collection[str], before: Side, after: Side, callers: str) -> list[str]:
    """Changed files that take part in the build and are no part of an object."""
    sources = {path for side in (before, after) for paths in side.having.values() for path in paths}
    used = {*before.used, *after.used}
    return [
        path
        for path in changed
        if path not in sources and takespart.in_build(path, used=used, callers=callers)
    ]


@dataclass(frozen=True, kw_only=True)
class _Index:
    """What a build folder was made of. `names`: of all objects; `objects`: those that changed
    files are in; `used`: changed files that anything else was made of."""

    names: frozenset[str]
    objects: Mapping[str, Object]
    used: frozenset[str]


def _index(bench: Workbench, paths: Collection[str], also: Collection[str] = ()) -> _Index:
    """1,400 objects take 0.5 s. An object whose source has gone is left from another kernel."""
    root = bench.roots[0]
    names: set[str] = set()
    objects: dict[str, Object] = {}
    used: set[str] = set()
    for text in _commands(bench.build):
        each = objectindex.read(text, root, paths)
        if each is None:
            used |= objectindex.named(text, paths)
        elif _has_source(each, bench):
            names.add(each.name)
            if each.within or each.name in also:
                objects[each.name] = each
    return _Index(names=frozenset(names), objects=objects, used=frozenset(used))


def _commands(build: Path) -> Iterator[str]:
    """The folder may be a stranger's: links are not followed."""
    for path in sorted(build.rglob(".*.cmd")):
        if not store.not_own(build, str(path.relative_to(build)), most=COMMAND_BYTES):
            yield path.read_text(encoding="utf-8", errors="replace")


def _has_source(each: Object, bench: Workbench) -> bool:
    root = bench.roots[0].rstrip("/") + "/"
    inside = each.source.startswith(root)
    return not inside or (bench.source / each.source.removeprefix(root)).is_file()


def _look(bench: Workbench, index: _Index, names: Collection[str]) -> Side:
    """Preprocess those of the objects that there are."""
    return Side(
        root=bench.roots[0],
        objects=index.names,
        having={name: each.within for name, each in index.objects.items() if each.within},
        texts=_preprocess(bench, [index.objects[name] for name in names if name in index.objects]),
        used=index.used,
    )


def _preprocess(bench: Workbench, objects: list[Object]) -> dict[str, str]:
    """Object -> text, without those for which the compiler failed."""
    if not objects:
        return {}
    folder = Path(tempfile.mkdtemp(prefix=".ktrial-examine-", dir=bench.build))
    try:
        seen = f"{bench.roots[1]}/{folder.name}"
        script = _script(objects, seen, bench.roots[1], bench.recipe.jobs)
        (folder / "run.sh").write_text(script, encoding="utf-8")
        bench.run(("sh", f"{seen}/run.sh"), bench.logs / "examine.log")
        made = {each.name: f"{folder.name}/{number}.i" for number, each in enumerate(objects)}
        return {
            name: (bench.build / path).read_text(encoding="utf-8", errors="replace")
            for name, path in made.items()
            if not store.not_own(bench.build, path, most=TEXT_BYTES)
            and (bench.build / path).stat().st_size
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _script(objects: list[Object], folder: str, build: str, jobs: int) -> str:
    """So many at a time as there are jobs."""
    commands = (
        f"{each.preprocess} -o {folder}/{number}.i {each.source} &"
        for number, each in enumerate(objects)
    )
    lines = [f"cd {shlex.quote(build)}"]
    while some := list(islice(commands, jobs)):
        lines += [*some, "wait"]
    return "\n".join([*lines, "true", ""])


def _reader(source: Path) -> makefiles.Read:
    """Files of the tree, none that a link leads out of it."""
    root = source.resolve()

    def read(path: str) -> str | None:
        at = (source / path).resolve()
        if not at.is_relative_to(root) or not at.is_file():
            return None
        return at.read_text(encoding="utf-8", errors="replace")

    return read


def _plain(read: makefiles.Read, paths: Collection[str]) -> dict[str, list[str]]:
    return {path: conditions.plain(read(path) or "") for path in paths}


def _callers(source: Path, changed: Collection[str]) -> str:
    """What calls the build's scripts; "" where none changed."""
    if not any(path.startswith("scripts/") for path in changed):
        return ""
    read = _reader(source)
    places = {path for glob in takespart.CALLERS for path in source.glob(glob)}
    return "\n".join(read(str(path.relative_to(source))) or "" for path in sorted(places))


def _file(
    path: str,
    lines: tuple[int, ...],
    *,
    side: Side,
    source_dir: str,
    config: Mapping[str, str],
    read: makefiles.Read,
) -> ChangedFile:
    """A file that the patched tree has."""
    text = read(path) or ""
    within = [name for name, paths in side.having.items() if path in paths]
    texts = [side.texts[name] for name in within if name in side.texts]
    left = len(within) - len(texts)
    if texts:
        seen = set().union(*(preprocessed.seen(each, side.root, [path])[path] for each in texts))
        return coverage.of_file(path, lines, text=text, seen=seen, config=config, left=left)
    if within:
        return ChangedFile(path=path, why="its objects could not be preprocessed", left=left)
    code = tuple(sorted(conditions.read(text).code.intersection(lines)))
    absent = makefiles.absence(path, source_dir=source_dir, config=config, read=read)
    if path in side.used or absent.why == makefiles.NO_KERNEL:
        why = "in no object, but the build uses it" if path in side.used else absent.why
        return ChangedFile(path=path, why=why)
    return ChangedFile(path=path, not_built=code, why=absent.why, options=absent.options)


def to_json(found: Examination) -> str:
    return json.dumps({"version": VERSION, **asdict(found)}, default=lambda each: each.value)


def from_json(text: str) -> Examination:
    """
    Raises:
        ValueError: it is of another version.
    """
    raw = json.loads(text)
    if raw.get("version") != VERSION:
        raise ValueError("an examination of another version")
    change = raw["change"]
    return Examination(
        change=Change(
            kind=ChangeKind(change["kind"]),
            files=tuple(change["files"]),
            functions=tuple(change["functions"]),
            data=tuple(change["data"]),
            left=change["left"],
        ),
        files=tuple(
            ChangedFile(
                path=file["path"],
                compiled=tuple(file["compiled"]),
                hidden=tuple(
                    HiddenLines(
                        lines=tuple(each["lines"]), by=each["by"], options=tuple(each["options"])
                    )
                    for each in file["hidden"]
                ),
                not_built=tuple(file["not_built"]),
                why=file["why"],
                options=tuple(file["options"]),
                left=file["left"],
            )
            for file in raw["files"]
        ),
    )
