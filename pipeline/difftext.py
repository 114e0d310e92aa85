"""Unified diffs in a mail: which lines are one, line by line as their hunks count them.

What `git apply` would pass over in silence (a line left over behind a hunk, where a longer one
was wrapped) is damage here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha1, sha256

HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
EXTENDED = re.compile(
    r"^(?:old mode|new mode|deleted file mode|new file mode|copy from|copy to|rename from|"
    r"rename to|rename old|rename new|similarity index|dissimilarity index|index) "
)
NO_CONTENT = {"from", "to", "old mode", "new mode", "new file", "deleted file"}
"""What a file's header may do without a hunk."""
BASE85 = re.compile(r"^[A-Za-z][0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]+$")
# What may follow a hunk without a blank line between.
AFTER = re.compile(
    r"^(?:$|@@ -|diff |--- \S|Index: |--\s*$|-----BEGIN|[_=*~#-]{3,}|"
    r"(?:base-commit|change-id|prerequisite-[a-z-]+): |From |Property changes|\\ )"
)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "a": "\a", "b": "\b",
           "f": "\f", "v": "\v"}  # fmt: skip
PREFIXED = re.compile(r'^"?(?:[abciow12]/|/)')
TABBED = re.compile(
    r"(?:\.(?:c|h|S|cc|cpp|dts|dtsi|lds|y|l)|(?:^|/)(?:Makefile|Kconfig|Kbuild)\S*)$"
)
WHITESPACE = "whitespace damage"


