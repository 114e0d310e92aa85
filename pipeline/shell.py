"""`ktrial shell`: a guest to look around in, with the tree at hand or a kernel of the user's.

Exit status: that of the command, script or shell (128+N where signal N ended it); 255 where the
guest died before it was through, or was left.
"""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pipeline import (
    accelerator,
    cache,
    catalog,
    console,
    disk,
    domain,
    host,
    image,
    kernelbuild,
    kernelfile,
    keys,
    patience,
    remote,
    serial,
    session,
    shapes,
    tree,
    userrepo,
    worktree,
)
from pipeline.catalog import Catalog
from pipeline.console import Family
from pipeline.domain import GuestSpec
from pipeline.errors import UserError
from pipeline.guest import GuestEnd
from pipeline.hypervisor import Hypervisor
from pipeline.image import GuestFile, UserImage
from pipeline.kernelfile import KernelFile
from pipeline.model import (
    Architecture,
    Build,
    BuildFailure,
    ConfigFailure,
    GuestShape,
    Image,
    ImageRecipe,
    KernelPlan,
    Revision,
    Role,
    Tree,
    TreeSpec,
)
from pipeline.progress import Reporter
from pipeline.scope import Scope
from pipeline.session import Credentials
from pipeline.settings import Settings
from pipeline.terminal import Ends
from pipeline.virt import EMBEDDED

NAME = "shell"
DIED = 255  # as ssh has it where the connection broke
LOG_LINES = 20


@dataclass(frozen=True, kw_only=True)
class ShellRequest:
    """What is asked for. `architecture` "" is the host's, or that of `kernel`.

    `kernel`: a file or build folder, in place of a build. `tree` "" is the one at hand; with
    `rev` "" a work tree is taken as it lies, uncommitted changes of tracked files and all.
    `command`: one word is given to the guest's shell as it is, several are quoted for it; none
    is an interactive shell, or the script that standard input is. `terminal`: TERM.
    """

    guest: str = "smp2"
    architecture: str = ""
    image: str = "bench"
    kernel: str = ""
    tree: str = ""
    rev: str = ""
    kconfigs: tuple[str, ...] = ()
    cmdline: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    console: bool = False
    terminal: str = "xterm"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where it happens. `machine`: the host's `uname -m`; `memory`: MiB that guests may take."""

    settings: Settings
    shelf: Catalog
    reporter: Reporter
    scope: Scope
    cwd: Path
    machine: str
    memory: int
    ends: Ends


def shell(request: ShellRequest, place: Place) -> int:
    """Boot the guest, let the user in, and say how what was run ended. The guest is gone after.

    Raises:
        UserError: bad input, or the tree does not build.
        InfraError: QEMU, libvirt or the host failed.
        Cancelled: Ctrl-C while nobody sits at a shell.
    """
    check(request)
    shape = catalog.pick("guest", request.guest, place.shelf.guests)
    wanted = image.resolve(request.image, place.shelf.images, cwd=place.cwd)
    architecture = _architecture(request, place)
    _check_host(shape, wanted, architecture, place)
    session.preload()
    with ExitStack() as stack:
        work = stack.enter_context(cache.scratch(place.settings.cache, NAME))
        kernel = find_kernel(request, place, work, stack)
        with place.reporter.step(f"accelerator for {architecture.name}") as step:
            chosen = accelerator.choose(
                architecture,
                forced=place.settings.accel,
                cache=place.settings.cache,
                scope=place.scope,
                step=step,
            )
        with place.reporter.step(f"image {request.image} for {architecture.name}") as step:
            made = image.build_image(
                wanted,
                architecture,
                cache=place.settings.cache,
                scope=place.scope,
                step=step,
            )
        own = keys.new_keys()
        spec = GuestSpec(
            name=f"{NAME}.{shape.name}",
            uuid=str(uuid.uuid4()),
            architecture=architecture,
            shape=shape,
            accelerator=chosen,
            kernel=kernel.image,
            initrd=work / "initrd",
            console=work / "console.log",
            cmdline=(*kernel.cmdline, *request.cmdline),
            slower=kernel.slower,
            network=not request.console,
            disk=_overlay(made, work, place.scope),
        )
        files = _files(request, own, place.ends)
        image.compose(made, modules=kernel.modules, files=files, target=spec.initrd)
        if request.console:
            return _on_console(request, spec, place)
        return _over_ssh(request, spec, own, place)


