"""The commands of probes, run on files like those of a guest: by busybox, as an initramfs has it,
and by Debian's own programs, as a disk image has them."""

from __future__ import annotations

import os
import re
import shutil
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import pipeline
from pipeline import binding, metrics, process, schema
from pipeline.model import Output, Phase, ProbeSpec
from pipeline.scope import Scope
from tests import runs

BUSYBOX = shutil.which("busybox")
PROBES = Path(pipeline.__file__).parent / "data" / "probes"

pytestmark = pytest.mark.skipif(not BUSYBOX, reason="no busybox here (doctor names its package)")


@dataclass(frozen=True)
class Guest:
    """A folder that stands for a guest's root, and where its shell and programs are."""

    root: Path
    scope: Scope
    programs: Path

    def file(self, path: str, content: str | bytes) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)

    def read(self, name: str, **parameters: str | int | float) -> Output:
        spec = binding.of_probe(self.spec(name), parameters)
        command = re.sub(r"(?<![\w/])(?=/(sys|proc|tmp)\b)", str(self.root), spec.command)
        # busybox's shell takes its own dmesg before any in PATH.
        command = command.replace("dmesg |", f"cat {self.root}/log |")
        done = process.run(
            ("env", "-i", f"PATH={self.programs}", f"{self.programs}/sh", "-c", command),
            scope=self.scope.child(60),
        )
        return runs.output(name, Phase.AFTER, status=done.exit_code, text=done.text)

    def values(self, name: str, **parameters: str | int | float) -> Mapping[str, float]:
        output = self.read(name, **parameters)
        assert output.exit_status == 0, output.text
        samples, problems = metrics.read(self.spec(name).readings, output)
        assert not problems
        return {sample.metric: sample.value for sample in samples}

    def spec(self, name: str) -> ProbeSpec:
        return schema.read(PROBES / f"{name}.toml", ProbeSpec, name=name)


@pytest.fixture(params=["busybox", "debian"])
def guest(request: pytest.FixtureRequest, tmp_path: Path, scope: Scope) -> Guest:
    for folder in ("bin", "tmp"):
        (tmp_path / folder).mkdir()
    if request.param == "debian":
        return Guest(tmp_path, scope, Path("/usr/bin"))
    assert BUSYBOX
    for applet in ("sh", "awk", "cat", "grep", "ls", "nproc", "od", "rm", "sort", "tr"):
        (tmp_path / "bin" / applet).symlink_to(BUSYBOX)
    return Guest(tmp_path, scope, tmp_path / "bin")


# --------------------------------------------------------------------------- counters

STAT = """\
cpu  19 0 111 67 0 0 12 0 0 0
intr 700 55 0 0 0 6
ctxt 574
btime 1796104768
processes 58
softirq 671 0 92 3
"""
VMSTAT = (
    "nr_free_pages 119135\npgalloc_dma32 4063\npgalloc_normal 5000000000\npgfree 7\npgfault 9\n"
)


def test_work_counters_add_up_the_zones(guest: Guest) -> None:
    guest.file("proc/stat", STAT)
    guest.file("proc/vmstat", VMSTAT)
    assert guest.values("work-counters") == {
        "context-switches": 574,
        "forks": 58,
        "interrupts": 700,
        "softirqs": 671,
        "pages-allocated": 5000004063,
        "pages-freed": 7,
        "page-faults": 9,
    }


def test_vmstat_has_every_field(guest: Guest) -> None:
    guest.file("proc/vmstat", VMSTAT)
    found = guest.values("vmstat")
    assert len(found) == 5
    assert found["pgalloc_normal.count"] == 5e9


def test_buddyinfo_by_order_and_in_pages(guest: Guest) -> None:
    guest.file(
        "proc/buddyinfo",
        "Node 0, zone      DMA      0      1      2 \n"
        "Node 1, zone   Normal      5      0     10 \n",
    )
    assert guest.values("buddyinfo") == {
        "node0-DMA-order0.blocks": 0,
        "node0-DMA-order1.blocks": 1,
        "node0-DMA-order2.blocks": 2,
        "node0-DMA.pages": 10,
        "node1-Normal-order0.blocks": 5,
        "node1-Normal-order1.blocks": 0,
        "node1-Normal-order2.blocks": 10,
        "node1-Normal.pages": 45,
    }


