"""A workflow as a run follows it: who comes first, who needs whom, and the tasks that were added on the way."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from taskflow_domain.workflow import ON_FAILURE, ON_SUCCESS, Task, Workflow


class Plan:
    """The tasks of one run."""

    def __init__(self, workflow: Workflow, added: Iterable[Task] = ()) -> None:
        self.workflow = workflow
        self.added = tuple(added)
        self.max_parallel = workflow.max_parallel
        self._tasks = {**workflow.tasks, **{task.name: task for task in self.added}}
        self.names = tuple(self._tasks)
        if workflow.on_success is not None:
            self._tasks[ON_SUCCESS] = workflow.on_success
        if workflow.on_failure is not None:
            self._tasks[ON_FAILURE] = workflow.on_failure
        self._positions = {name: place for place, name in enumerate(self._tasks)}
        self._children: dict[str, list[str]] = {}
        for name in self.names:
            for parent in self._tasks[name].depends_on:
                self._children.setdefault(parent, []).append(name)

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """Tasks of the workflow that need no other; those that were added come by themselves."""
        return tuple(name for name, task in self.workflow.tasks.items() if not task.depends_on)

    @property
    def hooks(self) -> tuple[str, ...]:
        """The tasks that run after all others."""
        return tuple(self._tasks)[len(self.names) :]

    def task(self, name: str) -> Task:
        """The task of this name."""
        return self._tasks[name]

    def has(self, name: str) -> bool:
        """Whether there is such a task."""
        return name in self._tasks

    def children(self, name: str) -> tuple[str, ...]:
        """Those that need it."""
        return tuple(self._children.get(name, ()))

    def position(self, name: str) -> int:
        """Whose turn comes first, of those that can be started."""
        return self._positions[name]

    def grown(self, added: Iterable[Task]) -> Plan:
        """The same with more tasks."""
        return Plan(self.workflow, (*self.added, *added))
