"""Every data file reads, says what it is, and is named in a document."""

from __future__ import annotations

import dataclasses
import itertools
import re
import typing
from enum import Enum
from pathlib import Path

import pytest

from pipeline import consolepatterns, inventory, metrics, scenariofile, settings
from pipeline.catalog import Catalog, pick
from pipeline.errors import UserError
from pipeline.model import (
    Action,
    Architecture,
    Better,
    Calibration,
    CellPattern,
    CheckSpec,
    Event,
    Expected,
    GuestShape,
    ImageRecipe,
    NumaCell,
    Parameter,
    Phase,
    ProbeSpec,
    Reading,
    Role,
    Table,
    Toolchain,
    TreePrograms,
    Trial,
    Value,
    WorkloadSpec,
)

ROOT = settings.shipped_root()
SHELF = Catalog(data=settings.PACKAGE / "data", share=(ROOT,))
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "kind",
    [
        "architectures",
        "toolchains",
        "workloads",
        "probes",
        "checks",
        "guests",
        "images",
        "fragments",
        "scenarios",
    ],
)
def test_every_data_file_is_named_in_the_readme(kind: str) -> None:
    names = list(getattr(SHELF, kind))
    assert names
    missing = [name for name in names if f"`{name}`" not in README]
    assert not missing, f"{kind} that README.md does not mention: {missing}"


def test_every_data_file_says_what_it_is() -> None:
    silent = [entry for entry in inventory.collect(SHELF) if not entry.text.strip()]
    assert not silent


def test_every_scenario_reads() -> None:
    for folder in SHELF.scenarios.values():
        assert scenariofile.load(folder).title


def specs() -> list[WorkloadSpec | ProbeSpec]:
    return [*SHELF.workloads.values(), *SHELF.probes.values()]


def test_every_reading_is_sound() -> None:
    for spec in specs():
        assert not metrics.check(spec.readings), spec.name


def test_every_need_and_fragment_that_is_named_exists() -> None:
    programs = {name for image in SHELF.images.values() for name in image.programs}
    for spec in specs():
        assert set(spec.needs) <= programs, spec.name
    for probe in SHELF.probes.values():
        assert set(probe.kconfigs) <= set(SHELF.fragments), probe.name
    for architecture in SHELF.architectures.values():
        assert set(architecture.fragments) <= set(SHELF.fragments), architecture.name


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("", "either “make” or “script” is needed"),
        ('make = ["W=1"]\nscript = ["scripts/x"]', "either “make” or “script” is needed"),
        ('script = ["scripts/x"]', "message: no group file, line, text"),
        ('script = ["scripts/x"]\nmessage = "("', "message: "),
    ],
)
def test_check_that_cannot_work_is_refused(tmp_path: Path, keys: str, words: str) -> None:
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks/mine.toml").write_text(f'description = "mine"\n{keys}\n')
    with pytest.raises(UserError, match=re.escape(words)):
        _ = Catalog(data=settings.PACKAGE / "data", share=(tmp_path, ROOT)).checks


def test_a_users_file_wins_over_a_shipped_one(tmp_path: Path) -> None:
    mine = tmp_path / "vm_images" / "guests"
    mine.mkdir(parents=True)
    text = 'description = "mine"\nvcpus = 3\nmax_vcpus = 3\nmemory = 300\n'
    (mine / "smp2.toml").write_text(text)
    shelf = Catalog(data=settings.PACKAGE / "data", share=(tmp_path, ROOT))
    assert shelf.guests["smp2"].vcpus == 3
    assert "smp4" in shelf.guests


def test_architectures_go_by_their_other_names_too() -> None:
    assert SHELF.architecture("arm64").name == "aarch64"
    assert SHELF.architecture("amd64").name == "x86_64"
    with pytest.raises(UserError) as caught:
        SHELF.architecture("aarch46")
    assert caught.value.hint == "did you mean aarch64?"


def test_pick_tells_what_there_is() -> None:
    with pytest.raises(UserError) as caught:
        pick("guest", "zzz", {"smp1": 1})
    assert caught.value.hint == "known: smp1"


def test_a_randconfig_takes_a_seed() -> None:
    assert pick("kconfig fragment", "randconfig@42", SHELF.fragments).seed == 42
    assert SHELF.fragments["randconfig"].seed == 1
    with pytest.raises(UserError) as caught:
        pick("kconfig fragment", "randconfg@42", SHELF.fragments)
    assert "did you mean randconfig" in caught.value.hint
    with pytest.raises(UserError, match="a seed is a number, of a fragment that starts from rand"):
        pick("kconfig fragment", "kasan@42", SHELF.fragments)


def test_the_list_has_every_kind_and_refuses_others() -> None:
    text = inventory.render(inventory.collect(SHELF))
    for word in (
        "num_present_cpus",
        "hackbench",
        "slab-orders",
        "smp2of8",
        "bench",
        "debian:5.10",
        "loops:",
    ):
        assert word in text
    assert "hackbench" not in inventory.render(inventory.collect(SHELF), "guests")
    with pytest.raises(UserError) as caught:
        inventory.render(inventory.collect(SHELF), "guest")
    assert caught.value.hint == "did you mean guests?"


