"""How a run goes on: S4's derivations, one by one."""

from __future__ import annotations

from random import Random

import pytest

from taskflow_domain.advance import advance, commands
from taskflow_domain.draft import MissingNodes
from taskflow_domain.run_events import Begun, Dispatch, InstanceEnded, Run, State
from taskflow_domain.run_nodes import FRESH, first_of, instance_id, spans_of
from taskflow_domain.run_plan import Plan
from taskflow_domain.run_states import RunStatus, TaskStatus
from taskflow_domain.workflow import OnFailure, Task, Workflow
from tests.support.run_player import Fate, Player

PENDING, RUNNING = TaskStatus.PENDING, TaskStatus.RUNNING
SUCCESS, FAILED = TaskStatus.SUCCESS, TaskStatus.FAILED
SKIPPED, CANCELLED = TaskStatus.SKIPPED, TaskStatus.CANCELLED


def workflow(
    *tasks: Task, max_parallel: int | None = None, on_success: Task | None = None, on_failure: Task | None = None
) -> Workflow:
    by_name = {task.name: task for task in tasks}
    return Workflow("etl", by_name, max_parallel=max_parallel, on_success=on_success, on_failure=on_failure)


def chain(*names: str) -> list[Task]:
    return [Task(name, depends_on=names[place - 1 : place] if place else ()) for place, name in enumerate(names)]


def play(flow: Workflow, **fates: Fate) -> Player:
    player = Player(flow, dict.fromkeys([*flow.tasks, "on_success", "on_failure"], Fate()) | fates, Random(1))
    player.play()
    return player


def failing(*indexes: int, count: int = 1) -> Fate:
    return Fate(count=count, outcomes=dict.fromkeys(indexes, FAILED))


# Tasks, and those that need them


def test_a_chain_runs_in_order() -> None:
    player = play(workflow(*chain("a", "b", "c")))
    assert player.status() is RunStatus.SUCCESS
    assert list(player.made) == [("a", 0, 0), ("b", 0, 0), ("c", 0, 0)]


def test_what_needs_a_failed_task_is_skipped_and_says_why() -> None:
    player = play(workflow(*chain("a", "b", "c"), Task("d")), a=failing(0))
    assert player.status() is RunStatus.FAILED
    assert player.statuses() == {"a": FAILED, "b": SKIPPED, "c": SKIPPED, "d": SUCCESS}
    assert player.nodes["b"].why == "a failed"
    assert player.nodes["c"].why == "b was skipped"
    assert (player.run.ok, player.run.failed, player.run.skipped, player.run.left) == (1, 1, 2, 0)


def test_a_task_may_want_to_run_whatever_became_of_the_others() -> None:
    after = Task("after", depends_on=("a", "b"), on_failure=OnFailure.RUN)
    player = play(workflow(Task("a"), Task("b"), after), a=failing(0))
    assert player.statuses()["after"] is SUCCESS
    assert player.status() is RunStatus.FAILED


def test_a_task_whose_condition_is_false_is_skipped_and_the_run_succeeds() -> None:
    player = play(workflow(*chain("a", "b"), Task("c")), a=Fate(unwanted=True))
    assert player.statuses() == {"a": SKIPPED, "b": SKIPPED, "c": SUCCESS}
    assert player.status() is RunStatus.SUCCESS


def test_a_task_that_cannot_be_worked_out_fails_with_a_sentence() -> None:
    player = play(workflow(Task("a")), a=Fate(unclear=True))
    assert player.statuses() == {"a": FAILED}
    assert player.nodes["a"].why == "its condition makes no sense"


def test_a_join_is_reached_by_every_ending() -> None:
    parents = [Task(name) for name in "abc"]
    join = Task("join", depends_on=("a", "b", "c"), on_failure=OnFailure.RUN)
    player = play(workflow(*parents, join), a=failing(0), b=Fate(unwanted=True))
    assert player.statuses()["join"] is SUCCESS


def test_a_chain_of_ten_thousand_is_skipped_without_recursion() -> None:
    player = play(workflow(*chain(*(f"t{place}" for place in range(10_000)))), t0=failing(0))
    assert player.run.skipped == 9_999
    assert player.status() is RunStatus.FAILED


# Fan-outs


def test_a_fan_out_succeeds_when_all_of_it_has() -> None:
    player = play(workflow(Task("a", parallel=5), Task("b", depends_on=("a",))), a=Fate(count=5))
    assert player.status() is RunStatus.SUCCESS
    assert [key for key in player.made if key[0] == "a"] == [("a", index, 0) for index in range(5)]


def test_a_fan_out_over_nothing_succeeds_at_once() -> None:
    player = play(workflow(Task("a", foreach=[]), Task("b", depends_on=("a",))), a=Fate(count=0))
    assert player.status() is RunStatus.SUCCESS
    assert set(player.made) == {("b", 0, 0)}


