"""How far two trees are from each other."""

from __future__ import annotations

import pytest

from pipeline import nearest


def test_same_tree_costs_nothing() -> None:
    assert nearest.cost(()) == 0


@pytest.mark.parametrize(
    ("less", "more"),
    [
        (("Documentation/mm/slub.rst",), ("mm/slub.c",)),
        (("tools/testing/selftests/mm/gup_test.c",), ("mm/slub.c",)),
        (("mm/slub.c",), ("mm/slab.h",)),
        (("mm/slub.c", "mm/page_alloc.c"), ("mm/slab.h",)),
        (("mm/slab.h",), ("include/linux/slab.h",)),
        (("mm/slab.h",), ("arch/x86/include/asm/page.h",)),
        (("mm/slub.c",), ("mm/Kconfig",)),
        (("mm/slub.c",), ("scripts/basic/fixdep.c",)),
    ],
)
def test_what_is_included_more_often_costs_more(
    less: tuple[str, ...], more: tuple[str, ...]
) -> None:
    near, far = nearest.cost(less), nearest.cost(more)
    assert near is not None
    assert far is not None
    assert near < far


def test_another_version_is_too_far() -> None:
    assert nearest.cost(f"include/linux/{number}.h" for number in range(1000)) is None
    assert nearest.cost(f"drivers/{number}.c" for number in range(1000)) == 1000


@pytest.mark.parametrize(
    ("path", "same"),
    [
        ("mm/slub.c", True),
        ("include/linux/slab.h", True),
        ("Documentation/mm/slub.rst", True),
        ("arch/x86/entry/entry_64.S", True),
        ("mm/Kconfig", False),
        ("mm/Kconfig.debug", False),
        ("Makefile", False),
        ("mm/Makefile", False),
        ("scripts/kconfig/conf.c", False),
        ("scripts/rust_is_available_bindgen_libclang.h", False),
        ("arch/powerpc/tools/gcc-check-mprofile-kernel.sh", False),
        ("arch/s390/tools/relocs.c", False),
        ("arch/x86/configs/tiny.config", False),
        ("arch/arm64/configs/defconfig", False),
        ("mm/slub", False),
    ],
)
def test_what_may_change_the_configuration(path: str, same: bool) -> None:
    assert nearest.same_configuration([path]) is same
    assert nearest.same_configuration(["mm/slub.c", path]) is same
    assert nearest.same_configuration([])
