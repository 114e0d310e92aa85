"""The patterns as data: every one is met by a line here or in a log of `consoles/`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

from pipeline import schema
from pipeline.console import Classifier, Family
from pipeline.consoleline import decode, readings
from pipeline.consolepatterns import Match, Patterns, compiled
from tests import guests

LOGS = Path(__file__).parent / "consoles"
FILES = sorted((guests.DATA / "console").glob("*.toml"))

# Reports of one line, and the title of each.
LINES = {
    "boot": {
        "qemu: could not load kernel '/tmp/bzImage': No such file or directory": (
            "the image was refused"
        ),
        "error: invalid magic number.": "the image was refused",
        "EFI stub: ERROR: Failed to decompress kernel": (
            "EFI stub: Failed to decompress kernel"
        ),
        "XZ-compressed data is corrupt -- System halted": "the image did not unpack",
        " -- System halted": "the image did not unpack",
        "BdsDxe: No bootable option or device was found.": "the firmware found nothing to boot",
    },
    "bug": {
        "BUG: workqueue leaked lock or atomic: kworker/0:1/0x00000001/71": (
            "BUG: workqueue leaked lock or atomic"
        ),
        "BUG: Dentry ffff8880{i=8bb9,n=lo}  still in use (1) [unmount of proc proc]": (
            "BUG: Dentry still in use"
        ),
        "BUG:": "BUG: corrupted",
        "BUG: MAX_LOCKDEP_CHAINS too low!": "BUG: MAX_LOCKDEP_CHAINS too low!",
        "BUG: key ffff888012345678 has not been registered!": (
            "BUG: key ADDR has not been registered!"
        ),
        "BUG: scheduling in a non-blocking section: sh/71/2": (
            "BUG: scheduling in a non-blocking section"
        ),
        "BUG: assuming non migratable context at lib/ring.c:12": (
            "BUG: assuming non migratable context"
        ),
        "VFS: Close: file count is 0": "VFS: Close: file count is zero (use-after-free)",
    },
    "hang": {
        "watchdog: CPU 3 self-detected hard LOCKUP @ ring_spin+0x10/0x20": "hard lockup",
        "watchdog: CPU 0 detected hard LOCKUP on other CPUs 1": "hard lockup",
        "Watchdog CPU:1 Hard LOCKUP": "hard lockup",
        "watchdog: CPU1: Watchdog detected hard LOCKUP on cpu 0": "hard lockup",
        "smp: csd: Detected non-responsive CSD lock (#1) on CPU#0, waiting 5000 ns for CPU#01 "
        "ring_flush+0x0/0x10(0x0).": "non-responsive CSD lock in ring_flush",
        "rcu_tasks: INFO: rcu_tasks detected stalls on tasks:": "INFO: rcu detected stall",
        "rcu: rcu_preempt kthread timer wakeup didn't happen for 2 jiffies!": (
            "INFO: rcu detected stall"
        ),
        "INFO: task sh:7 can't die for more than 143 seconds.": "INFO: task can't die",
        "INFO: rcu_tasks detected stalls on tasks:": "INFO: rcu detected stall",
        "rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: {": (
            "INFO: rcu detected stall"
        ),
        "INFO: task sh:7 blocked in I/O wait for more than 122 seconds.": "INFO: task hung",
    },
    "lock": {
        "[ INFO: possible recursive locking detected ]": "possible deadlock",
        "WARNING: possible irq lock inversion dependency detected": "possible deadlock",
        "WARNING: SOFTIRQ-safe -> SOFTIRQ-unsafe lock order detected": "possible deadlock",
        "[ BUG: lock held when returning to user space! ]": (
            "BUG: lock held when returning to user space"
        ),
        "WARNING: bad contention detected!": "WARNING: bad contention",
        "WARNING: chain_key collision": "WARNING: chain_key collision",
        "WARNING: held lock freed!": "WARNING: held lock freed",
        "WARNING: tester/71 still has locks held!": "WARNING: still has locks held",
        "WARNING: Nested lock was not taken": "WARNING: nested lock was not taken",
        "[ BUG: Invalid wait context ]": "BUG: Invalid wait context",
        "INFO: trying to register non-static key.": "INFO: trying to register non-static key",
    },
    "memory": {
        "BUG: KASAN: wild-memory-access on address ffe7087450a17000": (
            "KASAN: wild-memory-access"
        ),
        "BUG: KASAN: ?": "KASAN: ?",
        "BUG: KMSAN: kernel-infoleak in ring_send+0x1c9/0x270": (
            "KMSAN: kernel-infoleak in ring_send"
        ),
        "BUG: KASAN: use-after-free in 0xffffffffc0001234": "KASAN: use-after-free",
        "BUG: KCSAN: data-race in ring_add+0x12/0x40": "KCSAN: data-race in ring_add",
        "UBSAN: array index out of bounds at ring_add+0x12/0x40": (
            "UBSAN: array index out of bounds in ring_add"
        ),
        "BUG <unknown> (Not tainted): No slab cache for object 0x00000000abcdef01": (
            "slab <unknown>: No slab cache for object ADDR"
        ),
        "BUG dentry(12:system.slice) (Not tainted): Poison overwritten": (
            "slab dentry: Poison overwritten"
        ),
        "CFI failure at ring_add+0x12/0x40 (target: ring_take+0x0/0x10; expected type: 0x1f3)": (
            "CFI failure in ring_add"
        ),
        "BUG: KFENCE: memory corruption": "KFENCE: memory corruption",
        "UBSAN: Undefined behaviour in lib/ring.c:7:3": "UBSAN: undefined-behaviour",
        "BUG kmalloc-8 (Tainted: G    B         ): Object already free": (
            "BUG: Object already free"
        ),
        "INFO: Freed in ring_drop+0x14/0x20 age=624 cpu=0 pid=3": (
            "INFO: Freed in ring_drop age=NUM cpu=NUM pid=NUM"
        ),
        "BUG: Bad rss-counter state mm:ffff88005fac4300 idx:0 val:15": (
            "BUG: Bad rss-counter state"
        ),
        "BUG: non-zero pgtables_bytes on freeing mm: 4096": (
            "BUG: non-zero pgtables_bytes on freeing mm: NUM"
        ),
    },
    "oops": {
        "kernel BUG at mm/usercopy.c:102!": "BUG: bad usercopy",
        "kernel BUG at lib/string_helpers.c:1040!": "kernel BUG",
        "Kernel BUG [#1]": "kernel BUG",
        "Kernel bug detected[#1]:": "kernel BUG",
        "Oops[#1]:": "Oops",
        "CPU 0 Unable to handle kernel paging request at virtual address 0, epc == 8, ra == 8": (
            "BUG: unable to handle kernel paging request"
        ),
        "BUG: Unable to handle unknown paging fault at 0xc0000000": (
            "BUG: unable to handle kernel paging request"
        ),
        "Unable to handle kernel execution of user memory at virtual address 0000000000000000": (
            "BUG: unable to handle kernel execution of user memory"
        ),
        "PANIC: early exception 0x0e IP 10:ffffffff81000000 error 0 cr2 0x8": (
            "PANIC: early exception"
        ),
        "specification exception: 0006 ilc:3 [#1] SMP": "specification exception",
        "Oops: Bad pagetable: 000d [#1] SMP": "Bad pagetable",
        "Oops: stack guard page: 0000 [#1] SMP": "stack guard page",
        "Internal error: UBSAN: array index out of bounds: 00000000f2005512 [#1] SMP": (
            "UBSAN: array index out of bounds"
        ),
        "Unhandled prefetch abort: debug event (0x002) at 0x00000000": "Unhandled fault",
        "Kernel BUG at ring_add+0x10": "kernel BUG",
        "Kernel BUG in a line of its own": "kernel BUG in a line of its own",
        "BUG: unable to handle kernel ": "BUG: unable to handle kernel",
        "Kernel stack overflow detected": "stack overflow",
        "stack segment: 0000 [#1] SMP": "stack segment fault",
        "Oops: int3: 0000 [#1] SMP KASAN NOPTI": "int3",
        "Bad mode in Synchronous Abort handler detected on CPU0, code 0x02": "bad mode",
        "Machine check in kernel mode.": "Machine check",
        "trusty: panic (caller 0xffe000fbd0): DEBUG ASSERT FAILED at (lk/reflist.h:63): a == b": (
            "trusty: ASSERT FAILED: a == b"
        ),
        "trusty: panic (caller 0xffe000fbd0): out of stack": "trusty: panic: out of stack",
        "general protection fault, probably for non-canonical address 0xdead: 0000 [#1] SMP": (
            "general protection fault"
        ),
        "Unable to handle kernel access to user memory outside uaccess routines at": (
            "BUG: unable to handle kernel access to user memory"
        ),
    },
    "panic": {
        "Kernel panic - not syncing: stack-protector: Kernel stack is corrupted in: 8153a1b2": (
            "kernel panic: stack is corrupted"
        ),
        "Kernel panic - not syncing: corrupted stack end detected inside scheduler": (
            "kernel panic: corrupted stack end"
        ),
        "Kernel panic - not syncing: Couldn't open N_TTY ldisc for ptm1 --- error -12.": (
            "kernel panic: Couldn't open N_TTY ldisc"
        ),
        "Kernel panic - ": "kernel panic",
        "Kernel panic - not syncing: kernel: system warned too often (kernel.warn_limit is 1)": (
            "kernel panic: system warned too often"
        ),
        "Kernel panic - not syncing: synchronous external abort: Fatal exception": (
            "kernel panic: Fatal exception"
        ),
        "Kernel panic - not syncing: Oops: Fatal exception in interrupt": (
            "kernel panic: Fatal exception"
        ),
    },
    "program": {"panic: runtime error: index out of range [3]": "go runtime error"},
    "warning": {
        "WARNING: CPU: 0 PID: 1 at mm/usercopy.c:81 usercopy_warn+0xdb/0x100": (
            "WARNING: bad usercopy"
        ),
        "WARNING: CPU: 0 PID: 1 at lib/kobject.c:244 kobject_add_internal+0x3f6/0xbc0": (
            "WARNING: kobject bug"
        ),
        "WARNING: CPU: 0 PID: 1 at fs/proc/generic.c:371 proc_register+0x1/0x2": (
            "WARNING: proc registration bug"
        ),
        "WARNING: CPU: 0 PID: 1 at kernel/locking/lockdep.c:700 __lock_acquire+0x1/0x2": (
            "WARNING: locking bug"
        ),
        "WARNING: CPU: 0 PID: 1 at mm/vmalloc.c:2873 __vmalloc_node_range+0x769/0x970": (
            "WARNING: zero-size vmalloc"
        ),
        "WARNING: CPU: 0 PID: 1 at mm/slab_common.c:9 kmalloc_slab+0x7/0x9": (
            "WARNING: kmalloc bug"
        ),
        "WARNING: CPU: 0 PID: 1 at drivers/usb/core/urb.c:5 usb_submit_urb+0x1/0x2": (
            "WARNING in usb_submit_urb"
        ),
        "WARNING: CPU: 0 PID: 1 at mm/slub.c:1127 object_err+0x9a/0xb0": "WARNING",
        "WARNING: CPU: 0 PID: 1": "WARNING",
        "WARNING: CPU: 0 PID: 1 at ring_add+0x1/0x2": "WARNING in ring_add",
        "WARNING: can't access registers at ring_add+0x1/0x2": "WARNING: can't access registers",
        "WARNING: CPU: 1 PID: 7 at mm/slub.c:4 ring_open+0x1/0x2": "WARNING in ring_open",
        "WARNING: kernel stack regs at ff8 in sh:9 has bad 'bp' value ff9": (
            "WARNING: kernel stack regs has bad 'bp' value"
        ),
        "WARNING: kernel stack frame pointer at ff8 in sh:9 has bad value ff9": (
            "WARNING: kernel stack frame pointer has bad value"
        ),
        "WARNING: stack going in the wrong direction? ip=ring_add+0x1/0x2": (
            "WARNING: stack going in the wrong direction"
        ),
    },
}  # fmt: skip
ALL = [(family, line, title) for family, lines in LINES.items() for line, title in lines.items()]


@pytest.mark.parametrize(("family", "line", "title"), ALL)
@pytest.mark.parametrize(
    "prefix", ["", "[   12.345678] ", "<4>[   12.345678] ", "[   12.345678][  T12] "]
)
def test_each_line(family: str, line: str, title: str, prefix: str) -> None:
    classifier = Classifier(guests.FAMILIES)
    classifier.feed(f"[    0.1] fine\n{prefix}{line}\n[    9.9] fine\n".encode())
    classifier.finish()
    kind = next(each.kind for each in guests.FAMILIES if each.name == family)
    assert [(each.kind, each.title) for each in classifier.findings] == [(kind, title)]


def matches(patterns: Patterns) -> Iterator[tuple[str, Match]]:
    texts = [line for _, line, _ in ALL]
    for path in LOGS.glob("*.log"):
        for raw in path.read_bytes().split(b"\n"):
            texts += [each.text for each in readings(decode(raw))]
    for text in texts:
        match = patterns.match(text.strip())
        if match:
            yield text, match


def test_every_pattern_is_met() -> None:
    met = {id(match.pattern) for _, match in matches(Patterns(guests.FAMILIES))}
    every = [(each.name, p) for each in guests.FAMILIES for p in each.patterns]
    assert [(name, p.regex) for name, p in every if id(p) not in met] == []


def test_every_report_has_a_word_that_the_search_looks_for() -> None:
    patterns = Patterns(guests.FAMILIES)
    for text, _ in matches(patterns):
        assert patterns.triggers(text.encode()), text


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_is_sound(path: Path) -> None:
    lists = {name for each in guests.FAMILIES for name in each.skips}
    family = schema.read(path, Family, name=path.stem)
    assert family.description
    for pattern in family.patterns:
        groups = set(compiled(pattern.regex).groupindex) | {"function"}
        groups |= {name for each in pattern.details for name in compiled(each).groupindex}
        named = {name for _, name, _, _ in Formatter().parse(pattern.title) if name}
        assert named <= groups, pattern
        assert set(pattern.places) <= {"header", "at", "pointer", "trace", "first"}, pattern
        assert pattern.pick in {"first", "stall", "hung"}, pattern
        assert set(pattern.skip) <= lists, pattern
    for words in (*family.skips.values(), family.ignore, family.noise):
        for word in words:
            re.compile(word)


def test_a_family_that_leads_names_families() -> None:
    names = {each.name for each in guests.FAMILIES}
    for family in guests.FAMILIES:
        assert set(family.leads) <= names
