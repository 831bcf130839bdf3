"""A run that failed, or was cancelled, goes on: what succeeded is kept, all else is as if it had not been."""

from __future__ import annotations

from dataclasses import replace

from taskflow_domain.draft import Draft
from taskflow_domain.run_events import Retried
from taskflow_domain.run_nodes import Node, Spans
from taskflow_domain.run_states import RunStatus, TaskStatus
from taskflow_domain.workflow import MAX_INSTANCES

RESUMABLE = frozenset({RunStatus.FAILED, RunStatus.CANCELLED})
_ALL: Spans = ((0, MAX_INSTANCES),)


def begin_again(draft: Draft, event: Retried) -> None:
    """Needs all tasks to be known.  A run that is at work already stays as it is."""
    if draft.run.status not in RESUMABLE:
        return
    retry = draft.run.retries + 1
    kept = {name for name in draft.plan.names if draft.node(name).status is TaskStatus.SUCCESS}
    draft.clear_front()
    for name in draft.plan.names:
        if name not in kept:
            parents = draft.plan.task(name).depends_on
            met = sum(parent in kept for parent in parents)
            spans = event.unfinished.get(name, ()) if met == len(parents) else ()
            draft.put(name, replace(_reset(draft.node(name), retry, spans), met=met))
            if met == len(parents):
                draft.enter(name)
    for name in draft.plan.hooks:
        draft.put(name, _reset(draft.node(name), retry, ()))
    draft.run = replace(
        draft.run,
        status=RunStatus.RUNNING,
        left=len(draft.plan.names) - len(kept),
        ok=len(kept),
        failed=0,
        skipped=0,
        retries=retry,
        hook=None,
        closing=None,
        why=None,
        started_ms=draft.run.started_ms or draft.now_ms,
        finished_ms=None,
    )


def _reset(node: Node, retry: int, spans: Spans) -> Node:
    """With `spans`, those that did not succeed, its other instances are kept."""
    if node.count is None:
        return Node(again=node.again)
    if not spans:
        return Node(again=(*node.again, (retry, _ALL)))
    return Node(
        status=TaskStatus.RUNNING,
        count=node.count,
        todo=spans,
        ok=node.ok,
        started_ms=node.started_ms,
        again=(*node.again, (retry, spans)),
    )
