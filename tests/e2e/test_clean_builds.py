"""Increments of real kernels are, bit for bit, what clean builds of the same source are.

`-m full`: a clean build takes four to five minutes on two cores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from pipeline import verify
from pipeline.scope import Scope
from tests.e2e.conftest import CACHE
from tests.realkernels import ORDER, Ground

NOTE = """// SPDX-License-Identifier: GPL-2.0
#include <linux/init.h>
#include <linux/printk.h>

static int __init ktrial_note(void)
{
	pr_info("a note\\n");
	return 0;
}
late_initcall(ktrial_note);
"""


def one_line(ground: Ground) -> str:
    return ground.replaced("mm/slub.c", ORDER, ORDER.replace("+ 1", "+ 2"))


def a_header(ground: Ground) -> str:
    """An inline function of a header that most of the kernel includes."""
    old = "if (unlikely(check_mul_overflow(n, size, &bytes)))"
    new = "if (unlikely(check_mul_overflow(n, size, &bytes) || n > (1UL << 30)))"
    return ground.replaced("include/linux/slab.h", old, new)


def a_file_with_its_option(ground: Ground) -> str:
    option = '\nconfig KTRIAL_NOTE\n\tbool "A note at boot"\n\tdefault y\n'
    return ground.patched(
        {
            "mm/ktrial_note.c": NOTE,
            "mm/Makefile": ground.text("mm/Makefile")
            + "obj-$(CONFIG_KTRIAL_NOTE) += ktrial_note.o\n",
            "mm/Kconfig": ground.text("mm/Kconfig") + option,
        }
    )


PATCHES: Mapping[str, Callable[[Ground], str]] = {
    "one-line": one_line,
    "header": a_header,
    "new-file": a_file_with_its_option,
}


@pytest.mark.full
@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
@pytest.mark.parametrize("patch", PATCHES)
def test_increment_is_what_a_clean_build_is(tmp_path: Path, arch: str, patch: str) -> None:
    scope = Scope(7200)
    ground = Ground(CACHE, tmp_path, scope)
    ground.base(arch)
    wish = ground.wish(PATCHES[patch](ground), arch=arch)
    with ExitStack() as stack:
        built = ground.make(wish, stack)
        print(f"\n{arch} {patch}: {built.how}, {built.seconds:.1f} s")
        found = verify.verify(
            wish,
            built,
            shelf=ground.shelf,
            settings=ground.settings,
            scope=scope,
            step=ground.step,
        )
    print(f"clean: {found.seconds:.1f} s, differing: {found.differing or 'nothing'}")
    assert found.differing == ()
