"""Guests whose root is a disk: Debian with systemd, and a disk as a user would bring it."""

from __future__ import annotations

import hashlib
import platform
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from pipeline import image, settings
from pipeline.catalog import Catalog
from pipeline.scope import Scope
from tests.conftest import QuietStep
from tests.e2e.conftest import CACHE, TREE, Ktrial

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("qemu-img") is None, reason="there is no qemu-img"),
]

KERNEL = ("--tree", TREE)
LOOK = (
    "cat /proc/1/comm; grep ^ID= /etc/os-release; findmnt -no SOURCE,FSTYPE /;"
    "ls -d /lib/modules/$(uname -r); hackbench -l 10 -g 1 >/dev/null; touch /written; exit 7"
)


def test_debian_on_a_disk_boots_to_systemd(ktrial: Ktrial) -> None:
    ran = ktrial("shell", "smp2", *KERNEL, "--image", "debian", "--", LOOK)
    assert ran.exit_code == 7, ran.err
    comm, distribution, root, *_ = ran.out.splitlines()
    assert (comm, distribution, root.split()) == ("systemd", "ID=debian", ["/dev/vda", "ext4"])


def test_on_the_serial_console_of_debian_there_is_a_shell(ktrial: Ktrial) -> None:
    script = b"cat /proc/1/comm; echo $((6 * 7))"
    ran = ktrial("shell", *KERNEL, "--image", "debian", "--console", stdin=script)
    assert ran.exit_code == 0, ran.err
    assert "systemd\n42\n" in ran.out.replace("\r", "")


@pytest.fixture
def cloud_image(tmp_path: Path) -> Path:
    """Debian's disk as a compressed qcow2 with two partitions, the root being the second."""
    shelf = Catalog(data=settings.PACKAGE / "data", share=(settings.shipped_root(),))
    built = image.build_image(
        shelf.images["debian"],
        shelf.native(platform.machine()),
        cache=CACHE,
        scope=Scope(),
        step=QuietStep(),
    )
    made = built.disk
    assert made is not None
    raw, target = tmp_path / "disk.raw", tmp_path / "my cloud.img"
    first, second = 2048, 18432
    head = bytearray(512)
    head[510:512] = b"\x55\xaa"
    struct.pack_into("<4xB3xII", head, 446, 0x0C, first, second - first)
    struct.pack_into("<4xB3xII", head, 462, 0x83, second, made.stat().st_size // 512)
    raw.write_bytes(head)
    words = [f"if={made}", f"of={raw}", "bs=1M", "seek=9", "conv=sparse,notrunc"]
    subprocess.run(["dd", "status=none", *words], check=True)
    convert = ["qemu-img", "convert", "-c", "-f", "raw", "-O", "qcow2", str(raw), str(target)]
    subprocess.run(convert, check=True)
    raw.unlink()
    return target


def test_a_users_qcow2_is_booted_and_stays_as_it_is(ktrial: Ktrial, cloud_image: Path) -> None:
    before = (hashlib.sha256(cloud_image.read_bytes()).digest(), cloud_image.stat().st_mtime_ns)
    ran = ktrial("shell", *KERNEL, "--image", cloud_image.name, "--", LOOK)
    assert ran.exit_code == 7, ran.err
    assert ran.out.splitlines()[2].split() == ["/dev/vda2", "ext4"]
    after = (hashlib.sha256(cloud_image.read_bytes()).digest(), cloud_image.stat().st_mtime_ns)
    assert after == before


# Of a machine that there is not: a 64-bit ELF file's first words.
FOREIGN = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 2, 0xFFEE) + bytes(44)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "no partition that this kernel can mount has /sbin/init"),
        (
            {"sbin/init": FOREIGN, "etc/passwd": b"root:x:0:0::/:/bin/sh\n", "etc/inittab": b""},
            "/sbin/init is not for this architecture",
        ),
    ],
)
def test_a_disk_that_does_not_boot_is_told_from_a_kernel_that_does_not(
    ktrial: Ktrial, tmp_path: Path, files: dict[str, bytes], told: str
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for name, content in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(content)
        (root / name).chmod(0o755)
    mke2fs = shutil.which("mke2fs", path="/usr/sbin:/sbin:/usr/bin")
    assert mke2fs is not None
    make = [mke2fs, "-q", "-t", "ext4", "-d", str(root), str(tmp_path / "my.img"), "16M"]
    subprocess.run(make, check=True)
    ran = ktrial("shell", *KERNEL, "--image", "my.img", "--", "true")
    assert ran.exit_code == 2, ran.err
    assert told in ran.err
