"""What scripts take for granted in a guest, and only udev makes elsewhere."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import TREE, Ktrial

pytestmark = pytest.mark.e2e


def test_a_script_can_name_its_own_streams(ktrial: Ktrial) -> None:
    script = """
        { echo out > /dev/stdout; } | cat
        { echo err > /dev/stderr; } 2>&1 | cat
        echo in | cat /dev/stdin
        echo third > /tmp/third
        cat /dev/fd/3 3< /tmp/third
    """
    ran = ktrial("shell", "--tree", TREE, "--", script)
    assert (ran.exit_code, ran.out) == (0, "out\nerr\nin\nthird\n"), ran.explain()
