from __future__ import annotations

from pathlib import Path

from pipeline import limits

GIB = 1 << 30


def test_memory_is_the_host_s_or_the_container_s(tmp_path: Path) -> None:
    meminfo, own, groups = tmp_path / "meminfo", tmp_path / "cgroup", tmp_path / "fs"
    meminfo.write_text(f"MemTotal: {64 << 20} kB\nMemFree: 1 kB\n")
    own.write_text("4:memory:/a/b\n0::/x/y\n")
    deep, shallow = groups / "memory/a/b", groups / "x"
    for folder in (deep, shallow / "y"):
        folder.mkdir(parents=True)
    assert limits.total_memory(meminfo, groups, own) == 64 * GIB
    (shallow / "y" / "memory.max").write_text("max\n")
    (shallow / "memory.max").write_text(f"{16 * GIB}\n")
    assert limits.total_memory(meminfo, groups, own) == 16 * GIB
    (deep / "memory.limit_in_bytes").write_text(f"{8 * GIB}\n")
    assert limits.total_memory(meminfo, groups, own) == 8 * GIB
    (groups / "memory.max").write_text(f"{4 * GIB}\n")
    assert limits.total_memory(meminfo, groups, own) == 4 * GIB
    assert limits.total_memory(meminfo, tmp_path / "none", tmp_path / "none") == 64 * GIB


def test_something_is_left_to_others(tmp_path: Path) -> None:
    found = limits.of_host(tmp_path)
    total = limits.total_memory()
    assert total // 2 <= found.memory < total
    assert 0 < found.scarce < found.memory
    assert found.processes >= 4096
    assert found.written <= limits.MOST_WRITTEN


def test_sizes_in_words() -> None:
    assert [limits.gigabytes(size) for size in (4 * 10**8, 3 << 30, 18 * 10**9)] == [
        *("0.4 GB", "3.2 GB", "18 GB")
    ]
