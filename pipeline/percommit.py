"""A series as a chain of kernels, one for each of its patches, so that each is built. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pipeline.model import KernelPlan, Role, Series


def split(kernels: Iterable[KernelPlan]) -> tuple[KernelPlan, ...]:
    """The kernels, with one in front of each on trial for every patch of it but the last.

    They stand on each other (`on`) and do not boot; the last keeps its name and what stands on it.
    """
    return tuple(each for kernel in kernels for each in _chain(kernel))


def _chain(kernel: KernelPlan) -> Iterator[KernelPlan]:
    series = kernel.series
    if kernel.role is not Role.PATCHED or series is None or len(series.patches) < 2:
        yield kernel
        return
    below = kernel.on
    for patch in series.patches[:-1]:
        name = f"{kernel.name}-{patch.number}"
        its = _one(series, patch.number)
        commit = patch.commit if kernel.commit else None
        yield replace(kernel, name=name, on=below, series=its, commit=commit, boots=False)
        below = name
    yield replace(kernel, on=below, series=_one(series, series.patches[-1].number))


def _one(series: Series, number: int) -> Series:
    """The series with one of its patches. What is said of it as a whole stays with the last."""
    patches = tuple(each for each in series.patches if each.number == number)
    whole = len(series.patches)
    if number == series.patches[-1].number:
        return replace(series, patches=patches, of=whole)
    return replace(series, patches=patches, of=whole, notes=(), problems=(), left_out=())
