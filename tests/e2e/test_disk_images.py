"""Guests whose root is a disk: Debian with systemd, and a disk as a user would bring it."""

from __future__ import annotations

import hashlib
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

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
def cloud_image(ktrial: Ktrial, tmp_path: Path) -> Path:
    """Debian's disk as a compressed qcow2 with two partitions, the root being the second."""
    ktrial("shell", *KERNEL, "--image", "debian", "--", "true")
    made = sorted(CACHE.glob("images/debian-x86_64-*/disk.ext4"), key=lambda p: p.stat().st_mtime)
    raw, target = tmp_path / "disk.raw", tmp_path / "my cloud.img"
    first, second = 2048, 18432
    head = bytearray(512)
    head[510:512] = b"\x55\xaa"
    struct.pack_into("<4xB3xII", head, 446, 0x0C, first, second - first)
    struct.pack_into("<4xB3xII", head, 462, 0x83, second, made[-1].stat().st_size // 512)
    raw.write_bytes(head)
    words = [f"if={made[-1]}", f"of={raw}", "bs=1M", "seek=9", "conv=sparse,notrunc"]
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


def test_a_disk_without_an_init_is_told_from_a_kernel_that_does_not_boot(
    ktrial: Ktrial, tmp_path: Path
) -> None:
    mke2fs = shutil.which("mke2fs", path="/usr/sbin:/sbin:/usr/bin")
    assert mke2fs is not None
    subprocess.run([mke2fs, "-q", "-t", "ext4", tmp_path / "empty.img", "16M"], check=True)
    ran = ktrial("shell", *KERNEL, "--image", "empty.img", "--", "true")
    assert ran.exit_code == 2
    assert "no partition that this kernel can mount has /sbin/init" in ran.err
