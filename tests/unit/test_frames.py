"""Outputs framed on the console: written by a real shell, torn by kernel lines, read back."""

from __future__ import annotations

import random
import shutil
import subprocess

import pytest

from pipeline.frames import FramedCommand, read, script

BUSYBOX = shutil.which("busybox")
SHELLS = [["sh"], *([[BUSYBOX, "sh"]] if BUSYBOX else [])]

COMMANDS = [
    FramedCommand(name="words", command="echo out; echo err >&2; exit 3", deadline=5),
    FramedCommand(name="quote's", command="printf '%s' \"it's $HOME\"", deadline=5),
    FramedCommand(name="nothing", command="true", deadline=5),
    FramedCommand(name="bytes", command=r"printf 'a\000\r\n\377z'", deadline=5),
    FramedCommand(name="long", command="seq 1 500", deadline=5),
]


def console(shell: list[str], commands: list[FramedCommand]) -> str:
    done = subprocess.run(
        shell, input=script(commands), text=True, capture_output=True, timeout=60, check=True
    )
    return done.stdout.replace("\n", "\r\n")  # as a serial console has it


@pytest.fixture(scope="module")
def text() -> str:
    return console(SHELLS[0], COMMANDS)


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_round_trip(shell: list[str]) -> None:
    found = {each.name: each for each in read(console(shell, COMMANDS))}
    assert list(found) == [each.name for each in COMMANDS]
    assert all(each.problem == "" for each in found.values())
    assert (found["words"].exit_status, found["words"].text) == (3, "out\nerr\n")
    assert found["quote's"].text.startswith("it's ")
    assert (found["nothing"].exit_status, found["nothing"].text) == (0, "")
    assert found["bytes"].text == "a\0\r\n\ufffdz"
    assert found["long"].text == "".join(f"{n}\n" for n in range(1, 501))


def test_a_command_that_does_not_end() -> None:
    (found,) = read(console(SHELLS[0], [FramedCommand(name="s", command="sleep 60", deadline=1)]))
    assert found.exit_status == 137
    assert found.seconds >= 1


def test_kernel_lines_in_between(text: str) -> None:
    rng = random.Random(3)
    lines = text.splitlines(keepends=True)
    for _ in range(20):
        lines.insert(rng.randrange(len(lines)), "[   12.345678] eth0: link up\r\n")
    assert read("".join(lines)) == read(text)


def test_a_kernel_line_inside_a_line_is_taken_out(text: str) -> None:
    start = text.index("ktrial: data 7 ") + 40
    torn = f"{text[:start]}[   12.345678] eth0: link up\r\n{text[start:]}"
    assert read(torn) == read(text)


@pytest.mark.parametrize("what", ["changed", "lost", "cut", "swapped"])
def test_damage_is_told(text: str, what: str) -> None:
    start = text.index("ktrial: data 7 ")
    end = text.index("\n", start) + 1
    damaged = {
        "changed": text[: start + 20] + ("A" if text[start + 20] != "A" else "B")
        + text[start + 21 :],
        "lost": text[:start] + text[end:],
        "cut": text[:end],
        "swapped": text[:start] + text[end : 2 * end - start] + text[start:end]
        + text[2 * end - start :],
    }[what]  # fmt: skip
    last = read(damaged)[-1]
    assert last.name == "long"
    assert last.exit_status is None
    assert "damaged" in last.problem
    assert last.text == ""


def test_a_frame_that_was_begun_twice(text: str) -> None:
    found = read("ktrial: begin lost\r\n" + text)
    assert found[0].name == "lost"
    assert found[0].problem
    assert found[1:] == read(text)


def test_no_frames() -> None:
    assert read("[    0.0] Linux\n") == ()


@pytest.mark.parametrize("name", ["", "two words", "line\nbreak"])
def test_names(name: str) -> None:
    with pytest.raises(ValueError, match="cannot name"):
        script([FramedCommand(name=name, command="true", deadline=1)])