def test_slabinfo_in_objects_and_pages(guest: Guest) -> None:
    guest.file(
        "proc/slabinfo",
        "slabinfo - version: 2.1\n"
        "# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : …\n"
        "kmalloc-8k  12  16  8192  4  8 : tunables  0  0  0 : slabdata  3  4  0\n"
        "kmalloc-1k 112 128  1024 16  4 : tunables  0  0  0 : slabdata  8  8  0\n",
    )
    assert guest.values("slabinfo") == {
        "kmalloc-8k.used": 12,
        "kmalloc-8k.objects": 16,
        "kmalloc-8k.pages": 32,
        "kmalloc-1k.used": 112,
        "kmalloc-1k.objects": 128,
        "kmalloc-1k.pages": 32,
        "total.used": 124,
        "total.objects": 144,
        "total.pages": 64,
    }


def slabs(guest: Guest) -> None:
    """A merged cache with two names, and one of its own; `deactivate_to_tail` never came."""
    for cache, fast in (("sys/kernel/slab/:0001024", 3_000_000_000), ("sys/kernel/slab/filp", 7)):
        guest.file(f"{cache}/order", "2\n")
        guest.file(f"{cache}/alloc_calls", "1 x\n")
        guest.file(f"{cache}/cpu_partial", "52\n")
        guest.file(f"{cache}/alloc_fastpath", f"{fast} C0={fast}\n")
        guest.file(f"{cache}/deactivate_to_head", f"{fast % 5}\n")
        guest.file(f"{cache}/deactivate_to_tail", "0\n")
    for name in ("biovec-64", "kmalloc-1k"):
        (guest.root / "sys/kernel/slab" / name).symlink_to(":0001024")


def test_slub_stats_of_each_cache_under_its_first_name(guest: Guest) -> None:
    slabs(guest)
    assert guest.values("slub-stats") == {
        "kmalloc-1k.alloc_fastpath": 3_000_000_000,
        "filp.alloc_fastpath": 7,
        "filp.deactivate_to_head": 2,
        "total.alloc_fastpath": 3_000_000_007,
        "total.deactivate_to_head": 2,
        "total.deactivate_to_tail": 0,
    }


def test_slub_stats_of_some_caches_and_events(guest: Guest) -> None:
    slabs(guest)
    found = guest.values("slub-stats", caches="^filp$", events="head$")
    assert found == {"filp.deactivate_to_head": 2, "total.deactivate_to_head": 2}


def test_slub_stats_without_events_is_no_success(guest: Guest) -> None:
    slabs(guest)
    assert guest.read("slub-stats", events="^nothing$").exit_status == 1


def test_sched_counters_over_all_cpus(guest: Guest) -> None:
    guest.file("proc/sys/kernel/sched_schedstats", "0\n")
    guest.file(
        "proc/schedstat",
        "version 16\ntimestamp 4295\n"
        "cpu0 1 0 1000 30 600 450 5000 3000000000 900\ndomain0 MC 3 0 0\n"
        "cpu1 0 0 990 49 644 494 6000 2664201175 800\n",
    )
    assert guest.values("sched-counters") == {
        "yields": 1,
        "schedule-calls": 1990,
        "idle-switches": 79,
        "wakeups": 1244,
        "wakeups-elsewhere": 300,
        "timeslices": 1700,
        "run-delay": 5664201175,
    }
    assert (guest.root / "proc/sys/kernel/sched_schedstats").read_text() == "1\n"


# As 6.12 printed it, but for the columns' widths.
LOCK_STAT = """\
lock_stat version 0.4
-----------------------------------------------------------------------------------------------
   class name    con-bounces    contentions   waittime-min   waittime-max waittime-total
-----------------------------------------------------------------------------------------------

                 &n->list_lock:  7 8 0.61 103.19 400.20 50.03 5045 20471 0.30 9000.72 20000.15 0.98
                 -------------
                 &n->list_lock  8          [<00000000d2ff12c8>] get_partial_node+0x38/0x1f0

           &mm->mmap_lock-W:  1 2 0.5 1.5 2.0 1.0 10 5000000000 0.2 3.0 50.0 0.5
           &mm->mmap_lock-R:  0 0 0.00 0.00 0.00 0.00 5 50 0.2 3.0 50.0 1.0
           (wq_completion)ext4/1:  0 0 0.00 0.00 0.00 0.00 1 3 0.2 3.0 50.0 1.0
           rcu_node_0/1:  0 0 0.00 0.00 0.00 0.00 1 4 0.2 3.0 50.0 1.0
           sb_writers#12/1-R:  0 0 0.00 0.00 0.00 0.00 1 40 0.2 3.0 50.0 1.0
           sb_writers#2-R:  0 0 0.00 0.00 0.00 0.00 1 60 0.2 3.0 50.0 1.0
           rcu_read_lock-R:  0 0 0.00 0.00 0.00 0.00 1 72537 0.2 3.0 50.0 1.0
           tk_core.seq.seqcount-R:  0 0 0.00 0.00 0.00 0.00 1 4551 0.2 3.0 50.0 1.0
           rcu_node_0:  0 1 0.00 0.00 0.00 0.00 1 6 0.2 3.0 50.0 1.0
"""


