from __future__ import annotations

import random
import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import pytest

from pipeline import scheduler
from pipeline.errors import InfraError, UserError
from pipeline.scheduler import Done, Node
from pipeline.scope import Scope


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


def test_one_worker_of_a_pool_never_runs_two() -> None:
    active, most = 0, 0
    lock = threading.Lock()

    def work(_: Node) -> object:
        nonlocal active, most
        with lock:
            active += 1
            most = max(most, active)
        time.sleep(0.01)
        with lock:
            active -= 1
        return "x"

    with ThreadPoolExecutor(1) as pool:
        scheduler.run(
            [node(f"n{i}") for i in range(5)],
            work,
            pools={"p": pool},
            usable=bool,
            scope=Scope(),
        )
    assert most == 1
