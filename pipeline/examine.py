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
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from pipeline import conditionals as conditions
from pipeline import coverage, makefiles, objectindex, preprocessed
from pipeline.model import Change, ChangedFile, ChangeKind, Examination, HiddenLines
from pipeline.objectindex import Object
from pipeline.workbench import Workbench

OpenBench = Callable[[], AbstractContextManager[Workbench]]
CODE = (".c", ".h", ".S")
MOST_OBJECTS = 40
_ORDER = (ChangeKind.NOTHING, ChangeKind.LINES, ChangeKind.STRINGS, ChangeKind.CODE)


@dataclass(frozen=True, kw_only=True)
class _Side:
    """A kernel, seen through the preprocessor. `wanted`: object -> changed files in it."""

    wanted: Mapping[str, tuple[str, ...]]
    texts: Mapping[str, str]  # object -> preprocessed
    root: str


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
    code = [path for path in changed if path.endswith(CODE)]
    with patched_bench() as bench:
        side = _look(bench, code, ())
        files = tuple(
            _file(path, changed[path], bench=bench, side=side, source_dir=source_dir, config=config)
            for path in code
        )
    if identical:
        return Examination(change=Change(kind=ChangeKind.NOTHING), files=files)
    with base_bench() as bench:
        before = _look(bench, code, tuple(side.wanted))
    return Examination(change=_change(before, side, changed), files=files)


def _look(bench: Workbench, paths: Iterable[str], also: Iterable[str]) -> _Side:
    """Preprocess the objects that `paths` are in, and those named in `also`."""
    objects = _objects(bench.build)
    root = bench.roots[0]
    wanted: dict[str, tuple[str, ...]] = {name: () for name in also if name in objects}
    for path in paths:
        for name in objectindex.having(path, objects, root)[: objectindex.MOST]:
            if name in wanted or len(wanted) < MOST_OBJECTS:
                wanted[name] = (*wanted.get(name, ()), path)
    return _Side(wanted=wanted, texts=_preprocess(bench, [objects[name] for name in wanted]),
                 root=root)  # fmt: skip


def _objects(build: Path) -> dict[str, Object]:
    """1,400 objects take 0.5 s. The folder may be a stranger's: links are not followed."""
    found = {}
    for path in sorted(build.rglob(".*.o.cmd")):
        if not path.is_symlink() and path.is_file():
            each = objectindex.read(path.read_text(encoding="utf-8", errors="replace"))
            if each:
                found[each.name] = each
    return found


def _preprocess(bench: Workbench, objects: list[Object]) -> dict[str, str]:
    """Object -> text, without those for which the compiler failed."""
    if not objects:
        return {}
    folder = Path(tempfile.mkdtemp(prefix=".ktrial-examine-", dir=bench.build))
    try:
        seen = f"{bench.roots[1]}/{folder.name}"
        lines = [
            f"{each.preprocess} -o {seen}/{number}.i {each.source}"
            for number, each in enumerate(objects)
        ]
        script = "\n".join([f"cd {shlex.quote(bench.roots[1])}", *lines, "true", ""])
        (folder / "run.sh").write_text(script, encoding="utf-8")
        bench.run(("sh", f"{seen}/run.sh"), bench.logs / "examine.log")
        made = {each.name: folder / f"{number}.i" for number, each in enumerate(objects)}
        return {
            name: path.read_text(encoding="utf-8", errors="replace")
            for name, path in made.items()
            if not path.is_symlink() and path.is_file() and path.stat().st_size
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _reader(source: Path) -> makefiles.Read:
    """Files of the tree, none that a link leads out of it."""
    root = source.resolve()

    def read(path: str) -> str | None:
        at = (source / path).resolve()
        if not at.is_relative_to(root) or not at.is_file():
            return None
        return at.read_text(encoding="utf-8", errors="replace")

    return read


def _file(
    path: str,
    lines: tuple[int, ...],
    *,
    bench: Workbench,
    side: _Side,
    source_dir: str,
    config: Mapping[str, str],
) -> ChangedFile:
    read = _reader(bench.source)
    text = read(path) or ""
    code = tuple(sorted(conditions.read(text).code.intersection(lines)))
    within = [name for name, paths in side.wanted.items() if path in paths]
    texts = [side.texts[name] for name in within if name in side.texts]
    if texts:
        seen = set().union(*(preprocessed.seen(each, side.root, [path])[path] for each in texts))
        return coverage.of_file(path, lines, text=text, seen=seen, config=config)
    if within:
        return ChangedFile(path=path, not_built=code, why="unknown: it could not be preprocessed")
    absent = makefiles.absence(path, source_dir=source_dir, config=config, read=read)
    return ChangedFile(path=path, not_built=code, why=absent.why, options=absent.options)


def _change(before: _Side, after: _Side, changed: Iterable[str]) -> Change:
    """Of kernels that differ. Where no token does, what is left are line numbers, unless a file
    changed that is no C: a Makefile or a linker script may do anything."""
    worst = 0
    files: dict[str, None] = {}
    functions: dict[str, None] = {}
    for name in {**after.wanted, **before.wanted}:
        old = preprocessed.tokens(before.texts.get(name, ""), before.root)
        new = preprocessed.tokens(after.texts.get(name, ""), after.root)
        kind = preprocessed.kind(old, new)
        worst = max(worst, _ORDER.index(kind))
        if kind is not ChangeKind.NOTHING:
            paths = after.wanted.get(name, ()) or before.wanted.get(name, ())
            files.update(dict.fromkeys(paths))
        if kind in {ChangeKind.STRINGS, ChangeKind.CODE}:
            functions.update(dict.fromkeys(preprocessed.functions(old, new)))
    other = [path for path in changed if _builds(path)]
    if other:
        worst = len(_ORDER) - 1
        files.update(dict.fromkeys(other))
    kind = _ORDER[max(worst, 1)]
    return Change(kind=kind, files=tuple(files), functions=tuple(functions))


def _builds(path: str) -> bool:
    """Whether a file that is no C source may change what is built."""
    documents = path.startswith(("Documentation/", "LICENSES/"))
    return not path.endswith(CODE) and not documents


def to_json(found: Examination) -> str:
    return json.dumps(asdict(found), default=lambda each: each.value)


def from_json(text: str) -> Examination:
    raw = json.loads(text)
    change = raw["change"]
    return Examination(
        change=Change(
            kind=ChangeKind(change["kind"]),
            files=tuple(change["files"]),
            functions=tuple(change["functions"]),
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
            )
            for file in raw["files"]
        ),
    )
