"""What a plan's nodes ask of the host, and which of them may start next. Pure.

The one rule, for real runs and for forecasts alike (`pick`): the node with the longest chain
of work behind it comes first. Where it does not fit, it is the *head*, and another may pass
it only where the head is expected to start no later for that. So small nodes fill gaps, and a
large or exclusive node is never passed by for ever.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

# Loads are sums of fractions of a core.
TINY = 1e-9


@dataclass(frozen=True, kw_only=True)
class Node:
    """All of `needs` must have come to something usable, and one of `any_of` where there are
    any; `after` must only be over.

    `cores` of the host (0: none worth counting; a fraction where a guest that measures nothing
    is idle for a while) and `memory` in MiB are its own while it runs; `exclusive` stands for all
    cores. `seconds`: how long it is expected to take, 0 where that is unknown. `job` says what
    is to be done, to the one who does it.
    """

    id: str
    pool: str
    job: object = None
    needs: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    cores: float = 0.0
    memory: int = 0
    exclusive: bool = False
    seconds: float = 0.0

    @property
    def behind(self) -> tuple[str, ...]:
        """Every node that must be over before this one starts, each named once."""
        return tuple(dict.fromkeys((*self.needs, *self.any_of, *self.after)))


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What all nodes that run at once may take: `cores`, `memory` in MiB, and of a pool named
    in `at_most` so many nodes (as many as it has workers: a node that waits for a worker would
    hold its share for nothing)."""

    cores: float
    memory: int
    at_most: Mapping[str, int] = field(default_factory=dict)

    def cores_of(self, node: Node) -> float:
        """A node that asks for more than there is gets all: its vCPUs share the cores then."""
        return self.cores if node.exclusive else min(node.cores, self.cores)

    def refusal(self, node: Node) -> str:
        """Why a node can never start, "" where it can."""
        if node.memory <= self.memory:
            return ""
        return f"needs {node.memory} MiB of memory, and all guests together may have {self.memory}"


@dataclass(frozen=True, kw_only=True)
class Running:
    """A node under way and the seconds that it is expected to take yet, never below 0."""

    node: Node
    left: float


def chains(nodes: Sequence[Node]) -> Mapping[str, float]:
    """Of each node: expected seconds from its start to the end of the longest chain that it
    heads. Nodes that wait for each other have 0: they never start."""
    by_id = {node.id: node for node in nodes}
    followers: dict[str, list[str]] = {node.id: [] for node in nodes}
    for node in nodes:
        for before in node.behind:
            followers.setdefault(before, []).append(node.id)
    found: dict[str, float] = {}
    try:
        order = list(TopologicalSorter(followers).static_order())
    except CycleError:
        return dict.fromkeys(by_id, 0.0)
    for name in order:  # those that come last in a run come first here
        longest = max((found[each] for each in followers[name]), default=0.0)
        found[name] = longest + (by_id[name].seconds if name in by_id else 0.0)
    return {name: found[name] for name in by_id}


def pick(ready: Iterable[Node], running: Sequence[Running], budget: Budget) -> tuple[Node, ...]:
    """The nodes to start now. `ready` comes in the order of their right to start."""
    under_way, chosen, head = list(running), [], None
    for node in ready:
        if _pool_is_full(node, under_way, budget):
            continue
        if not _fits(node, under_way, budget):
            head = head or node
            continue
        if head and _delays(node, head, under_way, budget):
            continue
        under_way.append(Running(node=node, left=node.seconds))
        chosen.append(node)
    return tuple(chosen)


def guests_at_most(nodes: Iterable[Node], budget: Budget) -> int:
    """A bound on how many of the nodes run at once: so many workers are enough."""
    found = list(nodes)
    by_cores = _at_most((budget.cores_of(node) for node in found), budget.cores + TINY)
    return max(1, min(by_cores, _at_most((node.memory for node in found), budget.memory)))


def _at_most(shares: Iterable[float], whole: float) -> int:
    """How many of the shares, the smallest first, fit into the whole."""
    count = 0
    for share in sorted(shares):
        whole -= share
        if whole < 0:
            break
        count += 1
    return count


def _pool_is_full(node: Node, running: Sequence[Running], budget: Budget) -> bool:
    limit = budget.at_most.get(node.pool)
    return limit is not None and sum(each.node.pool == node.pool for each in running) >= limit


def _fits(node: Node, running: Sequence[Running], budget: Budget) -> bool:
    cores = sum(budget.cores_of(each.node) for each in running)
    memory = sum(each.node.memory for each in running)
    return (
        cores + budget.cores_of(node) <= budget.cores + TINY
        and memory + node.memory <= budget.memory
    )


def _delays(node: Node, head: Node, running: Sequence[Running], budget: Budget) -> bool:
    """Whether the head would have to wait longer with one more node under way.

    One of unknown length may take for ever, while others of unknown length may end at once.
    """
    added = Running(node=node, left=node.seconds or math.inf)
    return _wait(head, [*running, added], budget) > _wait(head, running, budget)


def _wait(head: Node, running: Sequence[Running], budget: Budget) -> float:
    """Seconds until the head is expected to fit. What is late may end at any moment: 0."""
    waiting = sorted(running, key=lambda each: each.left)
    passed = 0.0
    while waiting and not _fits(head, waiting, budget):
        passed = waiting.pop(0).left
    return passed
