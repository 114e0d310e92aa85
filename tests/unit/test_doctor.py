from __future__ import annotations

from pathlib import Path

from pipeline import checks, doctor, host
from pipeline.checks import Check


def test_a_failing_check_comes_with_what_mends_it() -> None:
    found = (
        Check(name="git", ok=True, found="git version 2.39.5"),
        Check(name="/dev/kvm", ok=None, found="is not there", remedy="modprobe kvm"),
        Check(name="sandbox", ok=False, found="no bwrap", remedy="apt-get install bubblewrap"),
    )
    assert doctor.render(found) == (
        "ok  git       git version 2.39.5\n"
        "--  /dev/kvm  is not there\n"
        "              → modprobe kvm\n"
        "NO  sandbox   no bwrap\n"
        "              → apt-get install bubblewrap\n"
        "\n"
        "to be mended: sandbox (1 marked -- hinders only some runs)\n"
    )


def test_all_is_well() -> None:
    text = doctor.render((Check(name="git", ok=True, found="2.39"),))
    assert text.endswith("\n\nready for a run on this host\n")


def test_disk_and_memory_have_two_limits() -> None:
    cache = Path("/cache")
    assert checks.check_disk(cache, 20 * host.GIB).ok is True
    assert checks.check_disk(cache, 5 * host.GIB).ok is None
    full = checks.check_disk(cache, 1 * host.GIB)
    assert full.ok is False
    assert full.found == "1.0 GiB free for /cache; 3 is the least, 15 is plenty"
    assert "ktrial clean" in full.remedy
    assert checks.check_memory(100 << 20).ok is False
    assert checks.check_memory(8 * host.GIB).ok is True


def test_a_missing_node_is_told_from_one_that_may_not_be_opened(tmp_path: Path) -> None:
    assert "modprobe" in checks.check_kvm(tmp_path / "kvm").remedy
    (tmp_path / "kvm").touch()
    assert checks.check_kvm(tmp_path / "kvm").ok is True
