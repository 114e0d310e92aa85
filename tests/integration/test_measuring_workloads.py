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
            r"(?<![\w/])(?=/(sys|proc|tmp|dev|lib)/)", str(self.root), binding.command(run)
        )
        assert BUSYBOX
        done = process.run(
            ("env", "-i", f"PATH={self.root}/bin", BUSYBOX, "sh", "-c", f"{functions}\n{command}"),
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
    for folder in ("bin", "dev", "tmp"):
        (tmp_path / folder).mkdir()
    made.file("proc/sys/kernel/printk", "7\t4\t1\t7\n")
    made.file("proc/uptime", "100.00 90.00\n")
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
    "wrong", ["netperf: send_omni: send_data failed: Message too long", "0.00,0.00,1.00,1", ""]
)
def test_a_client_that_fails_is_a_failure_not_a_number(
    guest: Guest, workload: str, wrong: str
) -> None:
    output = guest.run(workload, netperf(guest, wrong))
    assert output.exit_status == 1
    assert "clients failed" in output.text
    if wrong.startswith("netperf"):
        assert "Message too long" in output.text


def test_netperf_rr_counts_what_several_clients_did_over_the_time_of_all(guest: Guest) -> None:
    # Two clients of 3 s each, the second of which was started late: 5 s in all.
    guest.file("proc/uptime", "100.00 90.00\n")
    late = f"""
    wait() {{
        command wait "$1"
        [ "$many" = 1 ] || echo "105.00 90.00" > {guest.root}/proc/uptime
    }}
    """
    functions = netperf(guest, "3000.00,3.00,10.00,45") + late
    found = guest.values("netperf-rr", functions, clients="1,2")
    assert found == {
        "rate-1": 3000.0,
        "latency-1": 10.0,
        "p99-1": 45.0,
        "rate-2": 3600.0,
        "latency-2": 10.0,
        "p99-2": 45.0,
    }


def test_a_server_that_does_not_come_up_is_told(guest: Guest) -> None:
    guest.file("proc/net/tcp", "  sl  local_address rem_address   st\n")
    functions = "ip() { :; }; usleep() { :; }; netserver() { echo address in use; }"
    output = guest.run("netperf", functions)
    assert output.exit_status == 1
    assert "no netserver: address in use" in output.text


# --------------------------------------------------------------------------- test_vmalloc

ONCE = "passed: 1 failed: 0 repeat: 1 loops: 1000"
# 6.12.117, two CPUs, emulated.
LOG_OF_6_12 = f"""\
[    2.685332] Summary: fix_size_alloc_test {ONCE} avg: 16912 usec
[    2.685443] Summary: full_fit_alloc_test {ONCE} avg: 874960 usec
[    2.685467] All test took worker0=2937675416 cycles
[    2.696735] Summary: fix_size_alloc_test {ONCE} avg: 3056 usec
[    2.700486] Summary: full_fit_alloc_test {ONCE} avg: 726260 usec
[    2.700501] All test took worker1=2614789008 cycles
"""
# 5.10.262, the same.
LOG_OF_5_10 = f"""\
[    3.468898] Summary: fix_size_alloc_test {ONCE} avg: 3169 usec
[    3.468942] Summary: full_fit_alloc_test {ONCE} avg: 1111017 usec
[    3.468961] All test took CPU0=4545371920 cycles
[    3.488764] Summary: fix_size_alloc_test {ONCE} avg: 3187 usec
[    3.488775] Summary: full_fit_alloc_test {ONCE} avg: 1423852 usec
[    3.488783] All test took CPU1=4997754190 cycles
"""
PARAMETERS_OF_6_12 = """\
nr_threads:Number of workers to perform tests(min: 1 max: USHRT_MAX) (int)
sequential_test_order:Use sequential stress tests order (bool)
test_repeat_count:Set test repeat counter (int)
test_loop_count:Set test loop counter (int)
nr_pages:Set number of pages for fix_size_alloc_test(default: 1) (int)
run_test_mask:Set tests specified in the mask.
"""
PARAMETERS_OF_5_10 = """\
single_cpu_test:Use single first online CPU to run tests (bool)
sequential_test_order:Use sequential stress tests order (bool)
test_repeat_count:Set test repeat counter (int)
test_loop_count:Set test loop counter (int)
run_test_mask:Set tests specified in the mask.
"""


