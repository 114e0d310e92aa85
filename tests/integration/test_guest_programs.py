"""Programs of our own, compiled for both architectures, and run where this host can."""

from __future__ import annotations

import platform
import re
import resource
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from pipeline import elf, guestprograms, metrics
from pipeline.catalog import Catalog
from pipeline.errors import InfraError
from pipeline.model import Output, Phase
from pipeline.scope import Scope
from pipeline.settings import PACKAGE, shipped_root

CATALOG = Catalog(data=PACKAGE / "data", share=(shipped_root(),))
ELF_MACHINES = {"x86_64": 62, "aarch64": 183}
SOURCES = guestprograms.sources(CATALOG.images["bench"])


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of this host's own programs."""
    folder = tmp_path_factory.mktemp("programs")
    guestprograms.build(SOURCES, CATALOG.native(platform.machine()), into=folder, scope=Scope(60))
    return folder


def run(
    *words: str | Path, address_space: int = resource.RLIM_INFINITY
) -> subprocess.CompletedProcess[str]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))

    return subprocess.run(
        [str(word) for word in words],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=limit,
    )


def read(workload: str, text: str) -> dict[str, tuple[float, str]]:
    """Metric -> value and unit, of an output without any trouble."""
    output = Output(source=workload, phase=Phase.WORKLOAD, exit_status=0, text=text, seconds=1.0)
    samples, troubles = metrics.read(CATALOG.workloads[workload].readings, output)
    assert not troubles
    return {sample.metric: (sample.value, sample.unit) for sample in samples}


def all_loops(built: Path) -> Sequence[str]:
    refused = run(built / "micro", "-l", "nonsense")
    assert refused.returncode == 2
    return refused.stderr.partition("there are ")[2].split()


@pytest.mark.parametrize("architecture", sorted(ELF_MACHINES))
def test_they_need_no_library_and_come_out_the_same_each_time(
    tmp_path: Path, architecture: str
) -> None:
    (tmp_path / "again").mkdir()
    target = CATALOG.architecture(architecture)
    first = guestprograms.build(SOURCES, target, into=tmp_path, scope=Scope(60))
    second = guestprograms.build(SOURCES, target, into=tmp_path / "again", scope=Scope(60))
    assert set(first) >= {"micro", "mmap-writers"}
    for name, path in first.items():
        data = path.read_bytes()
        assert struct.unpack_from("<H", data, 18) == (ELF_MACHINES[architecture],)
        assert elf.needs(data) == elf.Needs(interpreter="", libraries=())
        assert struct.unpack_from("<H", data, 16) == (2,), "at a fixed address: ET_EXEC"
        assert data == second[name].read_bytes()


def test_what_does_not_compile_is_named(tmp_path: Path) -> None:
    source = tmp_path / "broken.c"
    source.write_text("int main(void) { return x; }\n")
    with pytest.raises(InfraError, match=r"broken\.c.*x.*undeclared"):
        guestprograms.build(
            {"broken": source},
            CATALOG.native(platform.machine()),
            into=tmp_path,
            scope=Scope(60),
        )
    assert "undeclared" in (tmp_path / guestprograms.LOG).read_text()


def test_micro_gives_a_time_for_each_of_its_loops(built: Path, tmp_path: Path) -> None:
    done = run(built / "micro", "-n", "50", "-r", "2", "-c", "-1", "-d", tmp_path)
    assert done.returncode == 0, done.stderr
    found = read("micro", done.stdout)
    assert tuple(found) == tuple(all_loops(built))
    assert all(value > 0 and unit == "ns" for value, unit in found.values())
    for line in done.stdout.splitlines():
        nanoseconds, ops, each = re.findall(r"[0-9.]+", line)
        assert ops == "100"
        assert float(each) == pytest.approx(int(nanoseconds) / 100, abs=0.001)
    assert not list(tmp_path.iterdir())


def test_the_workload_says_which_loops_there_are(built: Path) -> None:
    parameter = next(p for p in CATALOG.workloads["micro"].parameters if p.name == "loops")
    assert parameter.description.split()[-1].split(",") == all_loops(built)


