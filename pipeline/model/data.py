"""What the data files hold: architectures, toolchains, fragments, guests, images, and so on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.model.outcome import Better, Phase


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A tiny bare-metal program whose run time tells what an accelerator is worth.

    `program`: lines of "OFFSET: HEX BYTES ; source", offsets in hex; `size` of the file in
    bytes; `arguments` put it into QEMU ("{program}" is its path); `exit_status` is QEMU's
    when it is through.
    """

    program: tuple[str, ...]
    size: int
    arguments: tuple[str, ...]
    exit_status: int


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """pipeline/data/architectures/NAME.toml."""

    name: str
    description: str
    aliases: tuple[str, ...]
    machines: tuple[str, ...]  # `uname -m` of hosts on which it is native
    kernel_arch: str  # make ARCH=
    source_dir: str  # arch/<source_dir>
    debian_arch: str
    image_target: str  # make target
    image_path: str  # below the build folder
    fragments: tuple[str, ...]  # kconfig fragments that every build of it takes
    qemu: str
    qemu_package: str
    machine: str
    cpu: Mapping[str, str]  # accelerator -> QEMU CPU model
    console: str  # tty name in the guest
    earlycon: str  # kernel argument
    console_type: str  # libvirt <target type=…> of the serial device
    vcpu_hotplug: bool
    acpi: bool
    gic: str = ""
    calibration: Calibration | None = None


@dataclass(frozen=True, kw_only=True)
class Toolchain:
    """pipeline/data/toolchains/NAME.toml: one compiler family, per target architecture.

    `prefixed`: whether the names of its programs begin with the compiler prefix, as those of a
    cross GCC do; clang is one program for every target. `programs`: what has to be there besides
    the compiler and the linker.
    """

    name: str
    description: str
    make: tuple[str, ...]  # extra make arguments, such as LLVM=1
    compilers: Mapping[str, str]  # "<target>" or "<target>-on-<host>" -> compiler prefix or ""
    probe: Mapping[str, str]  # target -> the program whose version is recorded
    packages: Mapping[str, str]  # target -> Debian packages that bring it
    prefixed: bool = True
    linker: str = "ld"
    programs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Claim:
    """For which trees a fragment, or some of its symbols, is meant: `# ktrial-only: …`.

    What is empty stands for any. `since` and `until` are kernel versions, both included: "6.1"
    has every 6.1.x.
    """

    symbols: tuple[str, ...]  # none: the fragment as a whole
    architectures: tuple[str, ...]
    since: str
    until: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Fragment:
    """kconfigs/NAME.config. `symbols` maps CONFIG_X to its wanted value ("n" for not set).

    `base`: the make target that the configuration starts from in place of tinyconfig and of the
    fragments that every kernel has; `seed` of a randconfig, and `probability` (in %) with which it
    sets a symbol. `slower`: how many times as long as
    without it a guest may take. `cmdline`: kernel arguments that switch on what it compiles in.
    `reserves`: the share of a guest's memory that it takes away (KASAN's shadow).
    """

    name: str
    path: Path
    symbols: Mapping[str, str]
    description: str = ""
    claims: tuple[Claim, ...] = ()
    base: str = ""
    seed: int = 0
    probability: str = ""
    slower: float = 1.0
    cmdline: tuple[str, ...] = ()
    reserves: float = 0.0


