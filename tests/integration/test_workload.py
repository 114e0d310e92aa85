"""The steps' shell commands, run by the shell that the guest has: busybox's."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import pipeline
from pipeline import binding, metrics, process, schema, workload
from pipeline.model import Output, Phase, ProbeSpec, WorkloadRun, WorkloadSpec
from pipeline.scope import Scope

DATA = Path(pipeline.__file__).parent / "data"
BUSYBOX = shutil.which("busybox")
SHELLS = [pytest.param(("sh",), id="sh")]
if BUSYBOX:
    SHELLS.append(pytest.param((BUSYBOX, "sh"), id="busybox"))


def memory(phases: tuple[Phase, ...] = (Phase.DURING,), command: str = "") -> ProbeSpec:
    made = schema.read(DATA / "probes/slab-memory.toml", ProbeSpec, name="slab-memory")
    return replace(made, phases=phases, command=command or made.command)


def work(command: str) -> WorkloadRun:
    spec = WorkloadSpec(
        name="work",
        description="",
        command=command,
        parameters=(),
        needs=(),
        deadline=30.0,
        readings=(),
    )
    return binding.bind(spec, "work", {})


def run(
    shell: tuple[str, ...], command: str, scope: Scope, env: Mapping[str, str] | None = None
) -> process.Completed:
    return process.run((*shell, "-c", command), scope=scope.child(30), env=env, merge_stderr=False)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("seconds", "fewest"), [("0", 1), ("2.2", 3)])
def test_readings_are_taken_while_the_workload_runs(
    shell: tuple[str, ...], seconds: str, fewest: int, tmp_path: Path, scope: Scope
) -> None:
    """… even under a workload that is over at once, and the workload's own output is clean."""
    steps = workload.steps(
        work(f"echo out; sleep {seconds}; (exit 3)"), (memory(),), folder=str(tmp_path)
    )
    done = run(shell, steps[1].command, scope)
    assert done.text == "out\n"
    assert done.exit_code == 3
    handed_over = run(shell, steps[2].command, scope)
    assert handed_over.text.count(metrics.end_of_reading("0")) >= fewest
    output = Output(
        source="slab-memory",
        phase=Phase.DURING,
        exit_status=handed_over.exit_code,
        text=handed_over.text,
        seconds=0.0,
    )
    samples, problems = metrics.read(memory().readings, output)
    assert problems == ()
    assert {sample.metric for sample in samples} >= {"Slab", "MemFree", "MemTotal"}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_pause_between_readings_is_not_waited_for(
    shell: tuple[str, ...], tmp_path: Path, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "DURING_SECONDS", 25.0)
    (_, step, *_) = workload.steps(work("sleep 1"), (memory(),), folder=str(tmp_path))
    started = time.monotonic()
    assert run(shell, step.command, scope).ok
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("shell", SHELLS)
def test_readings_of_a_former_workload_do_not_count(
    shell: tuple[str, ...], tmp_path: Path, scope: Scope
) -> None:
    for number in (1, 2):
        probe = memory(command=f"echo reading {number}")
        steps = workload.steps(work("true"), (probe,), folder=str(tmp_path))
        assert run(shell, steps[1].command, scope).ok
    text = run(shell, steps[2].command, scope).text
    assert "reading 2" in text
    assert "reading 1" not in text


@pytest.mark.parametrize("shell", SHELLS)
def test_a_probe_that_fails_or_exits_does_not_hurt_the_workload(
    shell: tuple[str, ...], tmp_path: Path, scope: Scope
) -> None:
    steps = workload.steps(work("true"), (memory(command="exit 7"),), folder=str(tmp_path))
    assert run(shell, steps[1].command, scope).ok
    assert metrics.end_of_reading("7") in run(shell, steps[2].command, scope).text


# --------------------------------------------------------------------------- slab-orders