def check(request: ShellRequest) -> None:
    """Refuse what does not go together."""
    if request.kernel and (request.tree or request.rev or request.kconfigs):
        raise UserError(
            "--kernel names a kernel that is built already",
            hint="leave it out to build one, or leave --tree, --rev and --kconfig out",
        )
    if request.console and request.command:
        raise UserError(
            "--console has no exit status to give back",
            hint=f"without it: ktrial shell {request.guest} -- {shlex.join(request.command)}",
        )


def _check_host(
    shape: GuestShape, wanted: ImageRecipe | UserImage, architecture: Architecture, place: Place
) -> None:
    """Refuse what this host cannot give, before a kernel is built for it."""
    firmware = domain.FIRMWARE.get(architecture.name)
    version = accelerator.qemu_version(architecture, place.scope)
    cause = image.refusal(wanted, architecture, place.machine) or shapes.refusal(
        shape,
        architecture,
        host_memory=place.memory,
        accelerator=place.settings.accel,
        qemu=host.version_numbers(version),
        firmware_there=firmware is not None and firmware.exists(),
    )
    if cause:
        raise UserError(f"guest {shape.name} cannot be had here: {cause}")


def _overlay(made: Image, work: Path, scope: Scope) -> Path | None:
    if made.disk is None:
        return None
    disk.overlay(made.disk, made.disk_format, work / "disk.qcow2", scope=scope)
    return work / "disk.qcow2"


def _files(request: ShellRequest, own: keys.Keys, ends: Ends) -> Mapping[str, GuestFile]:
    """What goes into the guest: keys for ssh, or what the console's shell has to know."""
    if request.console:
        columns, rows = ends.size
        words = f"{request.terminal} {rows} {columns}\n"
        return {"ktrial/console": GuestFile(data=words.encode())}
    return {
        "ktrial/authorized_keys": GuestFile(data=own.authorized.encode(), mode=0o600),
        "ktrial/hostkey": GuestFile(data=own.host_private, mode=0o600),
    }


# --------------------------------------------------------------------------- the kernel


def find_kernel(request: ShellRequest, place: Place, work: Path, stack: ExitStack) -> KernelFile:
    """The user's kernel, or one of the tree; what the cache has of it stays there meanwhile."""
    if request.kernel:
        return _given(request, place)
    architecture = _architecture(request, place)
    built = _build(request, place, architecture, _source(request, place, work), work)
    stack.enter_context(cache.using(built.folder))
    return KernelFile(
        image=built.image,
        modules=built.modules,
        architecture=architecture,
        cmdline=built.cmdline,
        slower=built.slower,
    )


def _given(request: ShellRequest, place: Place) -> KernelFile:
    path = place.cwd / Path(request.kernel).expanduser()
    found = kernelfile.find(path, place.shelf.architectures.values())
    asked = request.architecture and place.shelf.architecture(request.architecture)
    if asked and asked != found.architecture:
        raise UserError(f"kernel {found.image} is for {found.architecture.name}")
    return found


def _architecture(request: ShellRequest, place: Place) -> Architecture:
    if request.kernel:
        return _given(request, place).architecture
    if request.architecture:
        return place.shelf.architecture(request.architecture)
    return place.shelf.native(place.machine)


@dataclass(frozen=True, kw_only=True)
class _Source:
    """A tree, the commit that it stands on, and what is to be built."""

    opened: Tree
    base: Revision
    revision: Revision


def _source(request: ShellRequest, place: Place, work: Path) -> _Source:
    spec = tree_spec(request, place.cwd)
    with place.reporter.step(f"tree {spec.name}") as step:
        opened = tree.open_tree(spec, cache=place.settings.cache, scope=place.scope, step=step)
        plan = KernelPlan(name="tree", role=Role.BASE)
        base = tree.apply(opened, plan, on=opened.base, log=work / "apply.log", scope=place.scope)
        assert isinstance(base, Revision)  # there is nothing to apply
        if request.rev or spec.debian_version:
            return _Source(opened=opened, base=base, revision=base)
        step.note("reading what has changed")
        revision = worktree.as_it_lies(opened, scope=place.scope)
    changed = len(revision.files_changed)
    if changed:
        files = "1 file" if changed == 1 else f"{changed} files"
        place.reporter.say(f"{spec.name} with uncommitted changes in {files}")
    return _Source(opened=opened, base=base, revision=revision)


