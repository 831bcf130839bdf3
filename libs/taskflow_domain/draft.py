"""A working copy of a run, while `advance` is at work on it."""

from __future__ import annotations

from collections.abc import Callable

from taskflow_domain.run_events import Run, State
from taskflow_domain.run_nodes import Node
from taskflow_domain.run_plan import Plan
from taskflow_domain.run_states import ENDED_TASKS, TaskStatus
from taskflow_domain.workflow import OnFailure

PAST = {
    TaskStatus.FAILED: "failed",
    TaskStatus.SKIPPED: "was skipped",
    TaskStatus.CANCELLED: "was cancelled",
}


class MissingNodes(LookupError):
    """How these tasks stand matters, and is not known."""

    def __init__(self, names: set[str]) -> None:
        super().__init__(", ".join(sorted(names)))
        self.names = names


class Draft:
    """The run, its tasks, and those in front."""

    def __init__(self, plan: Plan, state: State, now_ms: int) -> None:
        self.plan = plan
        self.now_ms = now_ms
        self.run: Run = state.run
        self._nodes = dict(state.nodes)
        self._front = dict.fromkeys(state.front)
        self._cleared = state.cleared
        self._to_skip: list[tuple[str, str]] = []

    def state(self) -> State:
        """As it is now."""
        front = tuple(sorted(self._front, key=self.plan.position))
        return State(self.run, self._nodes, front, self._cleared)

    def node(self, name: str) -> Node:
        """A task that is known."""
        try:
            return self._nodes[name]
        except KeyError:
            raise MissingNodes({name}) from None

    def need(self, names: tuple[str, ...]) -> None:
        """Make sure that these are known."""
        if missing := set(names) - self._nodes.keys():
            raise MissingNodes(missing)

    def put(self, name: str, node: Node) -> None:
        """Change a task."""
        self._nodes[name] = node

    def enter(self, *names: str) -> None:
        """Their turn has come."""
        self.need(names)
        self._front.update(dict.fromkeys(names))

    def leave(self, name: str) -> None:
        """Nothing of it can be started now."""
        self._front.pop(name, None)

    def clear_front(self) -> None:
        """Nothing is started any more of all that is in front, also of what is not known here."""
        self._front.clear()
        self._cleared = True

    def meet(self, name: str, bad: str | None) -> None:
        """One more of the tasks that it needs has ended; `bad` is its name if that did not succeed."""
        node, task = self.node(name), self.plan.task(name)
        if node.status in ENDED_TASKS:
            return
        if bad is not None and task.on_failure is OnFailure.SKIP:
            self._to_skip.append((name, bad))
        elif node.met >= len(task.depends_on):
            self.enter(name)

    def drain(self, end: Callable[[Draft, str, TaskStatus, str | None], None]) -> None:
        """Skip what was found to be skipped, and in consequence more; without recursion, for chains may be long."""
        while self._to_skip:
            name, bad = self._to_skip.pop()
            if self.node(name).status not in ENDED_TASKS:
                end(self, name, TaskStatus.SKIPPED, f"{bad} {PAST[self.node(bad).status]}")
