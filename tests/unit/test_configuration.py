"""What a configuration means to those who read times, and which version a tree has."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.configuration import facts, kernel_version

PLAIN = """\
CONFIG_CC_OPTIMIZE_FOR_PERFORMANCE=y
# CONFIG_CC_OPTIMIZE_FOR_SIZE is not set
# CONFIG_MEMCG is not set
CONFIG_SMP=y
CONFIG_NR_CPUS=128
CONFIG_PREEMPT_NONE_BUILD=y
CONFIG_PREEMPT_NONE=y
# CONFIG_PREEMPT is not set
CONFIG_HZ=250
"""


def test_facts_of_a_plain_configuration() -> None:
    assert facts(PLAIN) == {
        "optimisation": "-O2",
        "memcg": "off",
        "NR_CPUS": "128",
        "preemption": "none",
        "timer": "250 Hz",
    }


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("CONFIG_CC_OPTIMIZE_FOR_SIZE=y", "optimisation", "-Os"),
        ("CONFIG_MEMCG=y\n# CONFIG_MEMCG_V1 is not set", "memcg", "on"),
        ("CONFIG_MEMCG=y\nCONFIG_MEMCG_KMEM=y", "memcg", "on"),
        ("CONFIG_MEMCG=y", "memcg", "on, not of kernel memory"),
        ("# CONFIG_SMP is not set\nCONFIG_NR_CPUS=1", "NR_CPUS", "1 (no SMP)"),
        ("CONFIG_PREEMPT_VOLUNTARY=y", "preemption", "voluntary"),
        ("CONFIG_PREEMPT_BUILD=y\nCONFIG_PREEMPT=y", "preemption", "full"),
        ("CONFIG_PREEMPT_RT=y", "preemption", "real-time"),
        ("CONFIG_PREEMPT_LAZY=y", "preemption", "lazy"),
        (
            "CONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_PREEMPT_DYNAMIC=y",
            "preemption",
            "voluntary, to be changed at boot (PREEMPT_DYNAMIC)",
        ),
        ("CONFIG_KASAN=y\nCONFIG_LOCKDEP=y", "debugging", "KASAN, lockdep"),
    ],
)
def test_facts(text: str, name: str, expected: str) -> None:
    assert facts(f"{text}\n")[name] == expected


def test_the_version_is_read_from_the_tree_itself(tmp_path: Path) -> None:
    assert kernel_version(tmp_path) == ""
    text = "# SPDX-License-Identifier: GPL-2.0\nVERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\n"
    (tmp_path / "Makefile").write_text(text)
    assert kernel_version(tmp_path) == "6.12"
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "Makefile").symlink_to("../Makefile")
    assert kernel_version(inside) == ""