@dataclass(frozen=True, kw_only=True)
class FileDiff:
    """What is done to one file: `lines` as git apply is to have them.

    `old` and `new` are paths without their first folder, "" for /dev/null. `start`, `end`:
    where it stands. `damage`: why it cannot be trusted. `doubts`: what was mended, or looks odd.
    """

    old: str
    new: str
    lines: tuple[str, ...]
    start: int
    end: int
    added: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The file after it; the one that was there, where it is deleted."""
        return self.new or self.old


def scan(lines: Sequence[str]) -> tuple[FileDiff, ...]:
    """The diffs in these lines, in their order; prose between them is passed over."""
    found: list[FileDiff] = []
    at = 0
    while at < len(lines):
        if _starts(lines, at):
            each = _Reader(lines=lines, start=at, at=at).read()
            found.append(each)
            at = each.end
        else:
            at += 1
    return tuple(found)


def _starts(lines: Sequence[str], at: int) -> bool:
    line = lines[at]
    if line.startswith("diff --git "):
        return True
    if not line.startswith("--- ") or line[4:5].isspace():
        return False
    after = [*lines[at + 1 : at + 3], "", ""]
    is_whole = after[0].startswith("+++ ") and bool(HUNK.match(after[1]))
    return is_whole or bool(HUNK.match(after[0]))


@dataclass(kw_only=True)
class _Reader:
    """Reads one FileDiff from `start` on."""

    lines: Sequence[str]
    start: int
    at: int
    names: tuple[str, str] = ("", "")
    header: dict[str, str] = field(default_factory=dict)
    taken: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    plain: bool = False  # paths without "a/" and "b/"

    def read(self) -> FileDiff:
        self._extended()
        if self._line().startswith("GIT binary patch"):
            self._binary()
        elif self._line().startswith("Binary files "):
            name = self.names[1] or self.names[0]
            self.damage.append(f"the content of the binary file {name} is not in the mail")
            self.at += 1
        else:
            self._names()
            while HUNK.match(self._line()) and self._hunk():
                pass
            self._check_empty()
        if not self.damage:
            self._check_after()
            self._check_new()
        return FileDiff(
            old=self.names[0],
            new=self.names[1],
            lines=tuple(self.taken),
            start=self.start,
            end=max(self.at, self.start + 1),
            added=tuple(self.added),
            kept=tuple(self.kept),
            damage=tuple(self.damage),
            doubts=(*self.repairs, *self.doubts),
        )

    def _line(self) -> str:
        return self.lines[self.at] if self.at < len(self.lines) else ""

    def _take(self) -> str:
        line = self._line()
        self.taken.append(line)
        self.at += 1
        return line

    # ----------------------------------------------------------------- headers

    def _extended(self) -> None:
        if not self._line().startswith("diff --git "):
            return
        text = self._line()[len("diff --git ") :].rstrip("\r")
        if name := _twice(text):
            self._prefix(name)
            text = f"{_under('a', name)} {_under('b', name)}"
        self.taken.append(f"diff --git {text}")
        self.at += 1
        both = split_names(text)
        while EXTENDED.match(self._line()):
            key, _, value = self._take().partition(" ")
            if key in {"rename", "copy"}:
                way, _, value = value.partition(" ")
                self.header[{"old": "from", "new": "to"}.get(way, way)] = unquote(value)
            else:
                self.header[f"{key} {value.split(' ')[0]}" if key != "index" else key] = value
        old, new = self.header.get("from", both[0]), self.header.get("to", both[1])
        self.names = (
            "" if "new file" in self.header else old,
            "" if "deleted file" in self.header else new,
        )

    def _names(self) -> None:
        old, new = self._line(), self.lines[self.at + 1] if self.at + 1 < len(self.lines) else ""
        if old.startswith("--- ") and new.startswith("+++ "):
            if not self.taken and (name := _file(old)) == _file(new) and _twice(f"{name} {name}"):
                self._prefix(name)
            self.names = (self._side("a"), self._side("b"))
        elif old.startswith("--- ") and HUNK.match(new):
            self._side("a")
            self._mend("+++", self.names[1], f"+++ b/{self.names[1]}", "deleted file")
        elif old.startswith("+++ ") and HUNK.match(new):
            self._mend("---", self.names[0], f"--- a/{self.names[0]}", "new file")
            self._side("b")

    def _prefix(self, name: str) -> None:
        self.plain = True
        self.repairs.append(
            f"the paths of {unquote(name)} have no a/ and b/ before them (git diff --no-prefix): "
            "they are put there"
        )

    def _side(self, prefix: str) -> str:
        """Take a --- or +++ line; its path."""
        line = self._line()
        name = _file(line)
        if name.endswith(" ") and "\t" not in line:  # behind a blank git writes a tab
            self.doubts.append(f"this looks like {WHITESPACE}: a blank is behind a file's name")
        if self.plain and name != "/dev/null":
            line = f"{line[:4]}{_under(prefix, name)}{line[4 + len(name) :]}"
        self.taken.append(line)
        self.at += 1
        return "" if name == "/dev/null" else _strip(unquote(_file(line)))

    def _mend(self, mark: str, name: str, line: str, null: str) -> None:
        """Put back a lost line of a file's header, where the others name the file."""
        if null in self.header:
            line = f"{mark} /dev/null"
        elif not name or self.names[0] != self.names[1] or '"' in name or "\\" in name:
            self.damage.append(
                f"a {mark} line is lost, and nothing else names the file for certain"
            )
            return
        self.taken.append(line)
        self.repairs.append(f"the {mark} line of {name or self.names[0] or self.names[1]} was lost "
                            "in the mail and is put back")  # fmt: skip

    def _check_empty(self) -> None:
        """A header that does nothing: git would pass over it without a word."""
        does = NO_CONTENT & self.header.keys() or self.kept or self.added or self._changed()
        if not does and not self.damage:
            self.damage.append(f"there is nothing behind the header of {self.names[1] or 'a file'}")

    def _changed(self) -> bool:
        return any(line.startswith("@@ -") for line in self.taken)

    # ----------------------------------------------------------------- content

    def _hunk(self) -> bool:
        """Take one hunk; False where it is damaged."""
        found = HUNK.match(self._take())
        assert found is not None
        old, new = (int(count) if count is not None else 1 for count in (found[2], found[4]))
        while old > 0 or new > 0:
            if self.at >= len(self.lines):
                return self._broken(CUT_OFF)
            line = self._line()
            if not line and self._ends(max(old, new)):
                return self._broken(CUT_OFF)
            kind = line[:1]
            if line in {"", "\r"}:  # an empty context line whose space was stripped: git takes it
                kind = " "
                line = f" {line}"
            if kind == "\\":
                self._take()
                continue
            if kind not in {" ", "+", "-"}:
                return self._broken(_why(line, self.at))
            old -= kind != "+"
            new -= kind != "-"
            if old < 0 or new < 0:
                return self._broken(f"{WRAPPED_OR_CUT}: its hunk does not have the lines that its "
                                    f"header counts (“{_short(line)}”)")  # fmt: skip
            self.at += 1
            self.taken.append(line)
            (self.added if kind == "+" else self.kept).append(line[1:])
        if self._line().startswith("\\ "):
            self._take()
        return True

    def _ends(self, wanted: int) -> bool:
        """Whether there are only blank lines from here on, and too few."""
        rest = range(self.at, len(self.lines))
        return len(rest) < wanted and not any(self.lines[at] for at in rest)

    def _broken(self, why: str) -> bool:
        self.damage.append(why)
        return False

    def _binary(self) -> None:
        self._take()
        while re.match(r"^(?:literal|delta) \d+$", self._line()):
            self._take()
            while BASE85.match(self._line()):
                self._take()
            if self._line():
                self.damage.append(
                    f"the binary patch of {self.names[1] or self.names[0]} is damaged"
                )
                return
            self._take()
        self.added.append("")

    def _check_new(self) -> None:
        """Hold the content of a new file against the name that git gave it."""
        named = re.match(r"^0+\.\.([0-9a-f]{7,64})\b", self.header.get("index", ""))
        if not named or self.names[0] or self.kept or "GIT binary patch" in self.taken:
            return
        text = "".join(f"{line}\n" for line in self.added)
        if self.taken[-1].startswith("\\ "):
            text = text[:-1]
        raw = text.encode("utf-8", "surrogateescape")
        blob = b"blob %d\0%s" % (len(raw), raw)
        if not any(hash_(blob).hexdigest().startswith(named[1]) for hash_ in (sha1, sha256)):
            self.doubts.append(
                f"{self.names[1]} is not what its index line names: "
                "it was changed on the way, or edited by hand"
            )

    def _check_after(self) -> None:
        line = self._line()
        if self._changed() and not AFTER.match(line):
            self.damage.append(f"{WRAPPED_OR_CUT}: a line is left over behind a hunk "
                               f"(“{_short(line)}”)")  # fmt: skip