def slab_folder(
    root: Path, caches: Mapping[str, tuple[int, int]], names: Mapping[str, str]
) -> None:
    for cache, (objects, order) in caches.items():
        (root / cache).mkdir(parents=True)
        (root / cache / "objs_per_slab").write_text(f"{objects}\n")
        (root / cache / "order").write_text(f"{order}\n")
    for name, cache in names.items():
        (root / name).symlink_to(cache)


def slab_orders(root: Path) -> str:
    probe = schema.read(DATA / "probes/slab-orders.toml", ProbeSpec, name="slab-orders")
    return probe.command.replace("/sys/kernel/slab/", f"{root}/")


@pytest.fixture(params=["host", "busybox"])
def tools(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[tuple[str, ...], dict[str, str]]:
    """A shell and a PATH: the host's own, and one with nothing but busybox, as in the guest."""
    if request.param == "host":
        return ("sh",), {"PATH": "/usr/bin:/bin"}
    if not BUSYBOX:
        pytest.skip("no busybox on this host")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("ls", "awk"):
        (folder / name).symlink_to(BUSYBOX)
    return (BUSYBOX, "sh"), {"PATH": str(folder)}


def test_slab_orders_name_each_cache_once(
    tools: tuple[tuple[str, ...], dict[str, str]], tmp_path: Path, scope: Scope
) -> None:
    slab = tmp_path / "slab"
    slab_folder(
        slab,
        {
            ":0001024": (16, 2),
            ":a-0000104": (39, 0),
            ":0000064": (64, 0),
            ":0000008": (512, 0),
            "task_struct": (12, 3),
            "kmalloc-8k": (4, 3),
        },
        {
            "biovec-64": ":0001024",
            "kmalloc-1k": ":0001024",
            "sgpool-32": ":0001024",
            "ext4_x": ":a-0000104",
            "buffer_head": ":a-0000104",
            "kmalloc-64": ":0000064",
            "kmalloc-cg-64": ":0000064",
        },
    )
    shell, env = tools
    done = run(shell, slab_orders(slab), scope, env)
    assert done.exit_code == 0
    assert sorted(done.text.splitlines()) == [
        ":0000008 512 0",
        "buffer_head 39 0 = ext4_x",
        "kmalloc-1k 16 2 = biovec-64 sgpool-32",
        "kmalloc-64 64 0 = kmalloc-cg-64",
        "kmalloc-8k 4 3",
        "kmalloc-cg-64 64 0",
        "task_struct 12 3",
    ]


@pytest.mark.parametrize("kind", ["no folder", "empty", "unreadable"])
def test_slab_orders_fail_where_there_is_nothing_to_read(
    kind: str, tools: tuple[tuple[str, ...], dict[str, str]], tmp_path: Path, scope: Scope
) -> None:
    slab = tmp_path / "slab"
    if kind != "no folder":
        slab.mkdir()
    if kind == "unreadable":
        slab_folder(slab, {"task_struct": (12, 3)}, {})
        (slab / "task_struct" / "order").unlink()
    shell, env = tools
    assert run(shell, slab_orders(slab), scope, env).exit_code != 0


@pytest.mark.skipif(
    not Path("/sys/kernel/slab/kmalloc-64").exists(), reason="this host's kernel shows no slabs"
)
def test_slab_orders_of_this_host(
    tools: tuple[tuple[str, ...], dict[str, str]], scope: Scope
) -> None:
    probe = schema.read(DATA / "probes/slab-orders.toml", ProbeSpec, name="slab-orders")
    shell, env = tools
    done = run(shell, probe.command, scope, env)
    output = Output(
        source="slab-orders",
        phase=Phase.AFTER_BOOT,
        exit_status=done.exit_code,
        text=done.text,
        seconds=0.0,
    )
    samples, problems = metrics.read(probe.readings, output)
    assert problems == ()
    found = {sample.metric for sample in samples}
    names = [path.name for path in Path("/sys/kernel/slab").glob("kmalloc-*")]
    assert names
    assert found >= {f"{name}.order" for name in names}
    assert found >= {f"{name}.objects" for name in names}
