"""Runs the nodes of a plan, each as soon as what it needs is there and the host has room.

It knows no stage: the work is a callable that it is given. Work goes to executors of
`concurrent.futures`, one per pool, so that a Dask client's executor fits as well. Which of the
ready nodes starts is `budget.pick`'s decision, here as in `simulate`.
"""

from __future__ import annotations

import errno
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from pathlib import Path

from pipeline import budget as budgets
from pipeline.budget import Budget, Node, Running
from pipeline.errors import Cancelled, InfraError, UserError
from pipeline.scope import Scope

POLL_SECONDS = 0.2
FAIL_FAST = "not started: the run ends at the first failure"

# Not our doing, and not the series' either.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})


@dataclass(frozen=True, kw_only=True)
class Done:
    """What became of a node: a value, a fault of the harness, or blocked by another node.

    `reason`: why it is blocked, where that is not what the other one came to.
    """

    id: str
    value: object | None = None
    fault: str = ""
    blocked_by: str = ""
    reason: str = ""
    cut: bool = False


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """How a plan is expected to go: seconds in all, the most MiB and cores at once, and the
    second in which each node starts."""

    seconds: float
    memory: int
    cores: float
    starts: Mapping[str, float]


def run(
    nodes: Iterable[Node],
    work: Callable[[Node], object],
    *,
    pools: Mapping[str, Executor],
    usable: Callable[[object], bool],
    scope: Scope,
    budget: Budget,
    on_done: Callable[[Done], None] = lambda _: None,
    fail_fast: Callable[[Done], bool] = lambda _: False,
) -> tuple[Done, ...]:
    """Run every node; the results come in the order of `nodes`, one for each.

    Without a budget as many run at once as the pools have workers.

    A node whose need came to nothing usable is not run, and so on behind it. One that needs
    more memory than there is in all is a fault. A UserError ends the whole run and is raised
    once what was under way has stopped. When the scope is cancelled, nodes under way or
    waiting come out as `cut`. Once `fail_fast` says so of a result, what is under way goes
    on to its end, and everything else is blocked by that node.
    """
    board = _Board(nodes, budget, usable, _stopper(on_done, fail_fast))
    futures: dict[Future[object], Node] = {}
    failure: UserError | None = None
    while not board.over():
        if scope.cancelled:
            _cut(board, futures)
            break
        for node in board.start(time.monotonic()):
            futures[pools[node.pool].submit(work, node)] = node
        if not futures and not board.over():
            raise AssertionError("the plan's nodes wait for each other")
        for future in wait(futures, POLL_SECONDS, FIRST_COMPLETED).done:
            node = futures.pop(future)
            try:
                board.finish(_result(node, future))
            except UserError as error:
                failure = failure or error
                scope.cancel()
    if failure:
        raise failure
    return board.results()


def simulate(nodes: Iterable[Node], budget: Budget) -> Forecast:
    """What `run` would do if each node took just its expected seconds and came to something."""
    board = _Board(nodes, budget, lambda _: True, lambda _: False)
    now, memory, cores = 0.0, 0, 0.0
    starts: dict[str, float] = {}
    while not board.over():
        starts |= dict.fromkeys((node.id for node in board.start(now)), now)
        if board.over():
            break
        under_way = board.running(now)
        if not under_way:
            raise AssertionError("the plan's nodes wait for each other")
        memory = max(memory, sum(each.node.memory for each in under_way))
        cores = max(cores, sum(budget.cores_of(each.node) for each in under_way))
        first = min(under_way, key=lambda each: each.left)
        now += first.left
        board.finish(Done(id=first.node.id))
    return Forecast(seconds=now, memory=memory, cores=cores, starts=starts)


def _stopper(
    on_done: Callable[[Done], None], fail_fast: Callable[[Done], bool]
) -> Callable[[Done], bool]:
    """Tells of each result, and says whether nothing more is to be started for it."""

    def tell(result: Done) -> bool:
        on_done(result)
        return fail_fast(result)

    return tell


