"""From what the nodes of a plan came to, to the evidence that is judged. Pure."""

from __future__ import annotations

from pipeline.model import (
    Accelerator,
    ApplyFailure,
    BootResult,
    Build,
    BuildFailure,
    ConfigFailure,
    Evidence,
    Image,
    Plan,
    Revision,
    Tree,
)
from pipeline.scheduler import Done


def gather(plan_: Plan, done: tuple[Done, ...]) -> Evidence:
    values = {each.id: each.value for each in done}
    architectures = list(dict.fromkeys(cell.architecture for cell in plan_.cells))
    targets = list(dict.fromkeys(cell.target for cell in plan_.cells))

    def those(prefix: str, names: list[str]) -> dict[str, object]:
        return {n: v for n in names if (v := values.get(f"{prefix}.{n}")) is not None}

    kernels = [kernel.name for kernel in plan_.scenario.kernels]
    opened = values.get("tree")
    return Evidence(
        tree=opened if isinstance(opened, Tree) else None,
        revisions={
            name: value
            for name, value in those("apply", kernels).items()
            if isinstance(value, Revision | ApplyFailure)
        },
        builds={
            (target, kernel): value
            for target in targets
            for kernel, value in those(f"build.{target}", kernels).items()
            if isinstance(value, Build | BuildFailure | ConfigFailure)
        },
        images={
            name: value
            for name, value in those("image", architectures).items()
            if isinstance(value, Image)
        },
        accelerators={
            name: value
            for name, value in those("accelerator", architectures).items()
            if isinstance(value, Accelerator)
        },
        boots=tuple(result for each in done for result in _attempts(each.value)),
        faults={each.id: each.fault for each in done if each.fault},
        spared={each.id: _why_spared(each) for each in done if each.blocked_by},
        cut=any(each.cut for each in done),
    )


def _attempts(value: object) -> tuple[BootResult, ...]:
    found = value if isinstance(value, tuple) else ()
    return tuple(each for each in found if isinstance(each, BootResult))


def _why_spared(done: Done) -> str:
    why = done.reason or "nothing on trial is left to compare with"
    return f"{why}: see {done.blocked_by}"