def test_lock_counters_add_up_classes_of_one_name(guest: Guest) -> None:
    guest.file("proc/lock_stat", LOCK_STAT)
    assert guest.values("lock-counters") == {
        "&n->list_lock.acquisitions": 20471,
        "&n->list_lock.contentions": 8,
        "&mm->mmap_lock-W.acquisitions": 5000000000,
        "&mm->mmap_lock-W.contentions": 2,
        "&mm->mmap_lock-R.acquisitions": 50,
        "&mm->mmap_lock-R.contentions": 0,
        "(wq_completion)ext4.acquisitions": 3,
        "(wq_completion)ext4.contentions": 0,
        "sb_writers-R.acquisitions": 100,
        "sb_writers-R.contentions": 0,
        "rcu_read_lock-R.acquisitions": 72537,
        "rcu_read_lock-R.contentions": 0,
        "tk_core.seq.seqcount-R.acquisitions": 4551,
        "tk_core.seq.seqcount-R.contentions": 0,
        "rcu_node_0.acquisitions": 10,
        "rcu_node_0.contentions": 1,
        "total.acquisitions": 5000020631,
        "total.contentions": 11,
    }
    some = guest.values("lock-counters", locks="list_lock")
    assert set(some) == {
        "&n->list_lock.acquisitions",
        "&n->list_lock.contentions",
        "total.acquisitions",
        "total.contentions",
    }


# --------------------------------------------------------------------------- profile

KALLSYMS = """\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81001580 T x64_sys_call
ffffffff81064960 t handle_softirqs
ffffffff81576150 t pv_native_safe_halt
ffffffff8157dbe0 T queued_spin_lock_slowpath
ffffffff81800000 T _etext
ffffffffc0000000 t test_vmalloc	[test_vmalloc]
"""