def test_micro_runs_the_loops_asked_for_in_their_order(built: Path, tmp_path: Path) -> None:
    done = run(built / "micro", "-l", "stat,create", "-n", "20", "-c", "-1", "-d", tmp_path)
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["stat", "create"]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["-l", "create", "-d", "/nonexistent"], 1, "micro: create: create: No such file"),
        (["-n", "many"], 2, "not a number"),
        (["-c", "1000", "-l", "stat"], 1, "this CPU"),
        (["create"], 2, "what is create?"),
    ],
)
def test_micro_says_what_is_wrong(
    built: Path, arguments: list[str], status: int, message: str
) -> None:
    done = run(built / "micro", *arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr


@pytest.mark.parametrize("shared", [False, True])
def test_writers_count_what_they_wrote(built: Path, shared: bool) -> None:
    done = run(built / "mmap-writers", "-w", "3", "-m", "2", "-n", "4", *["-s"][: int(shared)])
    assert done.returncode == 0, done.stderr
    first = re.match(r"3 writers: (\d+) ns 12 loops (\d+) bytes\n", done.stdout)
    assert first and int(first[2]) == 12 * (2 << 20)
    found = read("mmap-writers", done.stdout)
    assert {name: unit for name, (_, unit) in found.items()} == {
        "throughput": "MB/s",
        "loop": "ms",
        "loop.worst": "ms",
    }
    rate = int(first[2]) / int(first[1]) * 1e3
    assert found["throughput"][0] == pytest.approx(rate, rel=1e-3, abs=0.001)
    assert 0 < found["loop"][0] <= found["loop.worst"][0]


def test_a_writer_that_gets_no_memory_is_a_failure_not_a_number(built: Path) -> None:
    done = run(built / "mmap-writers", "-w", "2", "-m", "512", address_space=64 << 20)
    assert (done.returncode, done.stdout) == (1, "")
    assert "mmap-writers: mmap: Cannot allocate memory" in done.stderr


@pytest.mark.parametrize("udp", [False, True])
def test_every_client_has_its_requests_answered(built: Path, udp: bool) -> None:
    done = run(built / "loopback", "-c", "5", "-n", "20", "-m", "3000", *["-u"][: int(udp)])
    assert done.returncode == 0, done.stderr
    said = re.match(r"5 clients: (\d+) ns 100 transactions ", done.stdout)
    assert said
    found = read("loopback", done.stdout)
    assert {name: unit for name, (_, unit) in found.items()} == {
        "rate-5": "transactions/s",
        "latency-5": "µs",
        "worst-5": "µs",
    }
    assert found["rate-5"][0] == pytest.approx(100e9 / int(said[1]), abs=0.001)
    # A client has one request after the other, in the time that all of them took.
    assert 0 < found["latency-5"][0] <= found["worst-5"][0]
    assert found["latency-5"][0] * 20 <= int(said[1]) / 1e3


def test_loopback_without_room_for_its_clients_fails_and_leaves_none_of_them(built: Path) -> None:
    done = run("sh", "-c", f"ulimit -n 12; exec {built / 'loopback'} -c 1 -n 5")
    assert done.returncode == 0, done.stderr
    done = run("sh", "-c", f"ulimit -n 6; exec {built / 'loopback'} -c 1 -n 5")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Too many open files" in done.stderr


def test_a_disks_system_gets_them_among_its_own_programs(built: Path, tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/sh").write_text("a shell")
    archive = tmp_path / "system.tar"
    subprocess.run(["tar", "-C", tmp_path, "-cf", archive, "./usr"], check=True)
    guestprograms.add({"micro": built / "micro"}, archive)
    target = tmp_path / "unpacked"
    target.mkdir()
    subprocess.run(["tar", "-C", target, "-xpf", archive], check=True)
    assert (target / "usr/bin/sh").read_text() == "a shell"
    assert (target / "usr/bin/micro").read_bytes() == (built / "micro").read_bytes()
    assert (target / "usr/bin/micro").stat().st_mode & 0o777 == 0o755


def test_a_module_that_is_not_there_is_named(built: Path) -> None:
    done = run(built / "load-module", "/nonexistent.ko", "loops=1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "load-module: /nonexistent.ko: No such file or directory\n"
    assert run(built / "load-module").returncode == 2
