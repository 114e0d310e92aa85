from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pipeline import binding, catalog, plan, scenario, scenariofile, settings
from pipeline.catalog import Catalog
from pipeline.errors import UserError
from pipeline.model import Role, Scenario, Series, TreeSpec, WorkloadRun
from pipeline.scenario import Overrides
from pipeline.scenariofile import Scalar, WorkloadEntry

SHELF = Catalog(data=settings.PACKAGE / "data", share=(settings.shipped_root(),))
HEAD = """
title = "t"
posted = ""
tree = "debian:5.10"
guests = ["smp2"]
"""
KERNELS = """
[[kernels]]
name = "base"
role = "base"
[[kernels]]
name = "fix"
role = "patched"
"""


def bind(use: str, label: str, parameters: Mapping[str, Scalar]) -> WorkloadRun:
    return binding.bind(catalog.pick("workload", use, SHELF.workloads), label, parameters)


def read_files(paths: Sequence[Path], name: str) -> Series:
    return Series(name=name, origin=",".join(path.name for path in paths))


def resolve(folder: Path, version: str = "5.10") -> Scenario:
    return scenario.resolve(
        scenariofile.load(folder),
        tree=TreeSpec(name="debian:5.10"),
        version=version,
        shelf=SHELF,
        native="x86_64",
        read_files=read_files,
        bind=bind,
    )


def write(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "scenario.toml").write_text(text)
    return folder


def test_the_first_scenario_on_its_own_tree() -> None:
    found = resolve(SHELF.scenarios["num_present_cpus"])
    assert [(k.name, k.role, k.on) for k in found.kernels] == [
        ("base", Role.BASE, None),
        ("prerequisite", Role.PREREQUISITE, None),
        ("fix", Role.PATCHED, "prerequisite"),
        ("min-objects-36", Role.PATCHED, None),
        ("revert", Role.PATCHED, "prerequisite"),
    ]
    assert found.variant == ""
    assert found.workloads[0].parameters["loops"] == 100


@pytest.mark.parametrize(
    ("version", "variant"),
    [("5.10.262", ""), ("5.11", "6.12"), ("6.12.1", "6.12"), ("7.3-rc1", "6.12")],
)
def test_a_variant_is_taken_from_its_version_on(version: str, variant: str) -> None:
    found = resolve(SHELF.scenarios["num_present_cpus"], version)
    assert found.variant == variant
    names = [kernel.name for kernel in found.kernels]
    assert names == ["base", "prerequisite", "fix", "min-objects-36", "revert"]
    assert bool(found.notes) == bool(variant)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD, "“kernels” is missing"),
        (HEAD + KERNELS.replace("patched", "base"), "none is on trial"),
        (HEAD + KERNELS.replace('"fix"', '"base"'), "“base” is there twice"),
        (HEAD + KERNELS.replace('"fix"', '"a/b"'), "“a/b” is no name"),
        (HEAD + KERNELS + 'on = "bsae"', "unknown kernel"),
        (HEAD + KERNELS + 'patches = ["none.patch"]', "none.patch is not there"),
        ("boots = 0" + HEAD + KERNELS, "expected 1 or more, not 0"),
        ("gests = 1" + HEAD + KERNELS, "unknown key “gests”"),
        ('probes = ["slab-order"]' + HEAD + KERNELS, "unknown probe “slab-order”"),
        ('image = "benhc"' + HEAD + KERNELS, "unknown image “benhc”"),
        ('kconfigs = ["slub-stat"]' + HEAD + KERNELS, "unknown kconfig fragment “slub-stat”"),
        ('architectures = ["arm46"]' + HEAD + KERNELS, "unknown architecture “arm46”"),
        (HEAD.replace("smp2", "smp3") + KERNELS, "unknown guest “smp3”"),
        (HEAD + KERNELS + '[[workloads]]\nuse = "hakbench"', "unknown workload “hakbench”"),
        (
            HEAD + KERNELS + '[[workloads]]\nuse = "hackbench"\n' * 2,
            "two workloads are called “hackbench”",
        ),
        (
            HEAD + KERNELS + '[[workloads]]\nuse = "hackbench"\nparameters = { loop = 1 }',
            "loop",
        ),
        (
            'image = "minimal"' + HEAD + KERNELS + '[[workloads]]\nuse = "hackbench"',
            "hackbench needs hackbench, which image “minimal” does not have",
        ),
    ],
)
def test_what_is_wrong_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        resolve(write(tmp_path, text))
    assert message in caught.value.message
    assert "\n" not in caught.value.message


def test_the_command_line_goes_before_the_scenario(tmp_path: Path) -> None:
    found = scenario.override(
        resolve(write(tmp_path, HEAD + KERNELS)),
        Overrides(
            architectures=("arm64", "aarch64"),
            guests=("smp4",),
            workloads=(WorkloadEntry(use="hackbench", parameters={"loops": 7}),),
            boots=5,
        ),
        shelf=SHELF,
        bind=bind,
    )
    assert found.architectures == ("aarch64",)
    assert (found.guests, found.boots) == (("smp4",), 5)
    assert found.workloads[0].parameters["loops"] == 7


PATTERNS = """
[[workloads]]
use = "hackbench"
[[workloads]]
use = "boot"
label = "twice"
[[exclude]]
architecture = "aarch64"
guest = "smp4"
[[exclude]]
workload = "twice"
guest = "smp2"
[[include]]
architecture = "aarch64"
guest = "smp1"
[[include]]
architecture = "x86_64"
guest = "smp1"
workload = "twice"
"""


@pytest.mark.parametrize(
    ("wanted", "excluded", "included"),
    [
        (Overrides(), 2, 2),
        (Overrides(architectures=("x86_64",)), 1, 1),
        (Overrides(guests=("smp4",)), 1, 2),
        (Overrides(workloads=(WorkloadEntry(use="hackbench"),)), 1, 1),
    ],
)
def test_patterns_of_what_a_run_leaves_out_are_no_slip(
    tmp_path: Path, wanted: Overrides, excluded: int, included: int
) -> None:
    whole = HEAD.replace('["smp2"]', '["smp2", "smp4"]\narchitectures = ["x86_64", "aarch64"]')
    found = resolve(write(tmp_path, whole + KERNELS + PATTERNS))
    changed = scenario.override(found, wanted, shelf=SHELF, bind=bind)
    assert (len(changed.exclude), len(changed.include)) == (excluded, included)
    assert plan.make(changed).cells


@pytest.mark.parametrize(
    ("table", "message", "hint"),
    [
        ('layout = "per-keys"\nsource = "slab-memory"', "unknown layout", "did you mean per-key?"),
        ('layout = "per-phase"\nsource = "slab-memorx"', "unknown source", "slab-memory?"),
        ('layout = "per-phase"\nsource = "quick"\nkernel = "fx"', "unknown kernel", "fix?"),
        ('layout = "per-key"\nsource = "quick"', "has no columns", "name them"),
    ],
)
def test_a_table_that_can_have_no_number_is_refused(
    tmp_path: Path, table: str, message: str, hint: str
) -> None:
    workloads = '[[workloads]]\nuse = "hackbench"\nlabel = "quick"\n'
    text = f'{HEAD}probes = ["slab-memory"]\n{KERNELS}{workloads}[[tables]]\ntitle = "t"\n{table}\n'
    with pytest.raises(UserError, match=message) as caught:
        scenariofile.load(write(tmp_path, text))
    assert hint in caught.value.hint
