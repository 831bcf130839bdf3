"""How tasks end, and then the run."""

from __future__ import annotations

from dataclasses import replace

from taskflow_domain.draft import PAST, Draft
from taskflow_domain.run_events import CANCELLED
from taskflow_domain.run_nodes import ends
from taskflow_domain.run_states import RunStatus, TaskStatus
from taskflow_domain.workflow import ON_FAILURE, ON_SUCCESS

_COUNTER = {TaskStatus.SUCCESS: "ok", TaskStatus.SKIPPED: "skipped"}


def end_task(draft: Draft, task: str, status: TaskStatus, why: str | None = None) -> None:
    """Note the end of a task, and tell those that need it."""
    _close(draft, task, status, why)
    draft.drain(_close)


def _close(draft: Draft, task: str, status: TaskStatus, why: str | None) -> None:
    draft.put(task, ends(draft.node(task), status, draft.now_ms, why))
    draft.leave(task)
    if task == draft.run.hook:
        _close_hook(draft, task, status)
        return
    counter = _COUNTER.get(status, "failed")
    draft.run = replace(draft.run, left=draft.run.left - 1, **{counter: getattr(draft.run, counter) + 1})
    children = draft.plan.children(task)
    draft.need(children)
    for child in children:
        draft.put(child, replace(draft.node(child), met=draft.node(child).met + 1))
        draft.meet(child, None if status is TaskStatus.SUCCESS else task)


def _close_hook(draft: Draft, task: str, status: TaskStatus) -> None:
    """It is not one of the run's tasks, and does not count as one; a run whose hook failed has failed."""
    why = draft.run.why
    if status in (TaskStatus.FAILED, TaskStatus.CANCELLED):
        why = why or f"{task} {PAST[status]}"
    draft.run = replace(draft.run, left=0, why=why)


def finish(draft: Draft) -> None:
    """End the run if nothing is left of it, or start the task that runs after all others."""
    run = draft.run
    if run.status is not RunStatus.RUNNING or run.active:
        if run.status is RunStatus.PENDING and run.closing:
            _end(draft, RunStatus.CANCELLED if run.closing == CANCELLED else RunStatus.FAILED)
        return
    if run.closing == CANCELLED:
        _end(draft, RunStatus.CANCELLED)
    elif run.left == 0 or run.closing:
        _end_or_hook(draft)


def _end_or_hook(draft: Draft) -> None:
    run = draft.run
    has_failed = bool(run.failed or run.closing or run.why)
    hook = ON_FAILURE if has_failed else ON_SUCCESS
    if run.hook is None and draft.plan.has(hook):
        # What was not started by now never will be.
        draft.run = replace(run, hook=hook, left=1, closing=None)
        draft.clear_front()
        draft.enter(hook)
    else:
        _end(draft, RunStatus.FAILED if has_failed else RunStatus.SUCCESS)


def _end(draft: Draft, status: RunStatus) -> None:
    draft.run = replace(draft.run, status=status, finished_ms=draft.now_ms)
    draft.clear_front()