CUT_OFF = "the patch is cut off in the middle of a hunk"
WRAPPED_OR_CUT = "lines were wrapped or lost on the way"


def _why(line: str, at: int) -> str:
    if line[:1].isspace():
        return f"{WHITESPACE}: lines of the diff have lost the space before them (“{_short(line)}”)"
    return (
        f"{WHITESPACE}: a line was wrapped, or has lost the space before it "
        f"(“{_short(line)}”, line {at + 1} of the text)"
    )


def _short(line: str) -> str:
    return line.strip()[:40]


def tabs_lost(diffs: Sequence[FileDiff]) -> bool:
    """Whether it looks as if a mail program had made spaces of all tabs, or odd ones of spaces."""
    for diff in diffs:
        lines = (*diff.kept, *diff.added)
        if not TABBED.search(diff.path) or any("\t" in line for line in lines):
            continue
        if any("\xa0" in line or line.startswith(" " * 8) for line in lines):
            return True
    return False


# --------------------------------------------------------------------------- names


def split_names(text: str) -> tuple[str, str]:
    """Both paths of a `diff --git` line; they may have spaces, or be quoted as git quotes."""
    if text.startswith('"'):
        end = re.match(r'"(?:[^"\\]|\\.)*"', text)
        if end:
            return _strip(unquote(end[0])), _strip(unquote(text[end.end() :].strip()))
    if text.endswith('"') and ' "' in text:
        old, _, new = text.partition(' "')
        return _strip(old), _strip(unquote(f'"{new}'))
    middle = len(text) // 2
    if text[middle : middle + 1] == " " and _strip(text[:middle]) == _strip(text[middle + 1 :]):
        return _strip(text[:middle]), _strip(text[middle + 1 :])
    old, _, new = text.partition(" b/")
    return _strip(old), new or _strip(old)


def _file(line: str) -> str:
    """The path of a --- or +++ line as it stands there, without the time that diff adds."""
    return line[4:].rstrip("\r").split("\t")[0]


def _twice(text: str) -> str:
    """The path that both sides of a `diff --git` line have in common, as `--no-prefix` writes it;
    "" where they have prefixes of their own."""
    middle = len(text) // 2
    name = text[:middle]
    same = text[middle : middle + 1] == " " and name == text[middle + 1 :]
    return name if same and not PREFIXED.match(name) else ""


def _under(folder: str, name: str) -> str:
    return f'"{folder}/{name[1:]}' if name.startswith('"') else f"{folder}/{name}"


def _strip(path: str) -> str:
    return path.partition("/")[2] or path


def unquote(name: str) -> str:
    """A path as git quotes it ("\\303\\244" are bytes of UTF-8); any other as it is."""
    if not (name.startswith('"') and name.endswith('"') and len(name) > 1):
        return name
    raw = bytearray()
    for octal, char, plain in re.findall(r"\\([0-7]{3})|\\(.)|([^\\]+)", name[1:-1]):
        if octal:
            raw.append(int(octal, 8))
        else:
            raw += (plain or ESCAPES.get(char, char)).encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "surrogateescape")
