"""kernel-variable and sysctl-values, run by the shell that the guest has, on files that stand for
the kernel's."""

from __future__ import annotations

import gzip
import re
import shutil
import struct
from pathlib import Path

import pytest

import pipeline
from pipeline import binding, guesttests, ktap, metrics, process, schema
from pipeline.model import Output, Phase, WorkloadSpec
from pipeline.scope import Scope

DATA = Path(pipeline.__file__).parent / "data"
BUSYBOX = shutil.which("busybox")
SHELLS = [pytest.param(("sh",), id="sh")]
if BUSYBOX:
    SHELLS.append(pytest.param((BUSYBOX, "sh"), id="busybox"))

ADDRESS = 0xFFFFFFFF81AE0184


def command(use: str, here: Path, /, **parameters: str | int) -> str:
    """The workload's command, with `here` in front of the kernel's folders and of /tmp."""
    spec = schema.read(DATA / f"workloads/{use}.toml", WorkloadSpec, name=use)
    text = binding.command(binding.bind(spec, use, parameters))
    return re.sub(r"/(proc|sys|tmp)/", rf"{here}/\1/", text)


def run(shell: tuple[str, ...], text: str, scope: Scope) -> process.Completed:
    return process.run((*shell, "-c", text), scope=scope.child(30), merge_stderr=True)


def kernel(here: Path, *, value: int, possible: str) -> None:
    """A kernel whose variable `nodes` has a value: its memory has two ranges, apart in the file."""
    for folder in ("proc", "sys/devices/system/cpu", "tmp"):
        (here / folder).mkdir(parents=True)
    ranges = [(0xFFFF888000000000, 0x1000, 0x2000), (ADDRESS - 0x184, 0x3000, 0x1000)]
    headers = b"".join(
        struct.pack("<IIQQQQQQ", 1, 7, offset, start, 0, size, size, 0x1000)
        for start, offset, size in ranges
    )
    memory = bytearray(0x4000)
    memory[0x38:0x3A] = struct.pack("<H", len(ranges))
    memory[0x40 : 0x40 + len(headers)] = headers
    memory[0x3184:0x3188] = struct.pack("<i", value)
    (here / "proc/kcore").write_bytes(memory)
    symbols = f"{ADDRESS - 4:016x} d nodes_max\n{ADDRESS:016x} d nodes\n"
    symbols += "ffffffffa0000000 d nodes\t[module]\n"
    (here / "proc/kallsyms").write_text(symbols)
    for name in ("possible", "present", "online"):
        (here / f"sys/devices/system/cpu/{name}").write_text(f"{possible}\n")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("value", "possible"), [(4, "0-3"), (1, "0"), (128, "0-127,130-145"), (1, "0-3"), (0, "0")]
)
def test_a_variable_is_read_from_the_kernels_memory(
    shell: tuple[str, ...], value: int, possible: str, tmp_path: Path, scope: Scope
) -> None:
    kernel(tmp_path, value=value, possible=possible)
    wanted = "possible < 128 ? possible : 128"
    done = run(shell, command("kernel-variable", tmp_path, name="nodes", expected=wanted), scope)
    assert (done.exit_code == 0) is ((value, possible) not in {(1, "0-3"), (0, "0")}), done.text
    assert done.text.startswith(f"nodes: {value}, expected "), done.text
    spec = schema.read(DATA / "workloads/kernel-variable.toml", WorkloadSpec, name="x")
    output = Output(source="x", phase=Phase.WORKLOAD, exit_status=0, text=done.text, seconds=1.0)
    (sample,), problems = metrics.read(spec.readings, output)
    assert not problems
    assert (sample.metric, sample.value) == ("nodes", value)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"name": "nodez"}, "there is no variable nodez in this kernel"),
        ({"name": "nodes", "requires": "possible > 128"}, "4 possible CPUs, 4 present, not"),
    ],
)
def test_a_variable_that_tells_nothing_is_a_failure(
    parameters: dict[str, str], words: str, tmp_path: Path, scope: Scope
) -> None:
    kernel(tmp_path, value=4, possible="0-3")
    done = run(("sh",), command("kernel-variable", tmp_path, **parameters), scope)
    assert done.exit_code == 1
    assert words in done.text


def test_a_kernel_may_be_expected_to_have_another_value(tmp_path: Path, scope: Scope) -> None:
    kernel(tmp_path, value=1, possible="0-3")
    (tmp_path / "tmp/ktrial-expected.nodes").write_text("1\n")
    done = run(("sh",), command("kernel-variable", tmp_path, name="nodes"), scope)
    assert done.exit_code == 0, done.text


def results(shell: tuple[str, ...], text: str, scope: Scope) -> dict[str, str]:
    done = run(shell, text, scope)
    assert done.exit_code == 0, done.text
    told = guesttests.told("sysctl", ktap.parse_text(done.text), done.text)
    assert not told.problems
    assert not told.notes
    return {each.name: each.status for each in told.results}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_sysctl_that_takes_anything_fails_where_it_should_refuse(
    shell: tuple[str, ...], tmp_path: Path, scope: Scope
) -> None:
    (tmp_path / "proc/sys/vm").mkdir(parents=True)
    (tmp_path / "proc/sys/vm/scale").write_text("5\n")
    (tmp_path / "proc/config.gz").write_bytes(
        gzip.compress(b"CONFIG_SCALE_MAX=7\nCONFIG_SCALE=5\n")
    )
    text = command(
        "sysctl-values", tmp_path, name="vm.scale", config="SCALE", takes="0 6", refuses="-1 *"
    )
    assert results(shell, text, scope) == {
        "value": "passed",
        "takes 0": "passed",
        "takes 6": "passed",
        "refuses -1": "failed",
        "refuses *": "failed",
    }
    assert (tmp_path / "proc/sys/vm/scale").read_text() == "5\n"
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp/ktrial-expected.vm.scale").write_text("0\n")
    assert results(shell, text, scope)["value"] == "failed"


def test_a_kernel_without_the_sysctl_skips_all(tmp_path: Path, scope: Scope) -> None:
    text = command("sysctl-values", tmp_path, name="vm.scale", takes="0", refuses="7")
    assert results(("sh",), text, scope) == dict.fromkeys(
        ("value", "takes 0", "refuses 7"), "skipped"
    )
