"""Where mails come from: a file, a folder, a maildir, standard input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import UserError
from pipeline.mbox import split

FORMAT_HINT = "make the files with `git format-patch`, or save the mails as an mbox"
PATCH_FILES = (".patch", ".diff")
MAIL_FILES = (".eml", ".mbox", ".mbx", ".mail")


@dataclass(frozen=True, kw_only=True)
class Raw:
    """The bytes of a mail. `trusted`: it comes from a file that is named as a patch."""

    content: bytes
    trusted: bool = False


def mails(source: str, stdin: bytes | None) -> Iterator[Raw]:
    """The mails of a source in their order; "-" is `stdin`.

    Raises:
        UserError: there is no such file, it cannot be read, or it is a folder without mails.
    """
    if source == "-":
        yield from (Raw(content=each) for each in split(stdin or b""))
        return
    path = Path(source)
    for file in _files(path) if path.is_dir() else (path,):
        yield from of_file(file)


def of_file(path: Path) -> Iterator[Raw]:
    """The mails of one file."""
    for each in split(_bytes(path)):
        yield Raw(content=each, trusted=path.suffix in PATCH_FILES)


def _files(folder: Path) -> list[Path]:
    if (folder / "cur").is_dir() or (folder / "new").is_dir():
        found = [file for part in ("cur", "new") for file in sorted((folder / part).glob("*"))]
        return [file for file in found if file.is_file()]
    for suffixes in (PATCH_FILES, MAIL_FILES):
        if found := sorted(file for file in folder.iterdir() if file.suffix in suffixes):
            return found
    if found := [file for file in folder.iterdir() if file.name.isdigit()]:  # an MH folder
        return sorted(found, key=lambda file: int(file.name))
    raise UserError(
        f"{folder} is neither a maildir nor a folder of *.patch files", hint=FORMAT_HINT
    )


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise UserError(
            f"there is no {path}", hint="a series is a file, a folder, - or a range A..B"
        ) from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