def vmalloc(guest: Guest, log: str, parameters: str, *, earlier: str = "") -> str:
    """A guest with the module, two CPUs, and what the kernel logs as it is loaded."""
    guest.file("lib/modules/1/kernel/lib/test_vmalloc.ko", "")
    guest.file("log", log)
    guest.file("earlier", earlier)
    guest.file("parameters", parameters)
    guest.file(
        "bin/load-module",
        f"#!/bin/sh\nshift\necho $* > {guest.root}/loaded\n"
        f"read -r level < {guest.root}/proc/sys/kernel/printk; echo $level > {guest.root}/level\n"
        "echo load-module: test_vmalloc.ko: Resource temporarily unavailable >&2\nexit 1\n",
    )
    (guest.root / "bin/load-module").chmod(0o755)
    return f"""
    modinfo() {{ cat {guest.root}/parameters; }}
    nproc() {{ echo 2; }}
    dmesg() {{
        cat {guest.root}/earlier
        echo "[    1.250000] ktrial: test_vmalloc $$ starts"
        cat {guest.root}/log
        echo "[    2.750500] ktrial: test_vmalloc $$ ends"
    }}
    """


def test_the_numbers_of_all_workers_are_one_of_each_test(guest: Guest) -> None:
    found = guest.values("test_vmalloc", vmalloc(guest, LOG_OF_6_12, PARAMETERS_OF_6_12), mask=3)
    assert found == {
        "fix_size_alloc_test": (16912 + 3056) / 2,
        "fix_size_alloc_test.worst": 16912,
        "fix_size_alloc_test.passed": 2,
        "fix_size_alloc_test.failed": 0,
        "full_fit_alloc_test": (874960 + 726260) / 2,
        "full_fit_alloc_test.worst": 874960,
        "full_fit_alloc_test.passed": 2,
        "full_fit_alloc_test.failed": 0,
        "cycles": (2937675416 + 2614789008) / 2,
        "cycles.worst": 2937675416,
        "wall": 1.5005,
    }
    assert guest.said("loaded").split() == [
        *("run_test_mask=3", "test_loop_count=1000", "test_repeat_count=1"),
        *("sequential_test_order=1", "nr_threads=2"),
    ]
    # Its lines are not for the console, whose level is then as before.
    assert guest.said("level") == "6\n"
    assert guest.said("proc/sys/kernel/printk").split()[0] == "7"


def test_what_an_earlier_run_logged_does_not_count(guest: Guest) -> None:
    functions = vmalloc(guest, LOG_OF_6_12, PARAMETERS_OF_6_12, earlier=LOG_OF_6_12)
    assert guest.values("test_vmalloc", functions)["fix_size_alloc_test.passed"] == 2


def test_a_test_that_fails_is_a_failure_but_for_the_one_that_should(guest: Guest) -> None:
    failed = LOG_OF_6_12.replace("passed: 1 failed: 0", "passed: 0 failed: 1", 1)
    output = guest.run("test_vmalloc", vmalloc(guest, failed, PARAMETERS_OF_6_12))
    assert output.exit_status == 1
    assert "failed: fix_size_alloc_test (" in output.text
    meant = failed.replace("fix_size_alloc_test", "align_shift_alloc_test")
    found = guest.values("test_vmalloc", vmalloc(guest, meant, PARAMETERS_OF_6_12))
    assert found["align_shift_alloc_test.failed"] == 1


@pytest.mark.parametrize(
    ("asked", "loaded"),
    [({}, ""), ({"threads": 2}, ""), ({"threads": 1}, "single_cpu_test=1")],
)
def test_5_10_has_a_worker_on_each_cpu_or_one(
    guest: Guest, asked: Mapping[str, int], loaded: str
) -> None:
    functions = vmalloc(guest, LOG_OF_5_10, PARAMETERS_OF_5_10)
    found = guest.values("test_vmalloc", functions, **asked)
    assert found["cycles.worst"] == 4997754190
    assert found["full_fit_alloc_test.worst"] == 1423852
    words = guest.said("loaded").split()
    assert words[4:] == ([loaded] if loaded else [])


@pytest.mark.parametrize(
    ("asked", "message"),
    [({"threads": 64}, "a worker on each CPU, 2, or one"), ({"pages": 4}, "has no nr_pages")],
)
def test_what_5_10_cannot_do_is_refused(
    guest: Guest, asked: Mapping[str, int], message: str
) -> None:
    output = guest.run("test_vmalloc", vmalloc(guest, "", PARAMETERS_OF_5_10), **asked)
    assert output.exit_status == 2
    assert message in output.text
    assert not (guest.root / "loaded").exists()


