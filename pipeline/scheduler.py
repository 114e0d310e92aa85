"""Runs the nodes of a plan, each as soon as what it needs is there.

It knows no stage: the work is a callable that it is given. Work goes to executors of
`concurrent.futures`, one per pool, so that a Dask client's executor fits as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass

from pipeline.errors import Cancelled, InfraError, UserError
from pipeline.scope import Scope

POLL_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class Node:
    """All of `needs` must have come to something usable, and one of `any_of` where there are
    any; `after` must only be over.

    `job` says what is to be done, to the one who does it.
    """

    id: str
    pool: str
    job: object = None
    needs: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Done:
    """What became of a node: a value, a fault of the harness, or blocked by another node."""

    id: str
    value: object | None = None
    fault: str = ""
    blocked_by: str = ""
    cut: bool = False


def run(
    nodes: Iterable[Node],
    work: Callable[[Node], object],
    *,
    pools: Mapping[str, Executor],
    usable: Callable[[object], bool],
    scope: Scope,
    on_done: Callable[[Done], None] = lambda _: None,
) -> tuple[Done, ...]:
    """Run every node; the results come in the order of `nodes`, one for each.

    A node whose need came to nothing usable is not run, and so on behind it. A UserError
    ends the whole run and is raised once what was under way has stopped. When the scope is
    cancelled, nodes under way or waiting come out as `cut`.
    """
    order = list(nodes)
    if len({node.id for node in order}) < len(order):
        raise AssertionError("two nodes of the plan have the same name")
    done: dict[str, Done] = {}
    futures: dict[Future[object], Node] = {}
    failure: UserError | None = None

    def settle(result: Done) -> None:
        done[result.id] = result
        on_done(result)

    while len(done) < len(order):
        if scope.cancelled:
            _cut(order, done, futures, settle)
            break
        over = len(done)
        _start_ready(order, done, futures, settle, work=work, pools=pools, usable=usable)
        if not futures and len(done) == over:
            raise AssertionError("the plan's nodes wait for each other")
        for future in wait(futures, POLL_SECONDS, FIRST_COMPLETED).done:
            node = futures.pop(future)
            try:
                settle(_result(node, future))
            except UserError as error:
                failure = failure or error
                scope.cancel()
    if failure:
        raise failure
    return tuple(done[node.id] for node in order)


def _result(node: Node, future: Future[object]) -> Done:
    try:
        return Done(id=node.id, value=future.result())
    except UserError:
        raise
    except Cancelled:
        return Done(id=node.id, cut=True)
    except InfraError as error:
        return Done(id=node.id, fault=str(error))
    except Exception as error:  # a defect of ours: never charged to the patch, never hidden
        return Done(id=node.id, fault=f"ktrial itself failed: {type(error).__name__}: {error}")


def _start_ready(
    order: list[Node],
    done: dict[str, Done],
    futures: dict[Future[object], Node],
    settle: Callable[[Done], None],
    *,
    work: Callable[[Node], object],
    pools: Mapping[str, Executor],
    usable: Callable[[object], bool],
) -> None:
    """Submit what can start, in plan order; mark what never can."""
    running = {node.id for node in futures.values()}
    for node in order:
        if node.id in done or node.id in running:
            continue
        bad = _blocker(node, done, usable)
        if bad:
            settle(Done(id=node.id, blocked_by=done[bad].blocked_by or bad))
        elif all(n in done for n in (*node.needs, *node.any_of, *node.after)):
            futures[pools[node.pool].submit(work, node)] = node
            running.add(node.id)


def _blocker(node: Node, done: Mapping[str, Done], usable: Callable[[object], bool]) -> str | None:
    """The node because of which this one can never run, if there is one already."""
    bad = [n for n in (*node.needs, *node.any_of) if n in done and not _good(done[n], usable)]
    needed = [n for n in bad if n in node.needs]
    if needed:
        return needed[0]
    return bad[0] if node.any_of and len(bad) == len(node.any_of) else None


def _good(result: Done, usable: Callable[[object], bool]) -> bool:
    return not (result.fault or result.blocked_by or result.cut) and usable(result.value)


def _cut(
    order: list[Node],
    done: dict[str, Done],
    futures: dict[Future[object], Node],
    settle: Callable[[Done], None],
) -> None:
    """Wait for what is under way to let go, and mark everything that is not over as cut."""
    for future in futures:
        future.cancel()
    wait(futures)
    for future, node in futures.items():
        if not future.cancelled() and future.exception() is None:
            settle(Done(id=node.id, value=future.result()))
    for node in order:
        if node.id not in done:
            settle(Done(id=node.id, cut=True))
