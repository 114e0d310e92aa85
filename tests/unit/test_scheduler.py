from __future__ import annotations

import random
import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import budget, scheduler
from pipeline.budget import Budget, Node, Running
from pipeline.errors import InfraError, UserError
from pipeline.scheduler import Done
from pipeline.scope import Scope

ROOMY = Budget(cores=64, memory=1 << 20)


class AtOnce(Executor):
    """Runs everything in the caller's thread."""

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        future: Future[object] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


def run(
    nodes: list[Node], results: dict[str, object], scope: Scope | None = None
) -> dict[str, Done]:
    def work(node: Node) -> object:
        value = results.get(node.id, node.id)
        if isinstance(value, Exception):
            raise value
        return value

    done = scheduler.run(
        nodes,
        work,
        pools={"p": AtOnce()},
        usable=lambda value: value != "bad",
        scope=scope or Scope(),
        budget=ROOMY,
    )
    assert [each.id for each in done] == [node.id for node in nodes]
    return {each.id: each for each in done}


def node(name: str, *needs: str, after: tuple[str, ...] = ()) -> Node:
    return Node(id=name, pool="p", needs=needs, after=after)


def test_values_come_back_in_plan_order() -> None:
    done = run([node("b", "a"), node("a")], {})
    assert (done["a"].value, done["b"].value) == ("a", "b")


def test_behind_an_unusable_value_nothing_runs_and_the_first_cause_is_named() -> None:
    done = run([node("a"), node("b", "a"), node("c", "b"), node("d")], {"a": "bad"})
    assert (done["b"].blocked_by, done["c"].blocked_by) == ("a", "a")
    assert done["b"].value is None
    assert done["d"].value == "d"


def test_after_waits_but_does_not_block() -> None:
    done = run([node("a"), node("b", after=("a",))], {"a": InfraError("disk full")})
    assert done["a"].fault == "disk full"
    assert done["b"].value == "b"


@pytest.mark.parametrize(
    ("a", "b", "runs"), [("bad", "bad", False), ("bad", "b", True), ("a", "b", True)]
)
def test_one_of_several_is_enough(a: str, b: str, runs: bool) -> None:
    nodes = [node("a"), node("b"), Node(id="c", pool="p", any_of=("a", "b"))]
    done = run(nodes, {"a": a, "b": b})
    assert (done["c"].value, done["c"].blocked_by) == (("c", "") if runs else (None, "a"))


def test_two_nodes_of_one_name_are_refused() -> None:
    with pytest.raises(AssertionError, match="same name"):
        run([node("a"), node("a")], {})


def test_our_own_defect_is_a_fault_of_the_harness() -> None:
    done = run([node("a"), node("b", "a")], {"a": ValueError("oops")})
    assert "ktrial itself failed: ValueError: oops" in done["a"].fault
    assert done["b"].blocked_by == "a"


def test_bad_input_ends_the_run() -> None:
    with pytest.raises(UserError, match="lost"):
        run([node("a"), node("b")], {"a": UserError("lost")})


def test_nodes_that_wait_for_each_other_are_found() -> None:
    with pytest.raises(AssertionError, match="wait for each other"):
        run([node("a", "b"), node("b", "a")], {})


def test_a_cancelled_scope_cuts_what_is_not_over() -> None:
    scope, started = Scope(), threading.Event()

    def work(each: Node) -> object:
        if each.id == "a":
            return "a"
        started.set()
        scope.sleep(60)
        return "never"

    def stop() -> None:
        started.wait()
        scope.cancel()

    threading.Thread(target=stop).start()
    with ThreadPoolExecutor(1) as pool:
        done = scheduler.run(
            [node("a"), node("b", "a"), node("c", "b")],
            work,
            pools={"p": pool},
            usable=bool,
            scope=scope,
            budget=ROOMY,
        )
    assert [each.cut for each in done] == [False, True, True]
    assert done[0].value == "a"


@pytest.mark.parametrize("seed", range(50))
def test_every_node_is_reported_once_whatever_fails(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"n{i}" for i in range(rng.randint(1, 20))]
    nodes = [
        node(name, *rng.sample(names[:i], min(i, rng.randint(0, 3))))
        for i, name in enumerate(names)
    ]
    rng.shuffle(nodes)
    faults = [InfraError("x"), "bad", RuntimeError("y"), "fine", "fine", "fine"]
    results = {name: rng.choice(faults) for name in names}
    done = run(nodes, results)
    for each in nodes:
        bad_needs = [n for n in each.needs if done[n].value in (None, "bad")]
        assert bool(done[each.id].blocked_by) == bool(bad_needs)


