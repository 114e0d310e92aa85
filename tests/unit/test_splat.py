"""The function at fault: machinery skipped, unreliable frames left out, every architecture."""

from __future__ import annotations

import pytest

from pipeline.splat import Search, Skips, function_at_fault, plain, top_frames

SKIPS = Skips(
    {
        "machinery": ["^dump_stack", "memcpy", "^report_"],
        "extra": ["^alloc_"],
        "dispatch": ["^do_syscall", "^process_one_work"],
        "stall": ["^tick_", "apic_timer"],
        "waiting": ["sched", "_lock"],
    }
)


def found(text: str, *places: str, header: str = "", pick: str = "first") -> str:
    search = Search(places=places, skip=("extra",), pick=pick)
    return function_at_fault(search, header, lambda: iter(text.splitlines()), SKIPS)


@pytest.mark.parametrize(
    "line",
    [
        "RIP: 0010:ring_add+0x12/0x40",
        "RIP: 0010:[<ffffffff82a41b3c>]  [<ffffffff82a41b3c>] ring_add+0x4c/0x1f0",
        "IP: [<ffffffff82d4e304>] ring_add+0x24/0x30",
        "IP: ring_add include/linux/ring.h:405 [inline]",
        "EIP: ring_add+0x12/0x40",
        "pc : ring_add+0x12/0x40 [ring]",
        "PC is at ring_add+0x12/0x40",
        "epc : ring_add+0x12/0x40",
        "NIP [c0000000003d6a10] ring_add+0x90/0x200",
        "Krnl PSW : 0704c00180000000 000003ff7fc1a1b2 (ring_add+0x1a/0x60)",
        "--- interrupt: 700 at ring_add+0x1a/0x60",
    ],
)
def test_instruction_pointers(line: str) -> None:
    assert found(f"header\n{line}\nCall Trace:\n other+0x1/0x2", "pointer") == "ring_add"


@pytest.mark.parametrize(
    "line",
    [
        " ring_add+0x12/0x40",
        "\tring_add+0x12/0x40",
        " ring_add.isra.0.part.1+0x12/0x40 [ring]",
        " ring_add+0x12/0x40 drivers/misc/ring.c:71",
        " ring_add drivers/misc/ring.c:71 [inline]",
        " [<ffffffff81c01b4c>] ring_add+0x80/0xb4",
        "[<ffffffe0002d9a1c>] ring_add+0x4e/0x2a0",
        "[c00000000a1b3ac0] [c0000000003d7000] ring_add+0x40/0x60",
        " [<000003ff7fc1a1b2>] ring_add+0x1a/0x60",
        " <IRQ>  [<ffffffff81c01b4c>] ring_add+0x80/0xb4",
        "[<8028bd5c>] (ring_add) from [<80132060>] (copy_process.part.3+0x58c/0x1844)",
        " ring_add from ring_open+0x58c/0x1844",
    ],
)
def test_frames(line: str) -> None:
    doubtful = " ? stale+0x1/0x2\n [c000] [c000] old+0x1/0x2 (unreliable)"
    text = f"header\nCall Trace:\n dump_stack+0x1/0x2\n{doubtful}\n{line}\n last+0x1/0x2"
    assert found(text, "trace") == "ring_add"


def test_a_user_s_pointer_is_none() -> None:
    assert found("header\nRIP: 0033:0x445db9\n", "pointer") == ""


def test_the_header_is_tried_first_and_may_be_machinery() -> None:
    trace = "header\nCall Trace:\n memcpy+0x1/0x2\n alloc_ring+0x1/0x2\n ring_add+0x1/0x2"
    assert found(trace, "header", "trace", header="ring_get") == "ring_get"
    assert found(trace, "header", "trace", header="memcpy") == "ring_add"
    assert found("header", "header", "trace", header="memcpy") == "memcpy"


def test_other_moments_stacks_are_not_searched() -> None:
    text = "header\nCall Trace:\n memcpy+0x1/0x2\nAllocated by task 7:\n ring_new+0x1/0x2"
    assert found(text, "trace") == ""
    assert top_frames(lambda: iter(text.splitlines()), SKIPS) == ()


def test_a_stall_is_named_below_its_dispatcher() -> None:
    text = (
        "header\nRIP: 0010:spin+0x1/0x2\nCall Trace:\n <IRQ>\n tick_it+0x1/0x2\n"
        " asm_sysvec_apic_timer_interrupt+0x1/0x2\n </IRQ>\nRIP: 0010:{top}+0x1/0x2\n"
        " ring_drain+0x1/0x2\n __x64_sys_ring+0x1/0x2\n do_syscall_64+0x1/0x2"
    )
    names = {found(text.format(top=top), "pointer", pick="stall") for top in ("a", "b")}
    assert names == {"sys_ring"}
    alone = "header\nRIP: 0010:work+0x1/0x2\nCall Trace:\n process_one_work+0x1/0x2"
    assert found(alone, "pointer", pick="stall") == "work"
    assert found("header\nRIP: 0010:work+0x1/0x2", "pointer", pick="stall") == ""


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        ("synchronize_rcu_expedited", "synchronize_rcu"),
        ("rtnl_lock", "rtnl_lock"),
        ("ring_enter", "ring_enter"),
    ],
)
def test_a_hung_task_is_named_by_what_it_waits_for(frame: str, name: str) -> None:
    text = f"header\nCall Trace:\n __schedule+0x1/0x2\n {frame}+0x1/0x2\n ring_open+0x1/0x2"
    assert found(text, "trace", pick="hung") == name


def test_clones_have_their_function_s_name() -> None:
    assert plain("ring_add.constprop.0.cold") == "ring_add"
    assert plain("ring_add.llvm.123") == "ring_add"
    assert plain("ring_add") == "ring_add"
