"""A machine with a guest in it, as far as events see them: no QEMU, no kernel.

It answers QEMU's queries and the guest's commands from one state, and can be told to go wrong.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline import guestview, sysfs
from pipeline.actor import Actor, Setting
from pipeline.errors import InfraError
from pipeline.guest import Guest, Handle
from pipeline.model import GuestShape
from pipeline.scope import Scope
from pipeline.session import Reply
from pipeline.shapes import format_list
from tests import guests

BLOCK = 128 << 20
SHAPE = GuestShape(
    name="simulated",
    description="two of four CPUs, 512 MiB of 2 GiB",
    vcpus=2,
    max_vcpus=4,
    memory=512,
    max_memory=2048,
    memory_slots=4,
)


@dataclass
class Machine(Handle):
    """`blind`: the guest does not see vCPUs that are added; `limp`: libvirt loses count of those
    that are removed, as it does with QEMU 7.2 under TCG."""

    blind: bool = False
    version: tuple[int, int] = (10, 0)  # QEMU's
    cpu: float = 0.0  # seconds that it had
    waited: float = 0.0  # seconds that it waited for a CPU
    limp: bool = True
    counted: int = SHAPE.vcpus
    plugged: set[int] = field(default_factory=lambda: set(range(SHAPE.vcpus)))
    dimms: dict[str, int] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def destroy(self) -> None:
        self.stopped.set()

    def log(self) -> str:
        return "qemu-system-x86_64: last words\n" if self.failed else ""

    def cpu_seconds(self) -> float:
        return self.cpu

    def waited_seconds(self) -> float:
        return self.waited

    def monitor(self, command: str) -> str:  # noqa: ARG002
        return ""

    def die(self, words: str = "QEMU was ended by SIGKILL") -> None:
        self.failed, self.exit_words = True, words
        self.stopped.set()

    def qmp(self, command: str, **arguments: object) -> Any:
        self._alive()
        if command == "query-version":
            return {"qemu": dict(zip(("major", "minor"), self.version, strict=True))}
        if command == "query-hotpluggable-cpus":
            return [self._cpu(number) for number in reversed(range(SHAPE.max_vcpus))]
        if command == "query-cpus-fast":
            return [{"qom-path": f"/machine/unattached/device[{n}]"} for n in self.plugged]
        if command == "query-memory-devices":
            return [{"type": "dimm", "data": each} for each in self._dimms()]
        if command == "query-memory-size-summary":
            return {"base-memory": 512 << 20, "plugged-memory": sum(self.dimms.values())}
        self.calls.append(f"{command} {arguments['id']}")
        number = int(str(arguments["id"]).removeprefix("vcpu"))
        if command == "device_del":
            self.plugged.remove(number)
            self.counted -= not self.limp
        else:
            self.plugged.add(number)
        return {}

    def _cpu(self, number: int) -> Mapping[str, object]:
        made = {"type": "max-x86_64-cpu", "props": {"socket-id": number}}
        if number not in self.plugged:
            return made
        cold = f"/machine/unattached/device[{number}]"
        return {**made, "qom-path": cold if number < 2 else f"/machine/peripheral/vcpu{number}"}

    def _dimms(self) -> list[dict[str, object]]:
        address, found = 4 << 30, []
        for name, size in self.dimms.items():
            found.append({"id": name, "addr": address, "size": size, "node": 0})
            address += size
        return found

    def vcpus(self) -> int:
        self._alive()
        return self.counted

    def set_vcpus(self, count: int) -> None:
        self._alive()
        self.calls.append(f"set_vcpus {count}")
        self.plugged |= set(range(count))
        self.counted = count

    def attach(self, xml: str) -> None:
        self._alive()
        size = re.search(r"unit='MiB'>(\d+)<", xml)
        assert size
        self.dimms[f"dimm{len(self.dimms)}"] = int(size[1]) << 20

    def detach(self, alias: str) -> None:
        self._alive()
        del self.dimms[alias]

    def _alive(self) -> None:
        if self.stopped.is_set():
            raise InfraError("QEMU does not answer: the guest is gone")


@dataclass
class Kernel:
    """The guest's side, and a session into it. `mute`: commands that hold this word never come
    back; `refuses`: CPUs that do not change; `kills`: a command with this word ends QEMU."""

    machine: Machine
    guest: Guest
    release: str = "5.10.262"
    kernel_max: int = 63
    mute: str = ""
    kills: str = ""
    refuses: frozenset[int] = frozenset()
    online: set[int] = field(default_factory=lambda: set(range(SHAPE.vcpus)))
    states: dict[int, str] = field(default_factory=lambda: dict.fromkeys(range(4), "online"))
    commands: list[str] = field(default_factory=list)

    @property
    def present(self) -> set[int]:
        plugged = self.machine.plugged
        return plugged & {0, 1} if self.machine.blind else set(plugged)

    def run(self, command: str, *, scope: Scope) -> Reply:
        self.commands.append(command)
        if self.kills and self.kills in command:
            self.machine.die()
        if self.mute and self.mute in command:
            while not (scope.expired or self.guest.died.is_set()):
                time.sleep(0.01)
            return Reply(exit_status=None, text="", seconds=0.0, problem="no time left")
        if self.machine.stopped.is_set():
            return Reply(exit_status=None, text="", seconds=0.0, problem="the guest died")
        text = self._view() if command == guestview.COMMAND else self._sysfs(command)
        return Reply(exit_status=0, text=text, seconds=0.0)

    def _sysfs(self, command: str) -> str:
        listed = re.search(r"for (?:n|step) in (.*); do", command)
        words = listed[1].split() if listed else []
        if sysfs.COUNT in command:
            return f"{sysfs.COUNT}{min(len(words), 3)}\n"
        if "valid_zones" in command:
            return "".join(f"{word}\n" for word in words if int(word) >= 32)
        if "/cpu$n/online" in command or "cpu/cpu$n" in command:
            return self._cpus([int(word) for word in words], online="echo 1" in command)
        if "state" in command:
            state = "offline" if "echo offline" in command else "online"
            left = re.search(r"left=(\d+)", command)
            for word in words[: int(left[1]) if left else None]:
                self.states[int(word)] = state
        return ""

    def _cpus(self, numbers: list[int], *, online: bool) -> str:
        for number in set(numbers) - self.refuses:
            (self.online.add if online else self.online.discard)(number)
        return "".join(f"{sysfs.REFUSED}{n}\n" for n in numbers if n in self.refuses)

    def _view(self) -> str:
        self.online &= self.present
        there = [
            number
            for dimm in self.machine._dimms()
            for number in range(
                int(str(dimm["addr"])) // BLOCK,
                (int(str(dimm["addr"])) + int(str(dimm["size"]))) // BLOCK,
            )
        ]
        blocks = {n: self.states.get(n, "offline") for n in [*range(4), *there]}
        self.states = dict(blocks)
        memory = sum(state == "online" for state in blocks.values()) * BLOCK // 1024 - 20000
        possible = "0-1" if self.machine.blind else f"0-{SHAPE.max_vcpus - 1}"
        lines = [
            f"/proc/sys/kernel/osrelease:{self.release}",
            "/proc/cmdline:console=ttyS0",
            f"/proc/meminfo:MemTotal: {memory} kB",
            f"cpu/possible:{possible}",
            f"cpu/present:{format_list(self.present)}",
            f"cpu/online:{format_list(self.online)}",
            f"cpu/kernel_max:{self.kernel_max}",
            "node/possible:0",
            "node/online:0",
            "node/has_cpu:0",
            "node/has_memory:0",
            f"node/node0/cpulist:{format_list(self.online)}",
            "node/node0/distance:10",
            f"node/node0/meminfo:Node 0 MemTotal: {memory} kB",
            f"memory/block_size_bytes:{BLOCK:x}",
            *(f"memory/memory{number}/state:{state}" for number, state in blocks.items()),
            *(
                f"cpu/cpu{cpu}/topology/{what}:{value}"
                for cpu in self.online
                for what, value in (
                    ("physical_package_id", cpu),
                    ("core_id", 0),
                    ("thread_siblings_list", cpu),
                )
            ),
        ]
        return "\n".join(lines) + "\n"


@dataclass
class Simulated:
    """All of it. `answers`: whether the guest answers over a fresh connection."""

    machine: Machine
    kernel: Kernel
    actor: Actor


def simulated(
    folder: Path, *, architecture: str = "x86_64", answers: bool = True, overridden: bool = False
) -> Simulated:
    """A guest that is up; its console is read, so that its end is seen."""
    machine = Machine()
    guest = Guest(spec=guests.player(folder, b""), handle=machine, families=guests.FAMILIES)
    guest.console.write_bytes(b"")
    guest.begin(time.time())
    kernel = Kernel(machine, guest)
    setting = Setting(
        shape=SHAPE,
        architecture=guests.architecture(architecture),
        accelerator="tcg",
        overridden=overridden,
    )
    return Simulated(machine, kernel, Actor(guest, kernel, setting, lambda _: answers))
