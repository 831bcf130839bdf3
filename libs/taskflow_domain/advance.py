"""How a run goes on: `advance` tells what an event makes of it, `commands` what is to be done next.

Pure, and O(1) for each finished job: only the task it belongs to is looked at and, when that ends, those that need it.
A task ends once.  What comes too late, or twice, changes nothing; the order of events does not matter for its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from taskflow_domain.advance_ends import end_task, finish
from taskflow_domain.advance_retry import begin_again
from taskflow_domain.draft import Draft
from taskflow_domain.run_events import (
    Added,
    Begun,
    Closed,
    Command,
    Dispatch,
    Dispatched,
    Event,
    Examine,
    Faulty,
    InstanceEnded,
    Known,
    Retried,
    State,
    Unwanted,
)
from taskflow_domain.run_nodes import Node, first_of
from taskflow_domain.run_plan import Plan
from taskflow_domain.run_states import ENDED_RUNS, ENDED_TASKS, RunStatus, TaskStatus

MOST_EXAMINED: Final = 100  # tasks in one step


def advance(plan: Plan, state: State, events: Iterable[Event], now_ms: int) -> State:
    """The run after these events.  Raises `MissingNodes` for tasks that matter and are not in `state`."""
    draft = Draft(plan, state, now_ms)
    for event in events:
        _take(draft, event)
    finish(draft)
    return draft.state()


def commands(plan: Plan, state: State, room: int) -> Iterator[Command]:
    """What is to be done now, for `room` jobs at most."""
    run = state.run
    if run.status is not RunStatus.RUNNING or run.closing:
        return
    if plan.max_parallel is not None:
        room = min(room, plan.max_parallel - run.active)
    examined = 0
    for name in state.front:
        if room <= 0 or examined >= MOST_EXAMINED:
            return
        node = state.nodes[name]
        if node.count is None:
            yield Examine(name)
            examined += 1
            room -= 1  # it has an instance at least, as a rule
            continue
        limit = plan.task(name).concurrency
        indexes, _ = first_of(node.todo, room if limit is None else min(room, limit - node.active))
        if indexes:
            yield Dispatch(name, tuple(indexes))
            room -= len(indexes)


def _take(draft: Draft, event: Event) -> None:
    match event:
        case Retried():
            begin_again(draft, event)
        case _ if draft.run.status in ENDED_RUNS:
            return
        case Begun():
            _begin(draft)
        case InstanceEnded():
            _count(draft, event)
        case Known():
            _know(draft, event)
        case Unwanted():
            _end_unstarted(draft, event.task, TaskStatus.SKIPPED, event.why)
        case Faulty():
            _fault(draft, event)
        case Dispatched():
            _dispatched(draft, event)
        case Closed():
            if draft.run.closing is None:
                draft.run = replace(draft.run, closing=event.how, why=event.why)
        case Added():
            _add(draft, event)


def _begin(draft: Draft) -> None:
    if draft.run.status is RunStatus.PENDING:
        draft.run = replace(draft.run, status=RunStatus.RUNNING, started_ms=draft.now_ms)
        draft.enter(*draft.plan.roots)


def _count(draft: Draft, event: InstanceEnded) -> None:
    node = draft.node(event.task)
    draft.run = replace(draft.run, active=draft.run.active - 1)
    counts = {TaskStatus.SUCCESS: "ok", TaskStatus.CANCELLED: "cancelled"}
    name = counts.get(event.status, "failed")
    draft.put(event.task, replace(node, active=node.active - 1, **{name: getattr(node, name) + 1}))
    _settle(draft, event.task)


def _know(draft: Draft, event: Known) -> None:
    node = draft.node(event.task)
    if node.count is not None or node.status in ENDED_TASKS:
        return
    todo = ((0, event.count),) if event.count else ()
    known = replace(node, status=TaskStatus.RUNNING, count=event.count, todo=todo, started_ms=draft.now_ms)
    draft.put(event.task, known)
    _settle(draft, event.task)


def _dispatched(draft: Draft, event: Dispatched) -> None:
    node = draft.node(event.task)
    _, todo = first_of(node.todo, event.count)
    draft.run = replace(draft.run, active=draft.run.active + event.count)
    draft.put(event.task, replace(node, todo=todo, active=node.active + event.count))
    _settle(draft, event.task)


def _fault(draft: Draft, event: Faulty) -> None:
    """What is at work goes on; nothing more of it is started."""
    node = draft.node(event.task)
    if node.count is None:
        _end_unstarted(draft, event.task, TaskStatus.FAILED, event.why)
        return
    draft.put(event.task, replace(node, todo=(), why=event.why))
    _settle(draft, event.task)


def _end_unstarted(draft: Draft, task: str, status: TaskStatus, why: str) -> None:
    if draft.node(task).status not in ENDED_TASKS:
        end_task(draft, task, status, why)


def _settle(draft: Draft, task: str) -> None:
    """End a task of which nothing is left; put it in front while something can be started."""
    node = draft.node(task)
    if node.status in ENDED_TASKS:
        return
    if node.count is not None and not node.todo and node.active == 0:
        end_task(draft, task, outcome(node), node.why)
        return
    limit = draft.plan.task(task).concurrency
    if node.todo and (limit is None or node.active < limit):
        draft.enter(task)
    else:
        draft.leave(task)


def outcome(node: Node) -> TaskStatus:
    """How a task ended of which nothing is left."""
    if node.failed or node.why:
        return TaskStatus.FAILED
    return TaskStatus.CANCELLED if node.cancelled else TaskStatus.SUCCESS


def _add(draft: Draft, event: Added) -> None:
    """They were counted as left when they were added; here they find out what they wait for."""
    draft.run = replace(draft.run, seen=draft.run.seen + len(event.tasks))
    for name in event.tasks:
        bad: str | None = None
        met = 0
        for parent in draft.plan.task(name).depends_on:
            status = draft.node(parent).status
            met += status in ENDED_TASKS
            bad = bad or (parent if status in ENDED_TASKS - {TaskStatus.SUCCESS} else None)
        draft.put(name, replace(draft.node(name), met=met))
        draft.meet(name, bad)
    draft.drain(end_task)
