"""The commands of workloads that measure, run by the guests' busybox, and how they are read.

What the kernel and netperf print is recorded; shell functions stand in their places.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import pipeline
from pipeline import binding, metrics, process, schema
from pipeline.model import Output, Phase, WorkloadSpec
from pipeline.scope import Scope
from tests import runs

BUSYBOX = shutil.which("busybox")
WORKLOADS = Path(pipeline.__file__).parent / "data" / "workloads"

pytestmark = pytest.mark.skipif(not BUSYBOX, reason="no busybox here (doctor names its package)")


@dataclass(frozen=True)
class Guest:
    """A folder that stands for a guest's root. `functions` take the place of its programs."""

    root: Path
    scope: Scope

    def file(self, path: str, content: str) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)

    def run(self, name: str, functions: str, **parameters: str | int | bool) -> Output:
        run = binding.bind(self.spec(name), name, parameters)
        command = re.sub(
            r"(?<![\w/])(?=/(sys|proc|tmp|dev)/)", str(self.root), binding.command(run)
        )
        assert BUSYBOX
        done = process.run(
            ("env", "-i", "PATH=/bin", BUSYBOX, "sh", "-c", f"{functions}\n{command}"),
            scope=self.scope.child(60),
        )
        return runs.output(name, Phase.WORKLOAD, status=done.exit_code, text=done.text)

    def values(
        self, name: str, functions: str, **parameters: str | int | bool
    ) -> Mapping[str, float]:
        output = self.run(name, functions, **parameters)
        assert output.exit_status == 0, output.text
        samples, problems = metrics.read(self.spec(name).readings, output)
        assert not problems
        return {sample.metric: sample.value for sample in samples}

    def said(self, name: str) -> str:
        """What the functions wrote down."""
        return (self.root / name).read_text()

    def spec(self, name: str) -> WorkloadSpec:
        return schema.read(WORKLOADS / f"{name}.toml", WorkloadSpec, name=name)


@pytest.fixture
def guest(tmp_path: Path, scope: Scope) -> Guest:
    made = Guest(tmp_path, scope)
    for folder in ("tmp", "dev"):
        (tmp_path / folder).mkdir()
    made.file("proc/sys/kernel/printk", "7\t4\t1\t7\n")
    # netserver listens on 127.0.0.1:12865
    made.file(
        "proc/net/tcp",
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n"
        "   0: 0100007F:3241 00000000:0000 0A 00000000:00000000 00:00000000 00000000\n",
    )
    return made


# --------------------------------------------------------------------------- netperf


def netperf(guest: Guest, *lines: str) -> str:
    """netperf whose calls are written down, and answered by `lines` in turn: the last for good."""
    answers = guest.root / "answers"
    answers.write_text("".join(f"{line}\n" for line in lines))
    return f"""
    ip() {{ echo "ip $*" >> {guest.root}/called; }}
    netserver() {{ exec sleep 60; }}
    netperf() {{
        echo "netperf $*" >> {guest.root}/called
        read -r line < {answers}
        [ "$(wc -l < {answers})" -gt 1 ] && sed -i 1d {answers}
        echo "$line"
    }}
    """


def test_netperf_reads_both_sides_of_every_size(guest: Guest) -> None:
    found = guest.values(
        "netperf", netperf(guest, "64.81,30.80", "4092.69,1269.90"), sizes="64,4096"
    )
    assert found == {
        "send-64": 64.81,
        "recv-64": 30.80,
        "send-4096": 4092.69,
        "recv-4096": 1269.90,
    }
    first, second = (line for line in guest.said("called").splitlines() if "netperf" in line)
    assert "-t UDP_STREAM -l 2 -- -m 64 " in first
    assert "-t UDP_STREAM -l 2 -- -m 4096 " in second


def test_sizes_stand_with_a_plus_where_a_comma_means_something_else(guest: Guest) -> None:
    found = guest.values("netperf", netperf(guest, "1.00,1.00"), sizes="64+128", seconds=1)
    assert sorted(found) == ["recv-128", "recv-64", "send-128", "send-64"]


def test_the_rates_of_several_clients_are_added(guest: Guest) -> None:
    found = guest.values("netperf", netperf(guest, "10.50,1.25"), sizes=64, clients=3, bind="0,1")
    assert found == {"send-64": 31.5, "recv-64": 3.75}
    calls = [line for line in guest.said("called").splitlines() if line.startswith("netperf")]
    assert len(calls) == 3
    assert all(" -T 0,1 -- -m 64" in call for call in calls)


@pytest.mark.parametrize("workload", ["netperf", "netperf-rr"])
@pytest.mark.parametrize(
    "wrong", ["netperf: send_omni: send_data failed: Message too long", "0.00,0.00", ""]
)
def test_a_client_that_fails_is_a_failure_not_a_number(
    guest: Guest, workload: str, wrong: str
) -> None:
    output = guest.run(workload, netperf(guest, wrong))
    assert output.exit_status == 1
    assert "clients failed" in output.text
    if wrong.startswith("netperf"):
        assert "Message too long" in output.text


def test_netperf_rr_weighs_latencies_by_what_each_client_did(guest: Guest) -> None:
    found = guest.values("netperf-rr", netperf(guest, "3000.00,10.00,45"), clients="1,4")
    assert found == {
        "rate-1": 3000.0,
        "latency-1": 10.0,
        "p99-1": 45.0,
        "rate-4": 12000.0,
        "latency-4": 10.0,
        "p99-4": 45.0,
    }


def test_a_server_that_does_not_come_up_is_told(guest: Guest) -> None:
    guest.file("proc/net/tcp", "  sl  local_address rem_address   st\n")
    functions = "ip() { :; }; usleep() { :; }; netserver() { echo address in use; }"
    output = guest.run("netperf", functions)
    assert output.exit_status == 1
    assert "no netserver: address in use" in output.text