def tree_spec(request: ShellRequest, cwd: Path) -> TreeSpec:
    """The tree that is named, or the one around the current folder."""
    base = request.rev or "HEAD"
    if request.tree:
        spec = TreeSpec(name=request.tree, base=base)
        return spec if spec.debian_version else TreeSpec(name=str(cwd / request.tree), base=base)
    if around := userrepo.kernel_tree_around(cwd):
        return TreeSpec(name=str(around), base=base)
    raise UserError(
        "no kernel to boot",
        hint="give --kernel PATH or --tree TREE (debian:6.12, say), or start it in a kernel tree",
    )


def _build(
    request: ShellRequest, place: Place, architecture: Architecture, source: _Source, work: Path
) -> Build:
    wish = kernelbuild.Wish(
        opened=source.opened,
        revision=source.revision,
        base=source.base,
        architecture=architecture,
        fragments=request.kconfigs,
        trusted=True,  # the user's own tree, or the distribution's
        log_folder=work / "build",
    )
    with place.reporter.step(f"build for {architecture.name}") as step:
        result = kernelbuild.make(
            wish, shelf=place.shelf, settings=place.settings, scope=place.scope, step=step
        )
    if isinstance(result, Build):
        return result
    raise _broken(result, place)


def _broken(result: BuildFailure | ConfigFailure, place: Place) -> UserError:
    """The log goes with the scratch folder: its end is shown."""
    if result.log.is_file():
        lines = result.log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        place.reporter.say("\n".join(lines))
    return UserError(str(result))


# --------------------------------------------------------------------------- the guest


def _over_ssh(request: ShellRequest, spec: GuestSpec, own: keys.Keys, place: Place) -> int:
    settings = place.settings
    hypervisor = Hypervisor(
        connect=None if settings.connect == EMBEDDED else settings.connect,
        runtime=settings.runtime,
        cache=settings.cache,
        families=_families(settings),
    )
    with hypervisor, hypervisor.guest(spec, scope=place.scope) as guest:
        with place.reporter.step(f"boot {spec.shape.name}"):
            end = patience.until_ready(guest, place.scope)
        if end is not None:
            _blame_the_image(request, spec)
            return _died(end, place)
        line = remote.Line(
            port=guest.ssh_port,
            credentials=Credentials(private=own.private, host_public=own.host_public),
            died=guest.died,
        )
        command = _words(request.command)
        if command is None and place.ends.interactive:
            place.reporter.say(f"{_what(spec)}; leave with `exit`, or with ~. at a line's start")
        done = remote.run(
            line, command, ends=place.ends, terminal=request.terminal, scope=place.scope
        )
        if done.status is not None:
            return done.status
        if done.left:
            return DIED
        return _died(guest.end(), place, done.problem)


def _words(command: tuple[str, ...]) -> str | None:
    if not command:
        return None
    return command[0] if len(command) == 1 else shlex.join(command)


def _blame_the_image(request: ShellRequest, spec: GuestSpec) -> None:
    """Raise UserError where the guest said that its disk cannot be booted."""
    if words := image.fault(spec.console.read_text(errors="replace")):
        raise UserError(f"image {request.image} cannot be booted: {words}")


def _died(end: GuestEnd, place: Place, problem: str = "") -> int:
    place.reporter.say(f"ktrial: the guest is gone: {end.reason or problem}")
    if end.qemu_log_tail:
        place.reporter.say(end.qemu_log_tail)
    return DIED


def _on_console(request: ShellRequest, spec: GuestSpec, place: Place) -> int:
    if place.ends.interactive:
        place.reporter.say(f"{_what(spec)}; leave with Ctrl-], or with `exit`")
    end = serial.attend(
        spec,
        families=_families(place.settings),
        ends=place.ends,
        scope=place.scope,
        boot=place.scope.child(patience.boot_seconds(spec.accelerator, spec.shape)),
    )
    if end.left:
        return DIED
    _blame_the_image(request, spec)
    trouble = end.cause or end.qemu or ("" if end.ready else "it did not get ready")
    if trouble:
        place.reporter.say(f"ktrial: the guest is gone: {trouble}")
        return DIED
    return 0


def _what(spec: GuestSpec) -> str:
    by = "KVM" if spec.accelerator.name == "kvm" else "emulated"
    return f"{spec.shape.name} ({spec.architecture.name}, {by})"


def _families(settings: Settings) -> tuple[Family, ...]:
    return console.read_families(settings.data / "console")
