"""How large a kernel is, and what made it grow: sections and symbols of a vmlinux. Pure.

Reads the bytes of 64-bit little-endian ELF files, so that nothing of a stranger's kernel is run
or handed to a program. Sections are added up as size(1) does: text is what is loaded and never
written (code and constants), data what is loaded and written, bss what is neither in the file.
Symbols as the tree's scripts/bloat-o-meter does: functions and objects by name, numbers that the
compiler hangs on left out, so that a copy `x.constprop.0` is `x.constprop`; and without those that
differ in any two builds. Source: elf(5).

A variable's size is that of its type. So a structure that every CPU has one of is seen to grow:
`boot_pageset` (mm/page_alloc.c) is a `struct per_cpu_pages`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pipeline.model import Growth, Sizes

KEPT = 100
MOST_SYMBOLS = 5_000_000  # allmodconfig has some 300 000
_WRITE, _ALLOC = 1, 2  # sh_flags
_SYMTAB, _NOBITS = 2, 8  # sh_type
_FUNCTION = 2  # st_info: no type, object, function
_RESERVED = 0xFF00  # st_shndx: absolute, common, …
_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_NUMBER = re.compile(r"\.[0-9]+")
_PASSED_OVER = ("__mod_", "__se_sys", "__se_compat_sys", "__addressable_", "__UNIQUE_ID")
_ALWAYS_DIFFER = frozenset({"linux_banner", "vermagic"})


@dataclass(frozen=True, kw_only=True)
class ImageSize:
    """A kernel's sizes in bytes; `symbols`: by name, those of one name added up."""

    sizes: Sizes
    symbols: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Section:
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int


def read(data: bytes) -> ImageSize:
    """The sizes of a vmlinux.

    Raises:
        ValueError: it is not a 64-bit little-endian ELF file, or it is damaged.
    """
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    try:
        sections = list(_sections(data))
        return ImageSize(sizes=_sizes(sections), symbols=_symbols(data, sections))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError("the ELF file is damaged") from error


def growth(before: ImageSize, after: ImageSize) -> Growth:
    """What changed; of the symbols the KEPT that changed by the most are kept."""
    names = before.symbols.keys() | after.symbols.keys()
    pairs = [(each, before.symbols.get(each, 0), after.symbols.get(each, 0)) for each in names]
    changed = [pair for pair in pairs if pair[1] != pair[2]]
    return Growth(
        before=before.sizes,
        after=after.sizes,
        added=sum(max(0, new - old) for _, old, new in changed),
        taken=sum(max(0, old - new) for _, old, new in changed),
        changed=len(changed),
        symbols=tuple(sorted(changed, key=lambda each: (-abs(each[2] - each[1]), each[0])))[:KEPT],
    )


def lines(found: Growth, *, most: int = 10) -> Iterator[str]:
    """For a report: the sizes, and the `most` symbols that changed by the most."""
    parts = (
        ("text", found.before.text, found.after.text),
        ("data", found.before.data, found.after.data),
        ("bss", found.before.bss, found.after.bss),
    )
    sizes = ", ".join(f"{name} {after} ({after - before:+d})" for name, before, after in parts)
    many = f"{found.changed} symbol{'s' if found.changed != 1 else ''}"
    yield f"{sizes} bytes; {many} changed: +{found.added} -{found.taken} bytes"
    for name, before, after in found.symbols[:most]:
        how = "new" if not before else "gone" if not after else f"{before} to {after}"
        yield f"    {after - before:+7d}  {name} ({how})"
    if found.changed > most:
        yield f"    … and {found.changed - most} more"


def _sections(data: bytes) -> Iterator[_Section]:
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    for index in range(count):
        name, kind, flags, address, offset, length, link, *_ = _HEADER.unpack_from(
            data, table + index * size
        )
        yield _Section(name, kind, flags, address, offset, length, link)


def _sizes(sections: list[_Section]) -> Sizes:
    text = data = bss = 0
    for section in sections:
        if not section.flags & _ALLOC:
            continue
        if section.kind == _NOBITS:
            bss += section.size
        elif section.flags & _WRITE:
            data += section.size
        else:
            text += section.size
    return Sizes(text=text, data=data, bss=bss)


def _symbols(data: bytes, sections: list[_Section]) -> dict[str, int]:
    found: dict[str, int] = {}
    for table in (each for each in sections if each.kind == _SYMTAB):
        names = sections[table.link]
        text = data[names.offset : names.offset + names.size]
        whole = min(table.size // _SYMBOL.size, MOST_SYMBOLS) * _SYMBOL.size
        body = data[table.offset : table.offset + whole]
        for at, info, _, place, _, size in _SYMBOL.iter_unpack(body):
            if not size or not 0 < place < _RESERVED or info & 15 > _FUNCTION:
                continue
            name = text[at : text.index(b"\0", at)].decode()
            if not name.startswith(_PASSED_OVER) and name not in _ALWAYS_DIFFER:
                name = _NUMBER.sub("", name)
                found[name] = found.get(name, 0) + size
    return found
