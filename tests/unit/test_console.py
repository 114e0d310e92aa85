"""The console classifier: each family, first causes, and consoles cut and soiled anyhow."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from pipeline.console import Classifier, clean, first_cause, message
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
    assert kinds(findings) == [
        ("oops", "BUG: unable to handle kernel NULL pointer dereference in calculate_order", True)
    ]
    assert findings[0].excerpt.count("\n") == NULL_OOPS.count("\n") - 1
    assert "Fatal exception" in findings[0].excerpt
    assert findings[0].line == 1


def test_arm64() -> None:
    assert kinds(classify(ARM_OOPS)) == [
        ("oops", "BUG: unable to handle kernel paging request in kmem_cache_alloc", True)
    ]


def test_a_warning_that_panics_is_the_cause() -> None:
    text = (
        "[    1.0] WARNING: CPU: 0 PID: 1 at mm/page_alloc.c:5 f+0x1/0x2\n"
        "[    1.0] Kernel panic - not syncing: panic_on_warn set ...\n"
    )
    assert kinds(classify(text)) == [("warning", "WARNING in f", True)]


def test_a_consequence_alone_is_a_report() -> None:
    text = "[    1.0] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100\n"
    assert kinds(classify(text)) == [("panic", "kernel panic: Attempted to kill init!", True)]


def test_a_panic_of_another_cause_is_its_own() -> None:
    quiet = "".join(f"[    2.{n:06}] eth0: link {n}\n" for n in range(20))
    text = (
        "[    1.0] WARNING: CPU: 0 PID: 1 at mm/page_alloc.c:5 f+0x1/0x2\n"
        f"{quiet}[    3.0] Kernel panic - not syncing: Attempted to kill init! exitcode=0x9\n"
    )
    findings = classify(text)
    assert kinds(findings) == [
        ("warning", "WARNING in f", False),
        ("panic", "kernel panic: Attempted to kill init!", True),
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
    assert [(each.title, each.count) for each in findings] == [("WARNING in f", 3)]


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


def test_what_is_known_on_the_way() -> None:
    classifier = Classifier(guests.FAMILIES)
    classifier.feed(b"[    1.0] fine\n[    1.1] Kernel pan")
    assert classifier.findings == ()
    assert classifier.last_line == "[    1.1] Kernel pan"
    classifier.feed(b"ic - not syncing: x\n")
    assert classifier.broken
    assert kinds(classifier.findings) == [("panic", "kernel panic: x", True)]
    classifier.feed(b"\n[    1.2] more\n\n")
    assert classifier.last_line == "[    1.2] more"
    assert classifier.lines == 5


def test_what_a_person_would_see() -> None:
    assert clean("\x1b[1;31mred\x1b[0m\r") == "red"
    assert message("<6>[    1.234567][    T1] hello") == "hello"


def test_a_report_behind_an_unfinished_line() -> None:
    text = "login: [   35.184476][ T6792] BUG: unable to handle page fault for address: 0\n"
    assert kinds(classify(text)) == [("oops", "BUG: unable to handle kernel paging request", True)]


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
    assert [each.title for each in classify(one)] == ["INFO: rcu detected stall", "INFO: task hung"]


def test_after_a_reboot_a_report_is_a_new_one() -> None:
    banner = "[    0.000000] Linux version 6.12.9\n[    0.500000] fine\n"
    text = f"{banner}{NULL_OOPS}[    1.2] Rebooting in 1 seconds..\n"
    assert [each.count for each in classify(text * 3)] == [3]


def test_an_oops_behind_another_is_its_consequence() -> None:
    warning = "[    1.5] WARNING: CPU: 0 PID: 1 at mm/a.c:5 f+0x1/0x2\n"
    assert len(classify(NULL_OOPS + warning + ARM_OOPS)) == 1


def test_the_number_of_different_reports_is_bounded() -> None:
    text = "".join(
        f"[    1.0] WARNING: CPU: 0 PID: 1 at a.c:5 f{n}x+0x1/0x2\n" for n in range(3000)
    )
    assert len(classify(text)) == 1001


def test_a_suite_s_reports_count_again_behind_its_end() -> None:
    kasan = "[    1.0] BUG: KASAN: use-after-free in f+0x1/0x2\n"
    suite = f"[    0.9]     # Subtest: kasan\n{kasan}[    1.1] not ok 3 - kasan\n"
    assert classify(suite) == ()
    assert len(classify(suite + kasan)) == 1
    assert len(classify(f"[    0.9]     # Subtest: other\n{kasan}")) == 1
