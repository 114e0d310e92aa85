"""A scenario in another size."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import scenariofile
from pipeline.errors import UserError

TEXT = """
title = "mm: x"
tree = "debian:6.12"
guests = ["smp2"]
boots = 5

[guests_on]
aarch64 = ["smp4"]

[[kernels]]
name = "fix"
role = "patched"

[[workloads]]
use = "hackbench"
parameters = { loops = 100, groups = 2 }

[[workloads]]
use = "stress-ng"
label = "stress"

[[scales]]
name = "mail"
boots = 9
guests = ["smp8"]
parameters = { hackbench = { loops = 16000 } }
repeat = { hackbench = 9 }
boots_of = { hackbench = 3 }
guest_of = { fix = "smp1" }
without = ["stress"]

[[scales]]
name = "small"
boots = 2
"""


def load(tmp_path: Path, text: str = TEXT) -> scenariofile.ScenarioFile:
    folder = tmp_path / "sized"
    folder.mkdir()
    (folder / scenariofile.FILE).write_text(text)
    return scenariofile.load(folder)


def test_a_scale_changes_what_it_names(tmp_path: Path) -> None:
    mail = scenariofile.scaled(load(tmp_path), "mail")
    assert (mail.boots, mail.guests, mail.guests_on) == (9, ("smp8",), {})
    (hackbench,) = mail.workloads
    assert hackbench.parameters == {"loops": 16000, "groups": 2}
    assert (hackbench.repeat, hackbench.boots) == (9, 3)
    assert [kernel.guest for kernel in mail.kernels] == ["smp1"]


def test_a_scale_leaves_kernels_out_and_what_compares_them(tmp_path: Path) -> None:
    more = TEXT.replace(
        "[[workloads]]",
        """[[kernels]]
name = "more"
role = "patched"
on = "fix"

[[trials]]
name = "both"
kernels = ["fix", "more"]
metrics = ["hackbench/time"]

[[trials]]
name = "second"
base = "fix"
kernels = ["more"]
metrics = ["hackbench/time"]

[[workloads]]""",
        1,
    )
    found = load(tmp_path, f'{more}without_kernels = ["more"]\n')
    small = scenariofile.scaled(found, "small")
    assert [each.name for each in small.kernels] == ["fix"]
    assert [(each.name, each.kernels) for each in small.trials] == [("both", ("fix",))]


def test_what_it_leaves_out_stays(tmp_path: Path) -> None:
    found = load(tmp_path)
    small = scenariofile.scaled(found, "small")
    assert small.boots == 2
    assert small.guests_on == found.guests_on
    assert [each.parameters or {} for each in small.workloads] == [
        each.parameters or {} for each in found.workloads
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('without = ["stress"]', 'without = ["stres"]', "did you mean stress"),
        ("repeat = { hackbench = 9 }", "repeat = { hackbench = 0 }", "expected 1 or more"),
        ("boots_of = { hackbench", "boots_of = { hackbenc", "did you mean hackbench"),
        ("boots_of = { hackbench = 3", "boots_of = { hackbench = 0", "boots: expected 1 or more"),
        ('without = ["stress"]', 'without_kernels = ["fixx"]', "did you mean fix"),
        (
            'role = "patched"\n',
            'role = "patched"\n[[kernels]]\nname = "more"\nrole = "patched"\non = "fix"\n'
            '[[scales]]\nname = "less"\nwithout_kernels = ["fix"]\n',
            "leave out more too",
        ),
        ("guest_of = { fix", "guest_of = { fixx", "did you mean fix"),
        ('label = "stress"', 'label = "stress"\nrepeat = 0', "expected 1 or more"),
        ('name = "small"', 'name = "Small"', "is no name"),
        ('role = "patched"', 'role = "patched"\nevents = ["grow"]', "label of an event"),
    ],
)
def test_what_is_wrong_is_one_clear_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        load(tmp_path, TEXT.replace(old, new))
    assert message in f"{caught.value.message} {caught.value.hint}"


def test_an_unknown_scale_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        scenariofile.scaled(load(tmp_path), "smal")
    assert "small" in str(caught.value.hint)
