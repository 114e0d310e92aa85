"""The text summary: the seed's tables, what is not judged, and what went wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline import figures, summary, tables
from pipeline.model import Better, Build, Outcome, Phase, Run, Sample, Table
from tests import reports, runs
from tests.unit.golden import check_golden


def section(text: str, title: str) -> list[str]:
    """The lines of one table, below its title."""
    lines = text.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(title))
    end = next(n for n, line in enumerate(lines) if n > start and not line)
    return lines[start + 1 : end]


@pytest.mark.parametrize("name", ["good", "broken"])
def test_golden(name: str) -> None:
    run = {"good": reports.good, "broken": reports.broken}[name]()
    check_golden(f"summary-{name}.txt", summary.render(run))


def test_the_order_table_has_only_caches_that_differ() -> None:
    rows = section(summary.render(reports.good()), "Objects per slab")
    assert [row.split() for row in rows] == [
        ["base", "prerequisite", "fix"],
        ["objects", "order"] * 3,
        ["kmalloc-512", "32", "2", "8", "0", "16", "1"],
        ["kmalloc-1k", "32", "3", "8", "1", "16", "2"],
    ]


def test_memory_is_shown_by_phase_with_the_range_over_boots() -> None:
    rows = section(summary.render(reports.good()), "Slab memory (kB)")
    assert rows[1].split() == ["after-boot", "9300", "9100", "9200"]
    assert rows[2].startswith("  during (worst reading)")
    assert "11604 [11348 … 11860]" in rows[2]
    assert rows[3].split() == ["after-drop", "9310", "9110", "9210"]


def test_times_are_marked_as_not_judged() -> None:
    text = summary.render(reports.good())
    assert "hackbench time (s) — not judged" in text
    assert "0.31 [0.3 … 0.32]" in section(text, "hackbench time")[1]
    assert "Times are not judged: one or two boots decide nothing." in text
    assert "Slab memory (kB) — not judged" not in text


def test_a_kernel_that_gave_nothing_has_a_dash_and_does_not_make_rows_differ() -> None:
    run = reports.good()
    boots = tuple(
        replace(boot, samples=()) if boot.boot.kernel == "prerequisite" else boot
        for boot in run.evidence.boots
    )
    text = summary.render(replace(run, evidence=replace(run.evidence, boots=boots)))
    rows = section(text, "Objects per slab")
    assert rows[3].split() == ["kmalloc-1k", "32", "3", "-", "-", "16", "2"]
    assert not any("dentry" in row for row in rows)


def test_no_difference_is_said() -> None:
    made = runs.plan(runs.scenario((runs.BASE, replace(runs.PATCHED, name="fix"))))
    boots = tuple(
        replace(boot, samples=runs.samples("base", "hackbench"))
        for boot in runs.good_evidence(made).boots
    )
    run = runs.run(made, replace(runs.good_evidence(made), boots=boots))
    assert section(summary.render(run), "Objects per slab") == [
        "  no difference between the kernels"
    ]


def test_a_scenario_without_tables_gets_one_for_each_source() -> None:
    run = without_tables(reports.good())
    text = summary.render(run)
    assert section(text, "slab-orders")[2].split()[0] == "kmalloc-512"
    assert section(text, "slab-memory")[1].split()[0] == "after-boot"
    assert section(text, "hackbench — not judged")[1].split()[:2] == ["time", "(s)"]


def without_tables(run: Run) -> Run:
    scenario = replace(run.plan.scenario, tables=())
    return replace(run, plan=replace(run.plan, scenario=scenario))


def test_tables_of_several_phases_and_metrics_name_both() -> None:
    table = Table(
        title="All of it",
        layout="per-phase",
        source="slab-memory",
        phases=(Phase.AFTER_BOOT, Phase.AFTER),
    )
    run = reports.good()
    extra = runs.sample("slab-memory", "MemFree", 5, unit="kB")
    boots = tuple(replace(boot, samples=(*boot.samples, extra)) for boot in run.evidence.boots)
    scenario = replace(run.plan.scenario, tables=(table,))
    run = replace(
        run,
        plan=replace(run.plan, scenario=scenario),
        evidence=replace(run.evidence, boots=boots),
    )
    labels = [row.split("  ")[1] for row in section(summary.render(run), "All of it")[1:]]
    assert labels == ["after-boot: Slab (kB)", "after-boot: MemFree (kB)", "after: Slab (kB)"]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((), "-"),
        ((3.0,), "3"),
        ((2.0, 2.0), "2"),
        ((2.0, 3.0), "2.5 [2 … 3]"),
        ((0.29712, 0.3), "0.2986 [0.2971 … 0.3]"),
        ((9040.0, 9044.0), "9042 [9040 … 9044]"),
        ((12345.678,), "12345.7"),
    ],
)
def test_numbers(values: tuple[float, ...], text: str) -> None:
    assert figures.shown(values) == text


def test_caches_are_in_the_order_of_their_sizes() -> None:
    names = ["kmalloc-8k", "kmalloc-96", "dentry", "kmalloc-8", "kmalloc-1k", "kmalloc-512", ":08"]
    assert sorted(names, key=figures.natural)[-5:] == [
        "kmalloc-8",
        "kmalloc-96",
        "kmalloc-512",
        "kmalloc-1k",
        "kmalloc-8k",
    ]


def verdict_line(run: Run, *, strict: bool = False) -> str:
    return summary.render(run, strict=strict).splitlines()[-2]


def test_the_verdict_line_says_what_the_exit_code_does() -> None:
    assert verdict_line(reports.good()).startswith("verdict: good")
    assert verdict_line(reports.broken()).startswith("verdict: bad")
    nothing = replace(reports.good(), cases=())
    assert verdict_line(nothing).startswith("verdict: none")
    assert "no cases" in summary.render(nothing)


def test_strict_and_cut_show_in_the_verdict_line() -> None:
    run = reports.good()
    unsure = replace(run.cases[-1], outcome=Outcome.INCONCLUSIVE)
    run = replace(run, cases=(*run.cases[:-1], unsure))
    assert verdict_line(run).startswith("verdict: good")
    assert verdict_line(run, strict=True).startswith("verdict: bad")
    assert verdict_line(replace(run, evidence=replace(run.evidence, cut=True))).endswith(
        "cut before its end"
    )


def test_every_case_that_did_not_pass_is_accounted_for() -> None:
    run = reports.with_every_outcome()
    text = summary.render(run)
    for outcome in set(Outcome) - {Outcome.PASSED}:
        assert f"{outcome.value.upper()}: " in text
    assert "\x1b" not in text
    assert "\x00" not in text


def test_a_table_over_all_guests_has_a_column_for_each_of_one_kernel() -> None:
    """The boots of the other kernels are not in it."""
    table = Table(
        title="Slab memory",
        layout="per-phase",
        source="slab-memory",
        metrics=("Slab",),
        kernel="patched",
    )
    scenario = runs.scenario((runs.BASE, runs.PATCHED), guests=("smp64", "smp16of64"))
    made = runs.plan(replace(scenario, tables=(table,)))
    evidence = runs.good_evidence(made)
    values = {("smp64", "patched"): 640.0, ("smp16of64", "patched"): 160.0}

    def sample(guest: str, kernel: str) -> Sample:
        return Sample(
            source="slab-memory",
            phase=Phase.AFTER_BOOT,
            metric="Slab",
            value=values.get((guest, kernel), 9.0),
            unit="kB",
            better=Better.LOWER,
        )

    boots = tuple(
        replace(boot, samples=(sample(boot.boot.cell.guest, boot.boot.kernel),))
        for boot in evidence.boots
    )
    run = replace(reports.good(), plan=made, evidence=replace(evidence, boots=boots))
    lines = [line.split() for line in tables.across(run)]
    assert lines[0][:3] == ["x86_64:", "Slab", "memory,"]
    assert lines[1] == ["smp64", "smp16of64"]
    assert lines[2] == ["Slab", "(kB)", "640", "160"]
    assert (
        "9" not in summary.render(run).split("guests beside each other")[1].split("Each number")[0]
    )


def test_builds_of_two_configurations_are_told_apart() -> None:
    made = runs.plan(runs.scenario(configurations=("plain", "debug")))
    text = summary.render(runs.run(made, runs.good_evidence(made)))
    for target in ("x86_64.plain", "x86_64.debug"):
        assert f"build of fix for {target}: increment on base, 7.2 s, gcc" in text


def test_what_a_reader_of_times_must_know_of_the_configuration() -> None:
    made = runs.plan(runs.scenario())
    evidence = runs.good_evidence(made)
    facts = {"optimisation": "-O2", "NR_CPUS": "64", "preemption": "none"}

    def text(**of: dict[str, str]) -> str:
        builds = {
            key: replace(it, facts=of.get(key[1], facts)) if isinstance(it, Build) else it
            for key, it in evidence.builds.items()
        }
        return summary.render(runs.run(made, replace(evidence, builds=builds)))

    line = "configuration for x86_64: optimisation -O2, NR_CPUS 64, preemption none"
    assert text().count(line) == 1
    other = text(fix=facts | {"preemption": "full"})
    (told,) = (each for each in other.splitlines() if "differs between" in each)
    assert told.startswith("!! preemption differs between the kernels for x86_64: ")
    assert "fix: full" in told
    assert "base: none" in told