def test_a_fan_out_of_which_one_failed_has_failed_when_all_have_ended() -> None:
    player = play(workflow(Task("a", parallel=5)), a=failing(2, count=5))
    assert player.statuses() == {"a": FAILED}
    assert (player.nodes["a"].ok, player.nodes["a"].failed) == (4, 1)


def test_no_more_instances_than_wanted_at_a_time() -> None:
    flow = workflow(Task("a", parallel=9, concurrency=2), Task("b", parallel=9), max_parallel=5)
    player = play(flow, a=Fate(count=9), b=Fate(count=9))
    assert player.status() is RunStatus.SUCCESS
    assert len(player.made) == 18


def test_what_cannot_be_made_ends_the_task_when_the_others_have_ended() -> None:
    player = play(workflow(Task("a", parallel=6)), a=Fate(count=6, faulty_from=4))
    assert player.nodes["a"].ok == 4
    assert player.statuses() == {"a": FAILED}
    assert player.nodes["a"].why == "no command for this one"


def test_one_at_a_time_goes_in_the_order_in_which_they_were_written() -> None:
    names = [f"t{place}" for place in range(12)]
    player = play(workflow(*(Task(name) for name in names), max_parallel=1))
    assert [task for task, _, _ in player.made] == names


# After all others


def test_one_of_two_hooks_runs() -> None:
    flow = workflow(Task("a"), on_success=Task("on_success"), on_failure=Task("on_failure"))
    good = play(flow)
    assert good.statuses() == {"a": SUCCESS, "on_success": SUCCESS, "on_failure": PENDING}
    bad = play(flow, a=failing(0))
    assert bad.statuses() == {"a": FAILED, "on_success": PENDING, "on_failure": SUCCESS}
    assert bad.run.status is RunStatus.FAILED
    assert (bad.run.ok, bad.run.failed) == (0, 1)


def test_a_hook_that_fails_fails_the_run() -> None:
    player = play(workflow(Task("a"), on_success=Task("on_success")), on_success=failing(0))
    assert player.status() is RunStatus.FAILED
    assert player.run.why == "on_success failed"


def test_a_hook_that_is_not_wanted_changes_nothing() -> None:
    player = play(workflow(Task("a"), on_success=Task("on_success")), on_success=Fate(unwanted=True))
    assert player.status() is RunStatus.SUCCESS
    assert player.run.skipped == 0


# Ends before its time


def begun(flow: Workflow, **fates: Fate) -> Player:
    player = Player(flow, dict.fromkeys([*flow.tasks, "on_success", "on_failure"], Fate()) | fates, Random(1))
    player.begin()
    return player


def test_a_cancelled_run_ends_when_its_jobs_have() -> None:
    player = begun(workflow(*chain("a", "b"), Task("c"), on_failure=Task("on_failure")))
    player.close("cancelled")
    assert player.status() is RunStatus.RUNNING
    player.sweep()
    assert player.status() is RunStatus.CANCELLED
    assert player.statuses() == {"a": CANCELLED, "b": SKIPPED, "c": CANCELLED, "on_failure": PENDING}


def test_a_run_that_nobody_has_seen_is_cancelled_at_once() -> None:
    flow = workflow(Task("a"))
    player = Player(flow, {"a": Fate()}, Random(1))
    player.close("cancelled")
    assert player.status() is RunStatus.CANCELLED
    player.begin()
    assert player.status() is RunStatus.CANCELLED
    assert not player.made


def test_a_run_whose_time_is_up_fails_and_its_hook_runs() -> None:
    player = begun(workflow(*chain("a", "b"), on_failure=Task("on_failure")))
    player.close("failed")
    player.sweep()
    assert player.status() is RunStatus.RUNNING
    player.end_some()
    assert player.status() is RunStatus.FAILED
    assert player.statuses()["on_failure"] is SUCCESS
    assert player.run.why == "its time was up"


def test_closing_twice_is_closing_once() -> None:
    player = begun(workflow(Task("a")))
    player.close("cancelled")
    player.close("failed")
    player.sweep()
    assert player.status() is RunStatus.CANCELLED


# Once more


def test_a_retry_keeps_what_succeeded() -> None:
    player = play(workflow(*chain("a", "b", "c"), Task("d")), b=failing(0))
    player.fates["b"] = Fate()
    player.retry()
    assert player.status() is RunStatus.RUNNING
    assert player.run.retries == 1
    player.play()
    assert player.status() is RunStatus.SUCCESS
    assert (player.run.ok, player.run.failed, player.run.skipped) == (4, 0, 0)
    assert set(player.made) == {("a", 0, 0), ("b", 0, 0), ("d", 0, 0), ("b", 0, 1), ("c", 0, 0)}