def example(start: str) -> str:
    """The indented block of ARCHITECTURE.md that starts so."""
    lines = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()
    first = lines.index(f"    {start}")
    block = itertools.takewhile(lambda line: not line or line.startswith("    "), lines[first:])
    return "\n".join(line[4:] for line in block)


def test_the_examples_for_data_files_are_valid(tmp_path: Path) -> None:
    folders = {
        "workloads/score.toml": 'description = "counts something"',
        "vm_images/guests/smp3.toml": 'description = "three CPUs"',
        "kconfigs/thp.config": "# ktrial: transparent huge pages",
        "patches/mine/scenario.toml": 'title = "mm: my change"',
    }
    for name, start in folders.items():
        (tmp_path / name).parent.mkdir(parents=True)
        text = example(start)
        if name.startswith("kconfigs"):
            text = "\n".join(text.splitlines()[:2])
        (tmp_path / name).write_text(text)
    shelf = Catalog(data=settings.PACKAGE / "data", share=(tmp_path, ROOT))
    assert shelf.workloads["score"].readings
    assert shelf.guests["smp3"].vcpus == 3
    assert shelf.fragments["thp"].symbols == {"CONFIG_TRANSPARENT_HUGEPAGE": "y"}
    assert [kernel.name for kernel in scenariofile.load(tmp_path / "patches" / "mine").kernels] == [
        "base",
        "fix",
    ]


# Each row of the table of keys in ARCHITECTURE.md, and what the program itself fills in.
KEYS: dict[str, tuple[type, set[str]]] = {
    "scenario": (scenariofile.ScenarioFile, {"folder"}),
    "scenario, kernels": (scenariofile.KernelEntry, set()),
    "scenario, expected": (Expected, set()),
    "scenario, trials": (Trial, set()),
    "workload, programs": (TreePrograms, set()),
    "scenario, workloads": (scenariofile.WorkloadEntry, set()),
    "scenario, scales": (scenariofile.Scale, set()),
    "scenario, variants": (scenariofile.Variant, set()),
    "scenario, events": (Event, set()),
    "scenario, include, exclude": (CellPattern, set()),
    "scenario, tables": (Table, set()),
    "guest shape": (GuestShape, {"name"}),
    "guest shape, numa": (NumaCell, set()),
    "image": (ImageRecipe, {"name", "folder"}),
    "architecture": (Architecture, {"name"}),
    "architecture, calibration": (Calibration, set()),
    "toolchain": (Toolchain, {"name"}),
    "workload": (WorkloadSpec, {"name"}),
    "workload, parameters": (Parameter, set()),
    "probe": (ProbeSpec, {"name"}),
    "check": (CheckSpec, {"name"}),
    "workload and probe, readings": (Reading, set()),
    "workload and probe, values": (Value, set()),
    "console family": (consolepatterns.Family, {"name"}),
    "console family, patterns": (consolepatterns.Pattern, set()),
    "console family, signs": (consolepatterns.Sign, set()),
}


def documented() -> dict[str, str]:
    """The rows of ARCHITECTURE.md's table of keys, without what stands in brackets."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    lines = text[text.index("| File, table |") :].splitlines()[2:]
    cells = [
        line.split("|")[1:3] for line in itertools.takewhile(lambda x: x.startswith("|"), lines)
    ]
    plain = [[re.sub(r"\([^()]*\)", "", cell) for cell in row] for row in cells]
    return {name.replace("`", "").strip(): keys for name, keys in plain}


def names_in(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def test_the_table_of_keys_has_every_record() -> None:
    assert documented().keys() == KEYS.keys()


@pytest.mark.parametrize("row", KEYS)
def test_every_key_of_a_data_file_is_documented(row: str) -> None:
    record, filled = KEYS[row]
    fields = {each.name: each for each in dataclasses.fields(record) if each.name not in filled}
    missing = dataclasses.MISSING
    must = {
        name
        for name, field in fields.items()
        if field.default is missing and field.default_factory is missing
    }
    required, _, optional = documented()[row].partition("then ")
    assert names_in(required) == must
    assert names_in(optional) == fields.keys() - must


def test_every_table_of_a_data_file_is_a_row_of_its_own() -> None:
    """A record within a record has keys too."""
    inside = {
        each
        for record, _ in KEYS.values()
        for hint in typing.get_type_hints(record).values()
        for each in (hint, *typing.get_args(hint))
        if dataclasses.is_dataclass(each)
    }
    assert inside <= {record for record, _ in KEYS.values()}


@pytest.mark.parametrize("kind", [Action, Phase, Better, Role])
def test_every_word_that_a_key_may_have_is_documented(kind: type[Enum]) -> None:
    text = README + (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert not [each.value for each in kind if str(each.value) not in text]
