"""The launcher on a miniature project whose installation needs no network.

The packages that this host has are real; missing ones are made by giving the launcher, in a
bubblewrap sandbox, a dpkg status file from which some were taken out, and another
distribution by giving it another os: nothing is ever installed with apt here.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STATUS = Path("/var/lib/dpkg/status")

pytestmark = [
    pytest.mark.skipif(not (ROOT / "ktrial").exists(), reason="not a checkout"),
    pytest.mark.skipif(not STATUS.exists(), reason="needs Debian's dpkg"),
]

PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""

# Makes an editable wheel by hand; as slow as the test wants it.
BACKEND = """
import os, pathlib, time, zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    here = pathlib.Path(__file__).parent
    with open(here / "installs", "a") as log:
        log.write("x")
    if (here / "slow").exists():
        time.sleep(60)
    if (here / "broken").exists():
        raise SystemExit("the package is broken")
    name = "mini-1-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as wheel:
        wheel.writestr("mini.pth", str(here))
        wheel.writestr("mini-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: mini\\nVersion: 1\\n")
        wheel.writestr("mini-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("mini-1.dist-info/RECORD", "mini.pth,,\\nmini-1.dist-info/METADATA,,\\nmini-1.dist-info/WHEEL,,\\nmini-1.dist-info/RECORD,,\\n")
    return name
"""  # noqa: E501

MAIN = """
import os, sys
print("main", *sys.argv[1:], "in", os.getcwd())
sys.exit(7)
"""


class Project:
    def __init__(self, root: Path) -> None:
        self.root = root / "pro ject"
        self.cache = root / "cache"
        data = self.root / "pipeline" / "data"
        data.mkdir(parents=True)
        shutil.copy(ROOT / "ktrial", self.root / "ktrial")
        (self.root / "pyproject.toml").write_text(PYPROJECT)
        (self.root / "backend.py").write_text(BACKEND)
        (self.root / "pipeline" / "__init__.py").touch()
        (self.root / "pipeline" / "__main__.py").write_text(MAIN)
        self.packages("dpkg\tpython\tdpkg\tthis is Debian")

    def packages(self, *lines: str) -> None:
        text = "".join(f"{line}\n" for line in ("# comment", *lines))
        (self.root / "pipeline" / "data" / "packages.txt").write_text(text)

    def command(self, *words: str, bind: Mapping[Path, Path] | None = None) -> list[str]:
        if not bind:
            return list(words)
        binds = [word for over, path in bind.items() for word in ("--bind", str(path), str(over))]
        return ["bwrap", "--dev-bind", "/", "/", *binds, "--", *words]

    def environment(self, **more: str) -> dict[str, str]:
        # The virtualenv of these tests must not be what the launcher builds upon.
        kept = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
        path = os.pathsep.join(
            folder
            for folder in os.environ["PATH"].split(os.pathsep)
            if not Path(folder).is_relative_to(sys.prefix)
        )
        return {
            **kept,
            "PATH": path,
            "XDG_CACHE_HOME": str(self.cache),
            "PIP_NO_INDEX": "1",
            **more,
        }

    def run(
        self,
        *arguments: str,
        by: Path | None = None,
        cwd: Path | None = None,
        bind: Mapping[Path, Path] | None = None,
        **environment: str,
    ) -> subprocess.CompletedProcess[str]:
        words = self.command(str(by or self.root / "ktrial"), *arguments, bind=bind)
        return subprocess.run(
            words,
            cwd=cwd or self.root,
            env=self.environment(**environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def start(self) -> subprocess.Popen[str]:
        # A shell that was started with SIGINT ignored (in the background of a script) stays so.
        return subprocess.Popen(
            ["env", "--default-signal=INT", self.root / "ktrial", "list"],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @property
    def installs(self) -> int:
        log = self.root / "installs"
        return len(log.read_text()) if log.exists() else 0


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """One that is not set up."""
    return Project(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One that is set up once: a virtualenv costs 6 s."""
    project = Project(tmp_path_factory.mktemp("launcher"))
    assert project.run("list").returncode == 7
    return project


@pytest.fixture
def ready(shared: Project) -> Project:
    """One that is set up and needs but dpkg."""
    shared.packages("dpkg\tpython\tdpkg\tthis is Debian")
    return shared


def without(package: str, target: Path) -> Path:
    """A dpkg status file in which `package` is not installed."""
    entry = re.compile(rf"^Package: {re.escape(package)}\n(?:.+\n)*\n?", re.MULTILINE)
    text, count = entry.subn("", STATUS.read_text(encoding="utf-8"))
    assert count, f"{package} is not installed here"
    target.write_text(text, encoding="utf-8")
    return target


def test_it_sets_up_once_and_hands_over(project: Project, tmp_path: Path) -> None:
    link = tmp_path / "elsewhere" / "kt"
    link.parent.mkdir()
    link.symlink_to(project.root / "ktrial")
    first = project.run("list", "a b", by=link, cwd=link.parent)
    assert first.returncode == 7, first.stderr
    assert first.stdout == f"main list a b in {link.parent}\n"
    assert "ktrial: virtualenv of " in first.stderr
    assert "ktrial: pip install: done in " in first.stderr
    assert "=== " in (project.cache / "ktrial" / "setup.log").read_text()
    second = project.run("list", cwd=tmp_path)
    assert (second.returncode, second.stderr) == (7, "")
    assert project.installs == 1


def test_modules_never_come_from_the_folder_one_stands_in(ready: Project, tmp_path: Path) -> None:
    evil = tmp_path / "tree"
    (evil / "pipeline").mkdir(parents=True)
    (evil / "pipeline" / "__main__.py").write_text("print('code of the tree')")
    assert ready.run("list", cwd=evil).stdout == f"main list in {evil}\n"


def test_it_installs_anew_where_the_requirements_changed(ready: Project) -> None:
    before = ready.installs
    (ready.root / "pyproject.toml").write_text(PYPROJECT + "# changed\n")
    changed = ready.run("list")
    assert (changed.returncode, ready.installs) == (7, before + 1)
    assert "virtualenv of" not in changed.stderr
    assert ready.run("list").stderr == ""


def test_it_makes_a_virtualenv_anew_whose_interpreter_is_gone(ready: Project) -> None:
    (ready.root / ".venv" / "bin" / "python").unlink()
    again = ready.run("list")
    assert again.returncode == 7, again.stderr
    assert "virtualenv of" in again.stderr


def test_it_makes_the_virtualenv_of_a_moved_checkout_anew(ready: Project) -> None:
    ready.root = ready.root.rename(ready.root.with_name("moved"))
    again = ready.run("list")
    assert "virtualenv of" in again.stderr
    assert again.stdout == f"main list in {ready.root}\n"


def test_two_at_once_set_up_once(project: Project) -> None:
    both = [project.start(), project.start()]
    outputs = [each.communicate(timeout=300) for each in both]
    assert [each.returncode for each in both] == [7, 7], outputs
    assert project.installs == 1
    assert sum("another ktrial is setting up" in err for _, err in outputs) == 1


def test_a_cut_installation_is_begun_anew(project: Project) -> None:
    (project.root / "slow").touch()
    for number, (signum, status) in enumerate([(signal.SIGINT, 130), (signal.SIGKILL, -9)], 1):
        cut = project.start()
        deadline = time.monotonic() + 120
        while project.installs < number and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(cut.pid, signum)
        cut.communicate(timeout=300)
        assert cut.returncode == status
        assert not (project.root / ".venv" / ".installed-run").exists()
    (project.root / "slow").unlink()
    again = project.run("list")
    assert again.returncode == 7, again.stderr
    assert project.installs == 3


def test_a_failed_installation_names_the_log(ready: Project) -> None:
    (ready.root / "broken").touch()
    (ready.root / "pyproject.toml").write_text(PYPROJECT + "# broken\n")
    failed = ready.run("list")
    assert failed.returncode == 3
    assert f"pip failed; its last words are in {ready.cache}/ktrial/setup.log" in failed.stderr
    assert "the package is broken" in (ready.cache / "ktrial" / "setup.log").read_text()
    (ready.root / "broken").unlink()
    assert ready.run("list").returncode == 7


def test_a_removed_package_is_noticed(ready: Project, tmp_path: Path) -> None:
    ready.packages("make\tpython\tmake\tbuilds things", "git\tpython\tgit\ttrees")
    assert ready.run("list").returncode == 7
    bind = {STATUS: without("make", tmp_path / "status")}
    found = ready.run("list", bind=bind, KTRIAL_NO_INSTALL="1")
    assert found.returncode == 3
    assert "these Debian packages are missing:\n  make " in found.stderr
    assert "builds things" in found.stderr
    assert found.stderr.endswith("apt-get install --no-install-recommends make\n")
    assert "  git " not in found.stderr
    assert ready.run("list").returncode == 7


def test_one_of_two_packages_is_enough(ready: Project) -> None:
    ready.packages("no-such|git|neither\tpython\tgit\ttrees")
    assert ready.run("list", KTRIAL_NO_INSTALL="1").returncode == 7
    ready.packages("no-such|neither\tpython\tgit\ttrees")
    found = ready.run("list", KTRIAL_NO_INSTALL="1")
    assert re.search(r"^  no-such +trees$", found.stderr, re.MULTILINE)


@pytest.mark.skipif(os.getuid() != 0, reason="only root's libvirt wants that user")
def test_the_user_that_libvirt_wants_of_root(ready: Project, tmp_path: Path) -> None:
    passwd = Path("/etc/passwd")
    others = [line for line in passwd.read_text().splitlines() if "libvirt-qemu" not in line]
    (tmp_path / "passwd").write_text("".join(f"{line}\n" for line in others))
    found = ready.run("demo", bind={passwd: tmp_path / "passwd"}, KTRIAL_NO_INSTALL="1")
    assert found.returncode == 3
    assert "useradd --system --user-group libvirt-qemu" in found.stderr
    assert ready.run("list", bind={passwd: tmp_path / "passwd"}).returncode == 7


def test_what_is_needed_depends_on_the_verb(ready: Project) -> None:
    foreign = "x86_64" if os.uname().machine in ("aarch64", "arm64") else "aarch64"
    ready.packages(
        *(
            f"no-such-{group}\t{group}\tno-such\twhy"
            for group in ("build", "guest", "test", f"qemu-{foreign}", f"cc-{foreign}")
        )
    )

    def lacks(*words: str) -> set[str]:
        found = ready.run(*words, KTRIAL_NO_INSTALL="1")
        assert found.returncode == (3 if "missing:" in found.stderr else 7)
        return set(re.findall(r"^  no-such-(\S+)", found.stderr, re.MULTILINE))

    for light in (["list"], ["--version"], ["doctor"], ["ktap", "-"], [], ["run", "--help"]):
        assert lacks(*light) == set()
    assert lacks("demo") == lacks("plan", "x") == {"build", "guest"}
    assert lacks("series", "x") == {"build"}
    assert lacks("shell", "smp2", "--", "ls", "-h", f"--arch={foreign}") == {"build", "guest"}
    assert lacks("shell", "smp2", "--arch", foreign) >= {"guest", f"qemu-{foreign}"}
    both = {"build", "guest", f"qemu-{foreign}", f"cc-{foreign}"}
    assert lacks("run", "x", "--arch", foreign) == both
    assert lacks("run", f"--arch={foreign}") == both
    assert lacks("run", f"{foreign}.mbox") == {"build", "guest"}
    assert lacks("test") == both | {"test"}


def test_another_distribution(ready: Project, tmp_path: Path) -> None:
    """No dpkg status: everything goes by the names of commands and files."""
    (tmp_path / "empty").mkdir()
    bind = {STATUS.parent: tmp_path / "empty"}
    ready.packages("git\tpython\tgit\ttrees", "libc6-dev\tpython\theader:stdlib.h\theaders")
    assert ready.run("list", bind=bind).returncode == 7
    ready.packages("git\tpython\tgit\ttrees", "nowhere\tpython\tno-such-tool\tfor nothing")
    found = ready.run("list", bind=bind)
    assert found.returncode == 3
    assert "this is not Debian" in found.stderr
    assert re.search(r"^  no-such-tool +for nothing \(Debian: nowhere\)$", found.stderr, re.M)
    assert "  git " not in found.stderr


def test_nothing_is_installed_where_that_is_forbidden(project: Project) -> None:
    found = project.run("list", KTRIAL_NO_INSTALL="1")
    assert found.returncode == 3
    assert "Python packages" in found.stderr
    assert project.installs == 0


def test_a_checkout_that_cannot_be_written(project: Project, tmp_path: Path) -> None:
    bind = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(project.root), str(project.root)]
    found = subprocess.run(
        [*bind, "--", project.root / "ktrial", "list"],
        env=project.environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 3
    assert found.stderr.startswith(f"ktrial: cannot write {project.root}/.venv")
