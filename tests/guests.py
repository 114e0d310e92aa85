"""Guests for tests: the data files, and a guest without a kernel that plays a console.

`PLAYER` is a multiboot kernel that writes its initrd to the serial port, byte by byte, and
then halts for good. Some bytes are orders: 4 powers off, 5 resets, 6 pauses for about half
a second under TCG. So a test decides what a "kernel" says without building one.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import pipeline
from pipeline import console, schema
from pipeline.domain import GuestSpec
from pipeline.model import Accelerator, Architecture, GuestShape

DATA = Path(pipeline.__file__).parent / "data"
SHARE = Path(pipeline.__file__).parents[1] / "vm_images"
FAMILIES = console.read_families(DATA / "console")
TCG = Accelerator(name="tcg", reason="in a test")

POWER_OFF = b"\x04"
RESET = b"\x05"
PAUSE = b"\x06"

# Source (GNU as, --32), entered by QEMU's multiboot loader in flat 32-bit mode:
#   mov 24(%ebx),%eax; mov (%eax),%esi; mov 4(%eax),%edi     first module: start, end
#   next: cmp %edi,%esi; jae stop; mov $0x3fd,%dx
#   1: in %dx,%al; test $0x20,%al; jz 1b; lodsb               until the port takes a byte
#   cmp $4,%al; je off; cmp $5,%al; je reset; cmp $6,%al; je pause
#   mov $0x3f8,%dx; out %al,%dx; jmp next
#   off: mov $0x604,%dx; mov $0x2000,%ax; out %ax,%dx         q35's PM1a: soft off
#   reset: mov $0xfe,%al; out %al,$0x64                       keyboard controller
#   stop: hlt; jmp stop
#   pause: mov $0x8000000,%ecx; 2: dec %ecx; jnz 2b; jmp next
PLAYER = bytes.fromhex(
    "02b0ad1b00000100fe4f51e4000010000000100000000000000000002000"
    "10008b43188b308b780439fe732b66bafd03eca82074fbac3c04740f3c05"
    "74153c06741866baf803eeebdf66ba040666b8002066efb0fee664f4ebfd"
    "b9000000084975fdebc4"
)


def architecture(name: str = "x86_64") -> Architecture:
    return schema.read(DATA / "architectures" / f"{name}.toml", Architecture, name=name)


def shape(name: str = "smp1") -> GuestShape:
    return schema.read(SHARE / "guests" / f"{name}.toml", GuestShape, name=name)


def player(folder: Path, plays: bytes, name: str = "player") -> GuestSpec:
    """A guest whose console says `plays`; its files lie in `folder`."""
    kernel, initrd = folder / "player.bin", folder / f"{name}.initrd"
    kernel.write_bytes(PLAYER)
    initrd.write_bytes(plays)
    return GuestSpec(
        name=name,
        uuid=str(uuid.uuid4()),
        architecture=architecture(),
        shape=shape("small-memory"),
        accelerator=TCG,
        kernel=kernel,
        initrd=initrd,
        console=folder / f"{name}.log",
    )
