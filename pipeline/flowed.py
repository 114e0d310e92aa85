"""text/plain; format=flowed (RFC 3676) turned back into lines."""

from __future__ import annotations


def unflow(text: str, *, delsp: bool) -> str:
    """Take the stuffed space from each line, and join the lines that were broken softly.

    As git's mailinfo.c does (handle_filter_flowed()). The lines of a patch that end in a
    space of their own are joined as well: whoever calls this checks the hunks afterwards.
    """
    done: list[str] = []
    open_line = ""
    for line in text.split("\n"):
        if line == "-- ":
            if open_line:
                done.append(open_line)
            done.append(line)
            open_line = ""
            continue
        plain = line.removeprefix(" ")
        if plain.endswith(" "):
            open_line += plain[:-1] if delsp else plain
            continue
        done.append(open_line + plain)
        open_line = ""
    if open_line:
        done.append(open_line)
    return "\n".join(done)


def unstuff(text: str) -> str:
    """Only the stuffed spaces: for a client that stuffs and breaks nothing."""
    return "\n".join(line.removeprefix(" ") for line in text.split("\n"))