def test_a_module_that_was_not_loaded_is_told(guest: Guest) -> None:
    output = guest.run("test_vmalloc", vmalloc(guest, "", PARAMETERS_OF_6_12))
    assert output.exit_status == 1
    assert "no result in the kernel log: load-module: test_vmalloc.ko: Resource" in output.text
    (guest.root / "lib/modules/1/kernel/lib/test_vmalloc.ko").unlink()
    output = guest.run("test_vmalloc", "")
    assert output.exit_status == 1
    assert "there is no module test_vmalloc.ko" in output.text


# --------------------------------------------------------------------------- mmap-writers


def writers(guest: Guest, controllers: str = "cpuset cpu") -> str:
    guest.file("sys/devices/system/node/node1/cpulist", "2-3\n")
    for name in ("cgroup.controllers", "cgroup.subtree_control"):
        guest.file(f"sys/fs/cgroup/{name}", f"{controllers}\n")
    for name, content in (("mems", "1"), ("cpus", "2-3")):
        guest.file(f"sys/fs/cgroup/ktrial-writers/cpuset.{name}.effective", content)
    guest.file("bin/mmap-writers", f"#!/bin/sh\npwd > {guest.root}/cwd\necho called $*\n")
    (guest.root / "bin/mmap-writers").chmod(0o755)
    return ""


def test_writers_are_confined_to_a_node_by_a_cpuset(guest: Guest) -> None:
    output = guest.run("mmap-writers", writers(guest), node=1, writers=3, shared=True)
    assert output.exit_status == 0, output.text
    group = "sys/fs/cgroup/ktrial-writers"
    assert guest.said(f"{group}/cpuset.mems") == "1\n"
    assert guest.said(f"{group}/cpuset.cpus") == "2-3\n"
    assert guest.said(f"{group}/cgroup.procs") == "0\n"
    assert guest.said("sys/fs/cgroup/cgroup.subtree_control") == "+cpuset\n"
    assert output.text.splitlines() == ["on NUMA node 1, CPUs 2-3", "called -w 3 -m 16 -n 10 -s"]


def test_without_a_node_no_cpuset_is_asked_for(guest: Guest) -> None:
    output = guest.run("mmap-writers", writers(guest, controllers=""))
    assert (output.exit_status, output.text) == (0, "called -w 10 -m 16 -n 10\n")


@pytest.mark.parametrize(
    ("node", "controllers", "message"),
    [(7, "cpuset", "there is no NUMA node 7"), (1, "cpu memory", "--kconfig cpusets")],
)
def test_a_node_or_cpusets_that_are_not_there_are_told(
    guest: Guest, node: int, controllers: str, message: str
) -> None:
    output = guest.run("mmap-writers", writers(guest, controllers), node=node)
    assert output.exit_status == 1
    assert message in output.text
    assert "called" not in output.text


# --------------------------------------------------------------------------- stress-ng

# 0.15.06 of Debian 12, class vm.
STRESS_NG = """\
stress-ng: info:  [67] setting to a 1 second run per stressor
stress-ng: info:  [67] userfaultfd: stressor will be skipped, userfaultfd() not supported
stress-ng: info:  [1065] swap: cannot enable swap file on the filesystem, skipping test
stress-ng: metrc: [67] stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s
stress-ng: metrc: [67]                           (secs)    (secs)    (secs)   (real time) (usr+sys time)
stress-ng: metrc: [67] munmap            19137      1.01      0.39      1.46     18897.47       10339.69
stress-ng: metrc: [67] shm-sysv             90      1.06      0.11      1.91        84.54          44.44
stress-ng: metrc: [67] vm                    0      1.22      0.15      2.25         0.00           0.00
stress-ng: metrc: [67] miscellaneous metrics:
stress-ng: metrc: [67] shm-sysv         104157.42 nanosecs per shmget call (geometic mean of 2 instances)
stress-ng: info:  [67] successful run completed in 42.51s
"""  # noqa: E501


@pytest.mark.parametrize("status", [0, 3])
def test_what_lacked_something_has_no_rate_and_the_others_have(guest: Guest, status: int) -> None:
    stress_ng(guest, status)
    assert guest.values("stress-ng", "") == {"munmap": 18897.47, "shm-sysv": 84.54}


@pytest.mark.parametrize("status", [1, 2, 4])
def test_a_stressor_that_failed_fails_the_workload(guest: Guest, status: int) -> None:
    stress_ng(guest, status)
    assert guest.run("stress-ng", "").exit_status == status


def stress_ng(guest: Guest, status: int) -> None:
    guest.file("said", STRESS_NG)
    guest.file(
        "bin/stress-ng",
        '#!/bin/sh\nwhile read -r line; do echo "$line"; done'
        f" < {guest.root}/said\nexit {status}\n",
    )
    (guest.root / "bin/stress-ng").chmod(0o755)