def test_a_retry_makes_only_those_instances_that_did_not_succeed() -> None:
    player = play(workflow(Task("a", parallel=5)), a=failing(1, 2, count=5))
    player.retry()
    player.play()
    player.fates["a"] = Fate(count=5)
    assert player.status() is RunStatus.FAILED
    player.retry()
    player.play()
    assert player.status() is RunStatus.SUCCESS
    assert player.nodes["a"].ok == 5
    assert sorted(player.made) == [
        *(("a", 0, 0), ("a", 1, 0), ("a", 1, 1), ("a", 1, 2)),
        *(("a", 2, 0), ("a", 2, 1), ("a", 2, 2), ("a", 3, 0), ("a", 4, 0)),
    ]


def test_a_retry_of_a_run_that_succeeded_changes_nothing() -> None:
    player = play(workflow(Task("a")))
    player.retry()
    assert player.status() is RunStatus.SUCCESS
    assert player.run.retries == 0


def test_hooks_run_again_in_a_retry() -> None:
    player = play(workflow(Task("a"), on_failure=Task("on_failure"), on_success=Task("on_success")), a=failing(0))
    player.fates["a"] = Fate()
    player.retry()
    player.play()
    assert player.status() is RunStatus.SUCCESS
    assert player.statuses() == {"a": SUCCESS, "on_success": SUCCESS, "on_failure": PENDING}


# Tasks that come later


def test_a_run_does_not_end_past_tasks_that_were_added() -> None:
    late = Task("late", depends_on=("a",))
    player = play(workflow(Task("a")), a=Fate(adds=(late,)))
    assert player.status() is RunStatus.SUCCESS
    assert player.run.total == 2
    assert player.statuses() == {"a": SUCCESS, "late": SUCCESS}


def test_what_is_added_after_a_task_that_failed_is_skipped() -> None:
    late, later = Task("late", depends_on=("a",)), Task("later", depends_on=("late",))
    player = play(workflow(Task("a"), Task("b")), a=failing(0), b=Fate(adds=(late, later)))
    assert player.run.left == 0
    assert player.statuses()["late"] is SKIPPED
    assert player.statuses()["later"] is SKIPPED


# What it knows, and what it costs


def test_it_looks_only_at_the_task_and_at_those_that_need_it() -> None:
    """A finished job costs the same in a run of five tasks and in one of ten thousand."""
    tasks = [*(Task(f"t{place}") for place in range(10_000)), Task("join", depends_on=("t1", "t2"))]
    plan = Plan(workflow(*tasks))
    working = FRESH.__class__(status=RUNNING, count=1, active=1)
    run = Run(status=RunStatus.RUNNING, total=10_001, left=10_001, active=2)
    with pytest.raises(MissingNodes) as missing:
        advance(plan, State(run, {"t1": working}), [InstanceEnded("t1", SUCCESS)], 1)
    assert missing.value.names == {"join"}
    state = advance(plan, State(run, {"t1": working, "join": FRESH}), [InstanceEnded("t1", SUCCESS)], 1)
    assert set(state.nodes) == {"t1", "join"}


def test_there_is_room_for_so_many_jobs_at_a_time() -> None:
    plan = Plan(workflow(Task("a", parallel=10), Task("b", parallel=10)))
    player = Player(plan.workflow, {"a": Fate(count=10), "b": Fate(count=10)}, Random(1))
    state = advance(plan, State(Run(total=2, left=2), {"a": FRESH, "b": FRESH}), [Begun()], 1)
    player.run, player.nodes, player.front = state.run, dict(state.nodes), state.front
    known = State(state.run, {name: FRESH.__class__(count=10, todo=((0, 10),)) for name in "ab"}, ("a", "b"))
    asked = list(commands(plan, known, room=14))
    assert asked == [Dispatch("a", tuple(range(10))), Dispatch("b", tuple(range(4)))]


def test_spans_say_which_indexes_are_left() -> None:
    assert first_of(((0, 3), (5, 9)), 5) == ([0, 1, 2, 5, 6], ((7, 9),))
    assert first_of(((0, 3), (5, 9)), 3) == ([0, 1, 2], ((5, 9),))
    assert first_of(((0, 3),), 9) == ([0, 1, 2], ())
    assert first_of((), 9) == ([], ())
    assert spans_of([1, 2, 3, 7, 9, 10]) == ((1, 4), (7, 8), (9, 11))


def test_the_id_of_an_instance_is_the_same_for_everyone_and_rises_with_its_index() -> None:
    run_id = "0196a1b2-0000-7000-8000-000000000001"
    ids = [instance_id(run_id, 1_700_000_000_000, "a", index, 0) for index in range(300)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 300
    assert ids[7] == instance_id(run_id, 1_700_000_000_000, "a", 7, 0)
    assert ids[7] != instance_id(run_id, 1_700_000_000_000, "a", 7, 1)