@dataclass(frozen=True, kw_only=True)
class NumaCell:
    """A NUMA node of a guest: its vCPUs ("0-3,8", of all that may come; "" for none) and memory.

    `memory` in MiB, 0 for a node without any. `distances`: to each node of the shape, in
    order, itself being 10; empty for the default (10 to itself, 20 to every other).
    """

    cpus: str
    memory: int
    distances: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GuestShape:
    """vm_images/guests/NAME.toml. Memory in MiB.

    `vcpus` of `max_vcpus` are there at boot, `memory` of `max_memory` (0: none can be added,
    else in `memory_slots` DIMMs). The topology is of all vCPUs that may come; a level that is
    0 is one, and sockets that are 0 are as many as it takes. `architectures`: those that it is
    for, empty for any. `cpu`: QEMU's model in place of the architecture's, by architecture.
    `firmware`: architectures on which it boots through UEFI firmware, which brings ACPI.
    `machine`: options of QEMU's machine by architecture, such as "its=off,highmem=off".
    """

    name: str
    description: str
    vcpus: int
    max_vcpus: int
    memory: int
    cmdline: tuple[str, ...] = ()
    sockets: int = 0
    dies: int = 0
    clusters: int = 0
    cores: int = 0
    threads: int = 0
    numa: tuple[NumaCell, ...] = ()
    max_memory: int = 0
    memory_slots: int = 0
    architectures: tuple[str, ...] = ()
    cpu: Mapping[str, str] = field(default_factory=dict)
    firmware: tuple[str, ...] = ()
    machine: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ImageRecipe:
    """vm_images/NAME/image.toml and the folder beside it."""

    name: str
    description: str
    folder: Path
    suite: str
    packages: tuple[str, ...]
    programs: tuple[str, ...]  # what workloads may count on (`needs`); their libraries come along
    keep: tuple[str, ...] = ()  # globs below the packages' root: files to have besides programs
    remove: tuple[str, ...] = ()  # globs below the guest's root: files not to have after all
    overlays: tuple[str, ...] = ()  # folders beside this one whose overlay/ comes first
    kind: str = "initramfs"  # or "disk": a root file system with an init of its own
    disk_size: int = 0  # MiB, of a disk


@dataclass(frozen=True, kw_only=True)
class Value:
    """One number in a line of output: regex group, metric name template, unit, direction."""

    group: str
    name: str
    unit: str
    better: Better


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How numbers are read: a regex per line of output and the values that its groups hold."""

    pattern: str
    values: tuple[Value, ...]
    required: bool = True


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A workload's parameter: how it is put on the command line, and its default."""

    name: str
    argument: str  # such as "-l {value}"; a switch has no "{value}"
    description: str
    kind: str  # int, float, str, bool
    default: str | int | float | bool | None = None  # None: not put on the command line


@dataclass(frozen=True, kw_only=True)
class CheckSpec:
    """pipeline/data/checks/NAME.toml: something besides the compiler that reads the source.

    `make`: arguments of a make for the objects of changed files ("W=1"), on the kernel and on
    the one below it. `script`: a program of the tree that reads one patch on standard input.
    `message`: a regular expression for a line of output, with the groups file, line, text and,
    where it has them, kind and function; empty for the compiler's own form. `needs`: a program
    of the host, with the Debian `package` that brings it.
    """

    name: str
    description: str
    make: tuple[str, ...] = ()
    script: tuple[str, ...] = ()
    message: str = ""
    needs: str = ""
    package: str = ""


@dataclass(frozen=True, kw_only=True)
class TreePrograms:
    """Programs of the tree that a workload runs, built with the kernel and put into the guest.

    `make`: commands below the tree, as lists of words in which {tree}, {build}, {install}, {arch},
    {cross} and the workload's parameters stand for themselves; `path`: where in the guest what
    they installed lies.
    """

    make: tuple[tuple[str, ...], ...]
    path: str


@dataclass(frozen=True, kw_only=True)
class WorkloadSpec:
    """pipeline/data/workloads/NAME.toml. `deadline` in seconds under the slowest accelerator.

    `ktap`: where tests are read that it reports itself: "output", "console", "boot" (the
    boot is the test), or "" for none.
    `kconfigs`: fragments without which it cannot run. `cmdline`: kernel arguments, in which
    {NAME} is a parameter.
    """

    name: str
    description: str
    command: str
    parameters: tuple[Parameter, ...]
    needs: tuple[str, ...]
    deadline: float
    readings: tuple[Reading, ...]
    timed: bool = True  # measures time: it wants cores that nobody else uses
    ktap: str = ""
    kconfigs: tuple[str, ...] = ()
    cmdline: tuple[str, ...] = ()
    programs: TreePrograms | None = None


@dataclass(frozen=True, kw_only=True)
class ProbeSpec:
    """pipeline/data/probes/NAME.toml. `phases` are those in which it is read by default.

    One that `slows` the kernel is read in boots of its own, whose times are no result.
    `parameters` stand in the command as those of a workload do. Of a `delta` what counts is by how
    much its numbers grew from before the workload until a phase behind it. `note`: what a reader of
    its numbers has to know.
    """

    name: str
    description: str
    command: str
    phases: tuple[Phase, ...]
    needs: tuple[str, ...]
    kconfigs: tuple[str, ...]  # fragments without which there is nothing to read
    deadline: float
    readings: tuple[Reading, ...]
    slows: bool = False
    parameters: tuple[Parameter, ...] = ()
    delta: bool = False
    note: str = ""