class _Board:
    """Which nodes wait, are ready, are under way and are over. `tell` is given each result and
    answers true where nothing more is to start."""

    def __init__(
        self,
        nodes: Iterable[Node],
        budget: Budget,
        usable: Callable[[object], bool],
        tell: Callable[[Done], bool],
    ) -> None:
        order = list(nodes)
        self._order = {node.id: node for node in order}
        if len(self._order) < len(order):
            raise AssertionError("two nodes of the plan have the same name")
        self._budget, self._usable, self._tell = budget, usable, tell
        chain = budgets.chains(order)
        # The longest chain first, then the order of the plan.
        self._rank = {
            name: place
            for place, name in enumerate(sorted(self._order, key=lambda name: -chain[name]))
        }
        self._open = {node.id: len(node.behind) for node in order}
        self._followers: dict[str, list[Node]] = {}
        for node in order:
            for before in node.behind:
                self._followers.setdefault(before, []).append(node)
        self._ready = {name for name, count in self._open.items() if not count}
        self._started: dict[str, float] = {}
        self._done: dict[str, Done] = {}
        self._stopped_by = ""

    def over(self) -> bool:
        return len(self._done) == len(self._order)

    def results(self) -> tuple[Done, ...]:
        return tuple(self._done[name] for name in self._order)

    def start(self, now: float) -> tuple[Node, ...]:
        """Mark what starts now as under way. What cannot ever start is settled on the way."""
        while refused := [node for node in self._by_right() if self._budget.refusal(node)]:
            self._settle(Done(id=refused[0].id, fault=self._budget.refusal(refused[0])))
        chosen = budgets.pick(self._by_right(), self.running(now), self._budget)
        for node in chosen:
            self._ready.remove(node.id)
            self._started[node.id] = now
        return chosen

    def _by_right(self) -> list[Node]:
        return [self._order[name] for name in sorted(self._ready, key=self._rank.__getitem__)]

    def running(self, now: float) -> list[Running]:
        under_way = ((self._order[name], began) for name, began in self._started.items())
        return [
            Running(node=node, left=max(0.0, began + node.seconds - now))
            for node, began in under_way
        ]

    def finish(self, result: Done) -> None:
        """Take the result of a node that was under way."""
        del self._started[result.id]
        self._settle(result)

    def cut(self) -> None:
        """Everything that is not over was cut."""
        for name in self._order:
            if name not in self._done:
                self._started.pop(name, None)
                self._settle(Done(id=name, cut=True))

    def _settle(self, first: Done) -> None:
        """Note a result and what follows from it: nodes that are ready now, or never."""
        settled = [first]
        while settled:
            result = settled.pop(0)
            if result.id in self._done:
                continue
            self._done[result.id] = result
            self._ready.discard(result.id)
            if self._tell(result) and not self._stopped_by:
                self._stopped_by = result.id
                settled += self._not_started()
            if result.cut:  # the run is at its end: what follows is cut, not blocked
                continue
            for node in self._followers.get(result.id, ()):
                self._open[node.id] -= 1
                if node.id not in self._done and node.id not in self._started:
                    settled += self._follow(node)

    def _follow(self, node: Node) -> list[Done]:
        """A node behind one that is over now: blocked, ready, or still waiting for others."""
        if bad := self._blocker(node):
            return [Done(id=node.id, blocked_by=self._done[bad].blocked_by or bad)]
        if not self._open[node.id]:
            self._ready.add(node.id)
        return []

    def _not_started(self) -> list[Done]:
        waiting = [n for n in self._order if n not in self._done and n not in self._started]
        return [Done(id=n, blocked_by=self._stopped_by, reason=FAIL_FAST) for n in waiting]

    def _blocker(self, node: Node) -> str | None:
        """The node because of which this one can never run, if there is one already."""
        bad = [n for n in (*node.needs, *node.any_of) if n in self._done and not self._good(n)]
        needed = [n for n in bad if n in node.needs]
        if needed:
            return needed[0]
        return bad[0] if node.any_of and len(bad) == len(node.any_of) else None

    def _good(self, name: str) -> bool:
        result = self._done[name]
        return not (result.fault or result.blocked_by or result.cut) and self._usable(result.value)


def _result(node: Node, future: Future[object]) -> Done:
    try:
        return Done(id=node.id, value=future.result())
    except UserError:
        raise
    except Cancelled:
        return Done(id=node.id, cut=True)
    except InfraError as error:
        return Done(id=node.id, fault=str(error))
    except OSError as error:
        if error.errno in NO_ROOM:
            return Done(id=node.id, fault=f"the host's disk: {error}")
        return Done(id=node.id, fault=f"ktrial itself failed: {error} ({_where(error)})")
    except Exception as error:  # a defect of ours: never charged to the patch, never hidden
        what = f"{type(error).__name__}: {error}".rstrip(": ")
        return Done(id=node.id, fault=f"ktrial itself failed: {what} ({_where(error)})")


def _where(error: BaseException) -> str:
    """The last place of ours in a traceback: a defect must be findable from the result."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).parent == Path(__file__).parent]
    last = (own or frames)[-1]
    return f"{Path(last.filename).name}:{last.lineno} in {last.name}"


def _cut(board: _Board, futures: Mapping[Future[object], Node]) -> None:
    """Wait for what is under way to let go, and mark everything that is not over as cut."""
    for future in futures:
        future.cancel()
    wait(futures)
    for future, node in futures.items():
        if not future.cancelled() and future.exception() is None:
            board.finish(Done(id=node.id, value=future.result()))
    board.cut()