# ------------------------------------------------------------------ cores and memory


class Host:
    """Does the work of nodes in real threads, and sees what runs beside what."""

    def __init__(self, whole: Budget, pause: float = 0.001) -> None:
        self.budget, self.pause = whole, pause
        self.lock = threading.Lock()
        self.active: list[Node] = []
        self.begun: list[str] = []
        self.broken: list[str] = []

    def work(self, each: Node) -> object:
        with self.lock:
            self.active.append(each)
            self.begun.append(each.id)
            self.broken += broken(self.active, self.budget)
        time.sleep(self.pause)
        with self.lock:
            self.active.remove(each)
        return "fine"

    def run(self, nodes: list[Node]) -> list[Done]:
        with ThreadPoolExecutor(len(nodes) or 1) as pool:
            return list(
                scheduler.run(
                    nodes,
                    self.work,
                    pools={"p": pool, "q": pool},
                    usable=bool,
                    scope=Scope(60),
                    budget=self.budget,
                )
            )


def broken(active: list[Node], whole: Budget) -> list[str]:
    """The rules of the budget that nodes beside each other break."""
    names = [each.id for each in active]
    busy = [each for each in active if each.cores]
    alone = [each for each in busy if each.exclusive or each.cores >= whole.cores]
    rules = {
        "cores": sum(min(each.cores, whole.cores) for each in active) > whole.cores + 1e-6,
        "memory": sum(each.memory for each in active) > whole.memory,
        "alone": bool(alone) and len(busy) > 1,
        **{
            f"pool {pool}": sum(each.pool == pool for each in active) > most
            for pool, most in whole.at_most.items()
        },
    }
    return [f"{rule}: {names}" for rule, is_broken in rules.items() if is_broken]


SMALL = Budget(cores=4, memory=1000, at_most={"q": 1})


@st.composite
def plans(draw: st.DrawFn) -> list[Node]:
    count = draw(st.integers(0, 12))
    found: list[Node] = []
    for number in range(count):
        before = st.lists(st.sampled_from([each.id for each in found]), max_size=2, unique=True)
        links = [tuple(draw(before)) if found else () for _ in range(3)]
        found.append(
            Node(
                id=f"n{number}",
                pool=draw(st.sampled_from("pq")),
                needs=links[0],
                any_of=links[1],
                after=links[2],
                cores=draw(st.sampled_from([0, 0.5, 1, 2, 3, 4, 9])),
                memory=draw(st.sampled_from([0, 1, 300, 1000, 1001])),
                exclusive=draw(st.booleans()),
                seconds=draw(st.sampled_from([0, 0.1, 0.3, 1, 7])),
            )
        )
    return draw(st.permutations(found))


@settings(deadline=None, max_examples=120)
@given(plans())
def test_whatever_the_plan_every_node_comes_out_once_and_the_budget_holds(
    nodes: list[Node],
) -> None:
    host = Host(SMALL)
    done = host.run(nodes)
    assert host.broken == []
    assert [each.id for each in done] == [each.id for each in nodes]
    assert sorted(host.begun) == sorted(each.id for each in done if each.value)
    for each, result in zip(nodes, done, strict=True):
        assert result.value or result.fault or result.blocked_by
        assert bool(result.fault) == (each.memory > SMALL.memory and not result.blocked_by)


@settings(deadline=None, max_examples=120)
@given(plans())
def test_a_forecast_keeps_the_budget_and_the_order(nodes: list[Node]) -> None:
    forecast = scheduler.simulate(nodes, SMALL)
    by_id = {each.id: each for each in nodes if each.id in forecast.starts}
    ends = {name: forecast.starts[name] + each.seconds for name, each in by_id.items()}
    assert forecast.seconds == pytest.approx(max(ends.values(), default=0.0))
    for name, each in by_id.items():
        at = forecast.starts[name]
        assert all(ends[other] <= at + 1e-6 for other in each.needs)
        beside = [
            by_id[other]
            for other, began in forecast.starts.items()
            if began <= at and ends[other] > at + 1e-6
        ]
        assert broken(beside, SMALL) == []


