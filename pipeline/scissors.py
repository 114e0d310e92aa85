"""What a scissors line is, to git and so to everybody."""

from __future__ import annotations

MARKS = (">8", "8<", ">%", "%<")
SMALLEST = 8


def is_scissors(line: str) -> bool:
    """As is_scissors_line() in git's mailinfo.c: "-- >8 --", "---8<--- cut here ---8<---"."""
    if not any(mark in line for mark in MARKS):
        return False
    perforation = scissors = gap = 0
    inside = False
    at = 0
    while at < len(line):
        char, step = line[at], 1
        if char.isspace():
            perforation += inside
            gap += inside
        elif char == "-":
            inside = True
            perforation += 1
        elif line.startswith(MARKS, at):
            inside = True
            perforation += 2
            scissors += 2
            step = 2
        else:
            inside = False
        at += step
    visible = len(line.strip())
    return bool(scissors) and SMALLEST <= visible < perforation * 3 and gap * 2 < perforation
