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