def test_nodes_start_beside_each_other_as_far_as_cores_and_memory_go() -> None:
    nodes = [Node(id=f"n{i}", pool="p", cores=1, memory=300) for i in range(6)]
    for whole, most in ((SMALL, 3), (Budget(cores=2, memory=9000), 2), (ROOMY, 6)):
        seen: set[int] = set()
        barrier = threading.Barrier(most)

        def work(_: Node, barrier: threading.Barrier = barrier, seen: set[int] = seen) -> object:
            seen.add(barrier.wait(10))  # breaks where fewer than `most` run at once
            return "fine"

        with ThreadPoolExecutor(6) as pool:
            done = scheduler.run(
                nodes, work, pools={"p": pool}, usable=bool, scope=Scope(60), budget=whole
            )
        assert [each.fault for each in done] == [""] * 6
        assert seen == set(range(most))


def test_more_memory_than_there_is_can_never_start_and_says_the_figures() -> None:
    nodes = [
        Node(id="huge", pool="p", memory=1001),
        Node(id="behind", pool="p", needs=("huge",)),
        Node(id="then", pool="p", after=("huge",), memory=1000),
        Node(id="huge too", pool="p", after=("huge",), memory=2000),
    ]
    done = {each.id: each for each in Host(SMALL).run(nodes)}
    assert "1001 MiB" in done["huge"].fault
    assert "1000" in done["huge"].fault
    assert done["behind"].blocked_by == "huge"
    assert done["then"].value == "fine"
    assert "2000 MiB" in done["huge too"].fault


def test_more_cores_than_there_are_means_alone_on_the_host() -> None:
    nodes = [Node(id="smp64", pool="p", cores=64, seconds=1)]
    nodes += [Node(id=f"n{i}", pool="p", cores=1, seconds=1) for i in range(2)]
    forecast = scheduler.simulate(nodes, SMALL)
    assert forecast.starts == {"smp64": 0.0, "n0": 1.0, "n1": 1.0}
    assert forecast.cores == 4


def test_a_forecast_takes_the_longest_chain_first_and_adds_up() -> None:
    nodes = [
        Node(id="short", pool="p", cores=1, memory=10, seconds=5),
        Node(id="first of two", pool="p", cores=1, memory=20, seconds=2),
        Node(id="second of two", pool="p", cores=1, memory=40, needs=("first of two",), seconds=4),
        Node(id="light", pool="p", seconds=1),
    ]
    forecast = scheduler.simulate(nodes, Budget(cores=1, memory=100))
    assert forecast.starts == {"first of two": 0, "light": 0, "short": 2, "second of two": 7}
    assert (forecast.seconds, forecast.memory, forecast.cores) == (11, 40, 1)
    assert scheduler.simulate(nodes, Budget(cores=2, memory=100)).seconds == 6


def test_a_forecast_of_hundreds_of_boots_takes_no_time() -> None:
    builds = tuple(f"b{i}" for i in range(20))
    nodes = [Node(id=name, pool="b", cores=2, seconds=100) for name in builds]
    for cell in range(200):
        for boot in range(6):
            before = (*builds, f"c{cell}.{boot - 1}") if boot else builds
            nodes.append(
                Node(
                    id=f"c{cell}.{boot}",
                    pool="p",
                    after=before,
                    cores=cell % 4,
                    memory=512,
                    seconds=5 + cell % 7,
                    exclusive=cell % 5 == 0,
                )
            )
    started = time.monotonic()
    assert scheduler.simulate(nodes, Budget(cores=8, memory=16384)).seconds > 2000
    assert time.monotonic() - started < 10


# ------------------------------------------------------------------ who may pass whom


def under_way(cores: float, left: float, memory: int = 0) -> Running:
    return Running(node=Node(id="r", pool="p", cores=cores, memory=memory), left=left)


BIG = Node(id="big", pool="p", cores=4, seconds=9)


