"""The console classifier: each family, first causes, and consoles cut and soiled anyhow."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path
from string import Formatter

import pytest

from pipeline import schema
from pipeline.console import Classifier, Family, clean, first_cause, message
from pipeline.model import Finding
from tests import guests

NULL_OOPS = """\
[    1.000000] BUG: kernel NULL pointer dereference, address: 0000000000000010
[    1.000001] #PF: supervisor write access in kernel mode
[    1.000002] Oops: 0002 [#1] SMP
[    1.000003] CPU: 0 PID: 44 Comm: sh Not tainted 5.10.262 #1
[    1.000004] RIP: 0010:calculate_order.part.3+0x11/0x20
[    1.000005] Call Trace:
[    1.000006]  ? panic+0x107/0x295
[    1.000007] ---[ end trace 0123456789abcdef ]---
[    1.000008] Kernel panic - not syncing: Fatal exception
[    1.000009] Kernel Offset: disabled
"""
ARM_OOPS = """\
[    2.000000] Unable to handle kernel paging request at virtual address ffff8000deadbeef
[    2.000001] Mem abort info:
[    2.000002] Internal error: Oops: 0000000096000006 [#1] SMP
[    2.000003] pc : kmem_cache_alloc+0x54/0x1c0
[    2.000004] lr : getname_flags+0x58/0x1f0
[    2.000005] ---[ end trace 0000000000000000 ]---
[    2.000006] Kernel panic - not syncing: Oops: Fatal exception
"""


def classify(text: str | bytes) -> tuple[Finding, ...]:
    classifier = Classifier(guests.FAMILIES)
    classifier.feed(text if isinstance(text, bytes) else text.encode())
    classifier.finish()
    return classifier.findings


def kinds(findings: Sequence[Finding]) -> list[tuple[str, str, bool]]:
    return [(each.kind, each.title, each.fatal) for each in findings]


@pytest.mark.parametrize(
    ("line", "kind", "title", "fatal"),
    [
        ("Kernel panic - not syncing: sysrq triggered crash", "panic", "sysrq triggered crash", 1),
        (
            'Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)',
            "panic",
            "no root file system",
            1,
        ),
        (
            "Kernel panic - not syncing: No working init found.  Try passing init= option",
            "panic",
            "no working init",
            1,
        ),
        ("kernel BUG at mm/slub.c:305!", "oops", "kernel BUG at mm/slub.c", 1),
        ("general protection fault, probably for non-canonical address 0xdead", "oops",
         "general protection fault", 1),
        ("BUG: unable to handle page fault for address: ffffc90000000000", "oops",
         "page fault", 1),
        ("invalid opcode: 0000 [#1] SMP PTI", "oops", "invalid opcode", 1),
        ("BUG: KASAN: use-after-free in vfs_read+0x10/0x20", "bug",
         "KASAN: use-after-free in vfs_read", 0),
        ("BUG kmalloc-64 (Not tainted): Poison overwritten", "bug",
         "slab kmalloc-64: Poison overwritten", 0),
        ("BUG: sleeping function called from invalid context at mm/slab.h:5", "bug",
         "sleeping function called from invalid context", 0),
        ("WARNING: possible circular locking dependency detected", "bug",
         "lockdep: possible circular locking dependency", 0),
        ("WARNING: CPU: 1 PID: 7 at mm/slub.c:4 kmem_cache_open+0x1/0x2", "warning",
         "mm/slub.c in kmem_cache_open", 0),
        ("watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [sh:4]", "hang", "soft lockup", 0),
        ("rcu: INFO: rcu_sched detected stalls on CPUs/tasks:", "hang", "RCU stall", 0),
        ("INFO: task khungtaskd:12 blocked for more than 120 seconds.", "hang",
         "task khungtaskd blocked", 0),
        ("sh invoked oom-killer: gfp_mask=0x100cca", "oom", "out of memory", 0),
    ],
)  # fmt: skip
def test_each_family(line: str, kind: str, title: str, fatal: int) -> None:
    prefixes = ("", "[   12.345678] ", "<4>[   12.345678] ", "[   12.345678][  T12] ")
    for prefix in prefixes:
        assert kinds(classify(f"[    0.1] fine\n{prefix}{line}\n")) == [(kind, title, bool(fatal))]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "[    0.000000] Linux version 5.10.262 (a@b) #1 SMP\n",
        "[    0.000000] Kernel command line: panic=-1 oops=panic rdinit=/init\n",
        "[    1.0] debug: unmapping init memory, no BUG: here\n",
        "[    1.0] systemd[1]: Kernel panic - is what this line speaks of\n",
        "[    1.0] ramoops: using module parameters\n",
        "[    1.0] NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.\n",
        "[    1.0] Spectre V2 : WARNING: Unprivileged eBPF is enabled\n",
        "ktrial: data 1 S2VybmVsIHBhbmlj\n",
    ],
)
def test_what_is_no_fault(text: str) -> None:
    assert classify(text) == ()


def test_a_panic_belongs_to_its_oops() -> None:
    findings = classify(NULL_OOPS)
    assert kinds(findings) == [("oops", "NULL pointer dereference in calculate_order", True)]
    assert findings[0].excerpt.count("\n") == NULL_OOPS.count("\n") - 1
    assert "Fatal exception" in findings[0].excerpt
    assert findings[0].line == 1


def test_arm64() -> None:
    assert kinds(classify(ARM_OOPS)) == [("oops", "paging request in kmem_cache_alloc", True)]


def test_a_warning_that_panics_is_the_cause() -> None:
    text = (
        "[    1.0] WARNING: CPU: 0 PID: 1 at mm/page_alloc.c:5 f+0x1/0x2\n"
        "[    1.0] Kernel panic - not syncing: panic_on_warn set ...\n"
    )
    assert kinds(classify(text)) == [("warning", "mm/page_alloc.c in f", True)]


def test_a_consequence_alone_is_a_report() -> None:
    text = "[    1.0] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100\n"
    assert kinds(classify(text)) == [("panic", "Attempted to kill init!", True)]


def test_a_panic_long_after_a_warning_is_its_own() -> None:
    quiet = "".join(f"[    2.{n:06}] eth0: link {n}\n" for n in range(200))
    text = (
        "[    1.0] WARNING: CPU: 0 PID: 1 at mm/page_alloc.c:5 f+0x1/0x2\n"
        f"{quiet}[    3.0] Kernel panic - not syncing: Attempted to kill init! exitcode=0x9\n"
    )
    findings = classify(text)
    assert kinds(findings) == [
        ("warning", "mm/page_alloc.c in f", False),
        ("panic", "Attempted to kill init!", True),
    ]
    cause = first_cause(findings)
    assert cause is not None
    assert cause.kind == "panic"


def test_the_same_warning_is_counted() -> None:
    warning = (
        "[    1.0] WARNING: CPU: 0 PID: 1 at mm/a.c:5 f+0x1/0x2\n"
        "[    1.0] ---[ end trace 0123456789abcdef ]---\n"
    )
    findings = classify(warning * 3)
    assert [(each.title, each.count) for each in findings] == [("mm/a.c in f", 3)]


def test_titles_do_not_differ_from_boot_to_boot() -> None:
    first = classify("[    1.0] Kernel panic - not syncing: bad thing at ffff888012345678\n")
    second = classify("[    1.0] Kernel panic - not syncing: bad thing at ffff888087654321\n")
    assert kinds(first) == kinds(second)


@pytest.mark.parametrize("text", [NULL_OOPS, ARM_OOPS])
def test_cut_anywhere_it_reads_the_same(text: str) -> None:
    data = text.encode()
    whole = classify(data)
    rng = random.Random(1)
    for _ in range(50):
        classifier = Classifier(guests.FAMILIES)
        cuts = sorted(rng.sample(range(len(data)), 20))
        for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            classifier.feed(data[start:end])
        classifier.finish()
        assert classifier.findings == whole


def test_soiled_consoles_read_the_same() -> None:
    dirty = NULL_OOPS.replace("\n", "\r\n").replace("Oops", "\x1b[31mOops\x1b[0m")
    data = b"\xff\xfe\0\0" + dirty.encode().replace(b"BUG", b"\0BUG") + b"\xc3\n"
    assert kinds(classify(data)) == kinds(classify(NULL_OOPS))


def test_random_bytes_do_no_harm() -> None:
    rng = random.Random(2)
    for _ in range(20):
        classify(rng.randbytes(20000))


def test_a_line_without_end_is_not_kept_for_ever() -> None:
    classifier = Classifier(guests.FAMILIES)
    for _ in range(100):
        classifier.feed(b"x" * 1000)
    classifier.feed(b"\n[    1.0] Kernel panic - not syncing: late\n")
    assert classifier.broken


def test_feed_tells_what_is_new() -> None:
    classifier = Classifier(guests.FAMILIES)
    assert classifier.feed(b"[    1.0] fine\n[    1.1] Kernel pan") == []
    assert [each.kind for each in classifier.feed(b"ic - not syncing: x\n")] == ["panic"]
    assert classifier.feed(b"[    1.2] more\n") == []
    assert classifier.last_line == "[    1.2] more"


def test_what_a_person_would_see() -> None:
    assert clean("\x1b[1;31mred\x1b[0m\r") == "red"
    assert message("<6>[    1.234567][    T1] hello") == "hello"


def test_a_report_behind_an_unfinished_line() -> None:
    text = "login: [   35.184476][ T6792] BUG: unable to handle page fault for address: 0\n"
    assert kinds(classify(text)) == [("oops", "page fault", True)]


@pytest.mark.parametrize(
    "path", sorted((guests.DATA / "console").glob("*.toml")), ids=lambda path: path.stem
)
def test_every_pattern_compiles_and_names_its_groups(path: Path) -> None:
    family = schema.read(path, Family, name=path.stem)
    for pattern in family.patterns:
        groups = re.compile(pattern.regex).groupindex
        named = {name for _, name, _, _ in Formatter().parse(pattern.title) if name}
        assert named <= groups.keys(), pattern
    for where in family.where:
        assert "where" in re.compile(where).groupindex


STALLS = """\
[   21.000000] rcu: INFO: rcu_sched self-detected stall on CPU
[   21.000001] RIP: 0010:{function}+0x11/0x20
[   21.000002] ---[ end trace 0123456789abcdef ]---
[   99.000000] INFO: task {task} blocked for more than 120 seconds.
"""


def test_a_stall_is_the_same_wherever_it_is_found() -> None:
    one = STALLS.format(function="vprintk_emit", task="kworker/u4:1:33")
    other = STALLS.format(function="memset_erms", task="kworker/0:2:7")
    assert kinds(classify(one)) == kinds(classify(other))
    assert [each.title for each in classify(one)] == ["RCU stall", "task kworker blocked"]
