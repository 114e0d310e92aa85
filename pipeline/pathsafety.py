"""What a series must not do to paths, and what a reader should know that it does. Pure.

The rules for names are git's own (verify_path(), is_hfs_dotgit() and is_ntfs_dotgit() in
read-cache.c, utf8.c and path.c of git 2.39), which it only keeps in part on Linux: a tree that
is checked out elsewhere, or by another program, must be safe as well.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pipeline.diffs import GITLINK, SYMLINK, Change

# What HFS+ passes over in a name (next_hfs_char() in git's utf8.c).
HFS_IGNORED = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
# “.git”, its short name on NTFS, and what NTFS takes for the same: dots and spaces behind it,
# a stream (“.git::$INDEX_ALLOCATION”).
DOT_GIT = re.compile(r"^(?:\.git|git~\d+)[ .]*(?::.*)?$", re.I)
TRAILING = re.compile(r"[ .]+$")
CONFIGURED = {
    ".gitmodules": "names repositories to fetch",
    ".lfsconfig": "names a server to fetch from",
    ".gitconfig": "is a configuration of git",
    ".gitattributes": "says how git treats files",
}
RUNS = re.compile(r"(?:^|\s)((?:filter|diff|merge)=[^\s]+)")
HOOK_FOLDERS = (".githooks", ".husky", "hooks")
HOOK = re.compile(
    r"^(?:(?:pre|post)-[a-z-]+|applypatch-msg|commit-msg|prepare-commit-msg|update|proc-receive"
    r"|reference-transaction|push-to-checkout|sendemail-validate|fsmonitor-watchman)$"
)
HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Unicode categories that show nothing, or change how what is around them shows."""


@dataclass(frozen=True, kw_only=True)
class Hazard:
    """Patch `number` and the path at fault. `refused`: it is not applied at all."""

    number: int
    path: str
    words: str
    refused: bool

    def __str__(self) -> str:
        how = "refused: " if self.refused else ""
        return f"{how}patch {self.number}: {visible(self.path)} {self.words}"


def visible(text: str) -> str:
    """`text` on one line in which nothing is hidden: control and bidirectional characters, and
    bytes that are not UTF-8, are shown as escapes."""
    return "".join(_shown(letter) for letter in text)


def _shown(letter: str) -> str:
    if letter.isascii() and letter.isprintable():
        return letter
    code = ord(letter)
    if 0xDC80 <= code <= 0xDCFF:  # a byte, as surrogateescape has it
        return f"\\x{code - 0xDC00:02x}"
    if unicodedata.category(letter) not in HIDDEN:
        return letter
    if letter in "\n\t\r":
        return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}[letter]
    return (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else (f"\\U{code:08x}")
    )


def deceives(text: str) -> bool:
    """Whether a text has characters that change or hide how it reads."""
    return visible(text) != text


def examine(patches: Sequence[tuple[int, Sequence[Change]]]) -> tuple[Hazard, ...]:
    """The hazards of a series: each patch's number and what it does, in order.

    A symbolic link counts for all patches after the one that makes it.
    """
    links: dict[str, int] = {}
    found: list[Hazard] = []
    for number, changes in patches:
        # git lays all of a patch's links before it is asked for what lies behind them.
        links |= {each.new: number for each in changes if each.new_mode == SYMLINK and each.new}
        for change in changes:
            found += _of_change(number, change, links)
        for change in changes:
            if change.old and (not change.new or change.renamed) and change.old != change.new:
                links.pop(change.old, None)
    return tuple(dict.fromkeys(found))


def _of_change(number: int, change: Change, links: dict[str, int]) -> Iterator[Hazard]:
    for path in change.paths:
        for words in _bad_name(path, links):
            yield Hazard(number=number, path=path, words=words, refused=True)
    if change.outside:
        words = "is an absolute path"
        yield Hazard(number=number, path=change.path, words=words, refused=True)
    for words in _bad_kind(change):
        yield Hazard(number=number, path=change.path, words=words, refused=True)
    for words in _worth_a_look(change):
        yield Hazard(number=number, path=change.path, words=words, refused=False)


def _bad_name(path: str, links: dict[str, int]) -> Iterator[str]:
    parts = path.split("/")
    if path.startswith("/"):
        yield "is an absolute path"
    if any(part in (".", "..") for part in parts):
        yield "leaves the tree"
    if "\0" in path:
        yield "has a NUL in its name"
    if "\\" in path and any(_is_dot_git(part) for part in path.split("\\")):
        yield "lies in .git where a backslash parts folders"
    elif any(_is_dot_git(part) for part in parts):
        yield "lies in .git"
    for end in range(1, len(parts)):
        folder = "/".join(parts[:end])
        if folder in links:
            yield f"goes through the symbolic link {visible(folder)} of patch {links[folder]}"


def _is_dot_git(part: str) -> bool:
    plain = HFS_IGNORED.sub("", unicodedata.normalize("NFKC", part))
    return bool(DOT_GIT.match(plain) or DOT_GIT.match(part))


def _bad_kind(change: Change) -> Iterator[str]:
    if change.new_mode == GITLINK:
        yield "is a gitlink (a submodule), whose content is elsewhere"
    if change.new_mode == SYMLINK and change.new and change.content:
        if bad := leads_out(change.new, change.content):
            yield bad
    elif change.new_mode == SYMLINK and change.new and change.binary:
        yield "is a symbolic link given as a binary patch"


def leads_out(path: str, target: str) -> str:
    """What is wrong with a symbolic link's target, "" where it stays in the tree."""
    if target.startswith("/") or re.match(r"^[A-Za-z]:[\\/]", target):
        return f"is a symbolic link to an absolute path, {visible(target)}"
    where = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if where == ".." or where.startswith("../"):
        return f"is a symbolic link that leaves the tree, to {visible(target)}"
    if any(_is_dot_git(part) for part in where.split("/")):
        return f"is a symbolic link into .git, to {visible(target)}"
    return ""


def _worth_a_look(change: Change) -> Iterator[str]:
    if deceives(change.path):
        yield "has characters in its name that do not show"
    if not change.new:
        return
    *folders, name = change.new.split("/")
    plain = TRAILING.sub("", HFS_IGNORED.sub("", name)).lower()
    if plain in CONFIGURED:
        runs = sorted(set(RUNS.findall(change.content)))
        more = f" ({', '.join(map(visible, runs))})" if runs else ""
        yield f"{CONFIGURED[plain]}{more}; ktrial's git does not follow it"
    hooked = [folder for folder in folders if folder.lower() in HOOK_FOLDERS]
    if hooked and (HOOK.match(name.removesuffix(".sh")) or hooked[0].lower() != "hooks"):
        yield "is or may be a hook of git; ktrial's git runs none"


def refused(hazards: Iterable[Hazard]) -> Hazard | None:
    """The first for which a series is not applied."""
    return next((each for each in hazards if each.refused), None)