@pytest.mark.parametrize(
    ("small", "passes"),
    [
        (Node(id="s", pool="p", cores=1, seconds=4), True),  # over before the big one can start
        (Node(id="s", pool="p", cores=1, seconds=6), False),  # would hold it up
        (Node(id="s", pool="p", cores=1), False),  # nobody knows
        (Node(id="s", pool="p", seconds=100), True),  # takes nothing that it needs
        (Node(id="s", pool="p", memory=900, seconds=100), True),
    ],
)
def test_a_head_that_does_not_fit_is_passed_only_by_what_does_not_delay_it(
    small: Node, passes: bool
) -> None:
    running = [under_way(2, left=5), under_way(1, left=1)]
    assert budget.pick([BIG, small], running, SMALL) == ((small,) if passes else ())


def test_what_a_head_leaves_over_can_be_had_for_as_long_as_one_likes() -> None:
    head = Node(id="head", pool="p", cores=2, seconds=9)
    long = [Node(id=f"l{i}", pool="p", cores=1, seconds=99) for i in range(2)]
    running = [under_way(3, left=5)]
    assert budget.pick([head, *long], running, SMALL) == (long[0],)
    # Once the running one ends there are 4: the head takes 2, which leaves room for both.
    assert budget.pick([head, *long], [under_way(2, left=5)], SMALL) == (head,)


def test_what_is_late_may_end_at_any_moment_so_that_nothing_passes_for_its_sake() -> None:
    running = [under_way(2, left=0)]
    assert budget.pick([BIG, Node(id="s", pool="p", cores=1, seconds=0.1)], running, SMALL) == ()


def test_an_exclusive_node_waits_for_a_free_host_and_short_ones_go_first() -> None:
    timed = Node(id="timed", pool="p", cores=1, exclusive=True, seconds=10)
    short = Node(id="short", pool="p", cores=1, seconds=2)
    later = Node(id="later", pool="p", cores=1, seconds=5)
    light = Node(id="light", pool="p", seconds=99)
    running = [under_way(1, left=3)]
    assert budget.pick([timed, later, short, light], running, SMALL) == (short, light)
    assert budget.pick([timed, later, light], [], SMALL) == (timed, light)


def test_a_full_pool_holds_nobody_else_up() -> None:
    first, second = (Node(id=f"q{i}", pool="q", cores=1, seconds=9) for i in range(2))
    other = Node(id="p", pool="p", cores=3, seconds=99)
    assert budget.pick([first, second, other], [], SMALL) == (first, other)


@pytest.mark.parametrize(
    ("nodes", "most"),
    [
        ([Node(id=f"n{i}", pool="p", cores=1, memory=300) for i in range(9)], 3),
        ([Node(id=f"n{i}", pool="p", cores=2) for i in range(9)], 2),
        ([Node(id=f"n{i}", pool="p", cores=9) for i in range(9)], 1),
        ([Node(id="n", pool="p", memory=5000)], 1),
        ([], 1),
    ],
)
def test_a_pool_has_a_worker_for_each_that_can_run_at_once(nodes: list[Node], most: int) -> None:
    assert budget.guests_at_most(nodes, SMALL) == most


# ------------------------------------------------------------------ the first failure


def test_fail_fast_starts_nothing_more_and_lets_what_runs_end() -> None:
    second_runs = threading.Event()

    def work(each: Node) -> object:
        if each.id == "fails":
            second_runs.wait(10)
            return "failed"
        second_runs.set()
        time.sleep(0.05)
        return "fine"

    nodes = [
        Node(id="fails", pool="p", cores=2),
        Node(id="beside", pool="p", cores=2),
        Node(id="ready", pool="p", cores=2),
        Node(id="behind", pool="p", after=("ready",)),
    ]
    told: list[str] = []
    with ThreadPoolExecutor(4) as pool:
        done = scheduler.run(
            nodes,
            work,
            pools={"p": pool},
            usable=bool,
            scope=Scope(60),
            budget=SMALL,
            on_done=lambda each: told.append(each.id),
            fail_fast=lambda each: each.value == "failed",
        )
    assert [each.value for each in done] == ["failed", "fine", None, None]
    assert [each.blocked_by for each in done] == ["", "", "fails", "fails"]
    assert {each.reason for each in done[2:]} == {scheduler.FAIL_FAST}
    assert sorted(told) == sorted(each.id for each in nodes)


def test_one_place_in_a_pool_never_runs_two() -> None:
    host = Host(SMALL)
    host.run([Node(id=f"n{i}", pool="q") for i in range(5)])
    assert host.broken == []