def ticks(**by_offset: int) -> bytes:
    """/proc/profile: the step, then a number for each 4 bytes of text."""
    counts = [0] * (0x800000 // 4)
    for offset, count in by_offset.items():
        counts[int(offset, 16) // 4] = count
    return struct.pack(f"<I{len(counts)}I", 4, *counts)


def test_profile_finds_each_ticks_function(guest: Guest) -> None:
    """Neighbours that are alike, whose lines od leaves out, and offsets that begin with zeros."""
    guest.file("proc/kallsyms", KALLSYMS)
    guest.file("sys/kernel/profiling", "0\n")
    guest.file("proc/profile", "")
    started = guest.read("perf-profile")
    assert (started.exit_status, started.text) == (0, "")
    assert (guest.root / "sys/kernel/profiling").read_text() == "2\n"
    places = {"1580": 2, "64960": 3, "64964": 3, "64968": 3, "6496c": 3, "7ffffc": 6, "576150": 9}
    guest.file("proc/profile", ticks(**places))
    assert guest.values("perf-profile") == {
        "total.ticks": 20,
        "lock-slowpath.share": 30,
        "x64_sys_call.share": 10,
        "handle_softirqs.share": 60,
        "queued_spin_lock_slowpath.share": 30,
    }
    assert not list((guest.root / "tmp").iterdir())


def test_profile_leaves_out_what_is_less_than_asked_for(guest: Guest) -> None:
    guest.file("proc/kallsyms", KALLSYMS)
    guest.file("proc/profile", ticks(**{"1580": 2, "64960": 98}))
    guest.file("tmp/ktrial-perf-profile", "")
    assert set(guest.values("perf-profile", least=2.5)) == {
        "total.ticks",
        "lock-slowpath.share",
        "handle_softirqs.share",
    }


def test_profile_without_a_tick_is_no_success(guest: Guest) -> None:
    guest.file("proc/kallsyms", KALLSYMS)
    guest.file("proc/profile", ticks())
    guest.file("tmp/ktrial-perf-profile", "")
    assert guest.read("perf-profile").exit_status == 1


# --------------------------------------------------------------------------- times

# As 6.12 printed it.
TRACE = """\
# tracer: function_graph
#
# CPU  DURATION                  FUNCTION CALLS
# |     |   |                     |   |   |   |
 1)   794.609 us  |  handle_softirqs();
 ------------------------------------------
 1)    time-61     =>   rcu_sch-16
 ------------------------------------------

 1)               |  schedule() {
 1)   139.988 us  |  } /* schedule */
 0)   9594.139 us |  handle_softirqs();
 0)               |  ksys_read() {
 0)   47.541 us   |    vfs_read();
 0)   69.243 us   |  } /* ksys_read */
 0)   ==========> |
 0)   0.512 us    |    vfs_read.constprop.0(); /* = 0x0 */
 0)   <========== |
"""
FUNCTIONS = "schedule\nksys_read\nvfs_read.constprop.0\nvfs_readlink\nhandle_softirqs\nx [mod]\n"


def tracing(guest: Guest) -> Path:
    guest.file("sys/kernel/tracing/available_filter_functions", FUNCTIONS)
    for name in ("current_tracer", "trace", "tracing_on", "buffer_size_kb", "set_ftrace_filter"):
        guest.file(f"sys/kernel/tracing/{name}", "")
    for name in ("funcgraph-tail", "funcgraph-irqs", "funcgraph-overhead", "sleep-time"):
        guest.file(f"sys/kernel/tracing/options/{name}", "")
    lost(guest, 0)
    return guest.root / "sys/kernel/tracing"


def lost(guest: Guest, count: int) -> None:
    text = f"entries: 9\noverrun: {count}\ncommit overrun: 0\ndropped events: 0\nread events: 0\n"
    guest.file("sys/kernel/tracing/per_cpu/cpu0/stats", text)


def test_function_times_start_before_and_tell_behind(guest: Guest) -> None:
    folder = tracing(guest)
    asked = "schedule vfs_read handle_softirqs x"
    started = guest.read("func-latency", functions=asked, buffer=10)
    assert (started.exit_status, started.text) == (0, "")
    assert (folder / "current_tracer").read_text() == "function_graph\n"
    cpus = len(os.sched_getaffinity(0))
    assert (folder / "buffer_size_kb").read_text() == f"{10 * 1024 // cpus}\n"
    # In the kernel each name that is appended stays; what is asked for is in the order of the list.
    names = (folder / "set_ftrace_filter").read_text().split()
    assert names == ["schedule", "vfs_read.constprop.0", "handle_softirqs", "x"]
    guest.file("sys/kernel/tracing/trace", TRACE)
    found = guest.values("func-latency", functions=asked, buffer=10)
    assert found == {
        "schedule.calls": 1,
        "schedule.total": 139988,
        "schedule.max": 139988,
        "schedule.mean": 139988,
        "schedule:131072ns.calls": 1,
        "vfs_read.calls": 2,
        "vfs_read.total": 48053,
        "vfs_read.max": 47541,
        "vfs_read.mean": 24026.5,
        "vfs_read:512ns.calls": 1,
        "vfs_read:32768ns.calls": 1,
        "handle_softirqs.calls": 2,
        "handle_softirqs.total": 10388748,
        "handle_softirqs.max": 9594139,
        "handle_softirqs.mean": 5194374,
        "handle_softirqs:524288ns.calls": 1,
        "handle_softirqs:8388608ns.calls": 1,
        "x.calls": 0,
        "x.total": 0,
        "x.max": 0,
    }
    assert (folder / "current_tracer").read_text() == "nop\n"


def test_a_function_that_is_inlined_is_told(guest: Guest) -> None:
    tracing(guest)
    output = guest.read("func-latency", functions="schedule rmqueue_bulk")
    assert output.exit_status == 1
    assert "rmqueue_bulk is no function of this kernel: it is inlined" in output.text
    # The name must be the whole name.
    assert guest.read("func-latency", functions="vfs_rea").exit_status == 1


def test_lost_events_are_no_number(guest: Guest) -> None:
    tracing(guest)
    assert guest.read("func-latency", functions="schedule").exit_status == 0
    guest.file("sys/kernel/tracing/trace", TRACE)
    lost(guest, 12)
    output = guest.read("func-latency", functions="schedule", buffer=1)
    assert output.exit_status == 1
    assert "12 events had no room in the buffer of 1 MiB" in output.text


DMESG = """\
[    0.000000] Linux version 6.12.117
[    0.348979] smp: Brought up 1 node, 2 CPUs
[    0.400001] initcall init_hw_perf_events+0x0/0x5c0 returned 0 after 4000 usecs
[    0.500001] initcall acpi_init+0x0/0x4f0 returned 0 after 120 usecs
[    0.742841] Run /init as init process
[    2.000000] Run /sbin/second as init process
"""


def test_boot_time_from_the_log(guest: Guest) -> None:
    guest.file("log", DMESG)
    assert guest.values("boot-time") == {
        "init": 0.742841,
        "processors": 0.348979,
        "initcalls": 4120,
        "initcalls-run": 2,
    }
    guest.file("log", "[    0.742841] Run /init as init process\n")
    assert guest.values("boot-time") == {"init": 0.742841}
    guest.file("log", "[    1.000000] the log's beginning was overwritten\n")
    assert guest.read("boot-time").exit_status == 1
