"""Plays a run: a scheduler and its workers without any of the machinery, in whatever order chance wants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from taskflow_domain.advance import advance, commands
from taskflow_domain.draft import MissingNodes
from taskflow_domain.run_events import (
    Added,
    Begun,
    Closed,
    Dispatch,
    Dispatched,
    Event,
    Examine,
    Faulty,
    InstanceEnded,
    Known,
    Retried,
    Run,
    State,
    Unwanted,
)
from taskflow_domain.run_nodes import FRESH, Node, spans_of
from taskflow_domain.run_plan import Plan
from taskflow_domain.run_states import ENDED_RUNS, ENDED_TASKS, RunStatus, TaskStatus
from taskflow_domain.workflow import OnFailure, Task, Workflow

SUCCESS, FAILED, CANCELLED = TaskStatus.SUCCESS, TaskStatus.FAILED, TaskStatus.CANCELLED


@dataclass(frozen=True)
class Fate:
    """What will become of a task, whenever its turn comes."""

    count: int = 1
    outcomes: Mapping[int, TaskStatus] = field(default_factory=dict)  # of instances that do not succeed
    unwanted: bool = False  # its condition is false
    unclear: bool = False  # its condition cannot be worked out
    faulty_from: int | None = None  # jobs from this instance on cannot be made
    adds: tuple[Task, ...] = ()  # by its first instance


JobKey = tuple[str, int, int]


class Player:
    """One run.  Only the tasks that are asked for are ever known to `advance`, as with a real scheduler."""

    def __init__(self, workflow: Workflow, fates: Mapping[str, Fate], chance: Random) -> None:
        self.plan = Plan(workflow)
        self.fates = dict(fates)
        self.chance = chance
        self.run = Run(total=len(workflow.tasks), left=len(workflow.tasks))
        self.nodes: dict[str, Node] = {}
        self.front: tuple[str, ...] = ()
        self.at_work: list[JobKey] = []
        self.made: Counter[JobKey] = Counter()
        self.ended: dict[JobKey, TaskStatus] = {}
        self.waiting_additions: list[Task] = []
        self.now_ms = 1_000

    # What happens

    def tell(self, *events: Event) -> None:
        """Let the run go on, and do what it asks for, a little at a time."""
        self._apply(events)
        while asked := list(commands(self.plan, self._state(), room=self.chance.randint(1, 5))):
            for command in asked:
                answer = self._examined(command) if isinstance(command, Examine) else self._dispatched(command)
                self._apply([answer])
        self._check()

    def begin(self) -> None:
        """A scheduler sees it for the first time."""
        self.tell(Begun())

    def end_some(self) -> None:
        """Some jobs end, and are told of together."""
        self.chance.shuffle(self.at_work)
        count = self.chance.randint(1, len(self.at_work))
        ending, self.at_work = self.at_work[:count], self.at_work[count:]
        events: list[Event] = []
        for key in ending:
            task, index, _ = key
            self.ended[key] = self.fates[task].outcomes.get(index, SUCCESS)
            if index == 0 and self._add(self.fates[task].adds):
                events += self._additions()
            events.append(InstanceEnded(task, self.ended[key]))
        if self.chance.random() < 0.2:
            events.append(Begun())  # late, or twice
        self.tell(*events)

    def close(self, how: str) -> None:
        """Cancel it, or let its time be up: what is at work is cancelled, and told of later."""
        self.tell(Closed(how, "its time was up"))

    def sweep(self) -> None:
        """The jobs of a closing run end as cancelled."""
        for key in self.at_work:
            self.ended[key] = CANCELLED
        events = [InstanceEnded(task, CANCELLED) for task, _, _ in self.at_work]
        self.at_work = []
        self.tell(*events)

    def retry(self) -> None:
        """Begin again with what did not succeed."""
        unfinished = {}
        for name, node in self.nodes.items():
            if node.count is not None:
                kept = [self.ended.get((name, index, node.generation(index))) is SUCCESS for index in range(node.count)]
                unfinished[name] = spans_of([index for index, good in enumerate(kept) if not good])
        self.tell(Retried(unfinished))

    def play(self) -> None:
        """To the end."""
        self.begin()
        steps = 0
        while self.run.status not in ENDED_RUNS:
            assert self.at_work, f"nothing is at work, and yet it has not ended: {self.run} {self.front}"
            if self.run.closing:
                self.sweep()
            else:
                self.end_some()
            steps += 1
            assert steps < 10_000

    # What is seen

    def status(self) -> RunStatus:
        """How the run stands."""
        return self.run.status

    def statuses(self) -> dict[str, TaskStatus]:
        """How each task stands."""
        return {name: self.nodes.get(name, FRESH).status for name in (*self.plan.names, *self.plan.hooks)}

    # The machinery

    def _state(self, names: set[str] | None = None) -> State:
        known = set(self.front) | (names or set())
        return State(self.run, {name: self.nodes.get(name, FRESH) for name in known}, self.front)

    def _apply(self, events: list[Event] | tuple[Event, ...]) -> None:
        self.now_ms += 1
        try:
            state = advance(self.plan, self._state(self._told_of(events)), events, self.now_ms)
        except MissingNodes:
            state = advance(self.plan, self._state({*self.plan.names, *self.plan.hooks}), events, self.now_ms)
        self.run, self.front = state.run, state.front
        self.nodes.update(state.nodes)

    def _told_of(self, events: Iterable[Event]) -> set[str]:
        told_of = {event.task for event in events if isinstance(event, InstanceEnded)}
        return told_of.union(*(self.plan.children(task) for task in told_of))

    def _examined(self, command: Examine) -> Event:
        fate = self.fates[command.task]
        if fate.unwanted:
            return Unwanted(command.task, "its condition is false")
        if fate.unclear:
            return Faulty(command.task, "its condition makes no sense")
        return Known(command.task, fate.count)

    def _dispatched(self, command: Dispatch) -> Event:
        node, fate = self.nodes[command.task], self.fates[command.task]
        self._may_start(command.task)
        indexes = [index for index in command.indexes if fate.faulty_from is None or index < fate.faulty_from]
        for index in indexes:
            key = (command.task, index, node.generation(index))
            self.made[key] += 1
            self.at_work.append(key)
        if len(indexes) < len(command.indexes):
            self._apply([Dispatched(command.task, len(indexes))] if indexes else [])
            return Faulty(command.task, "no command for this one")
        return Dispatched(command.task, len(indexes))

    def _may_start(self, name: str) -> None:
        task = self.plan.task(name)
        for parent in task.depends_on:
            status = self.nodes[parent].status
            assert status in ENDED_TASKS, f"{name} began before {parent} had ended"
            assert task.on_failure is OnFailure.RUN or status is SUCCESS, f"{name} began though {parent} is {status}"

    def _add(self, tasks: tuple[Task, ...]) -> bool:
        """What the store does when tasks are added: it counts them, and refuses what it has."""
        new = [task for task in tasks if not self.plan.has(task.name) and task not in self.waiting_additions]
        if not new or self.run.closing or self.run.hook or self.run.status in ENDED_RUNS:
            return False
        self.waiting_additions += new
        self.run = replace(self.run, total=self.run.total + len(new), left=self.run.left + len(new))
        return True

    def _additions(self) -> list[Event]:
        new, self.waiting_additions = self.waiting_additions, []
        self.plan = self.plan.grown(new)
        for task in new:
            self.fates.setdefault(task.name, Fate())
        return [Added(tuple(task.name for task in new))]

    def _check(self) -> None:
        """What holds between any two steps."""
        at_work = Counter(task for task, _, _ in self.at_work)
        assert self.run.active == len(self.at_work)
        if self.plan.max_parallel is not None:
            assert self.run.active <= self.plan.max_parallel
        for name, node in self.nodes.items():
            assert node.active == at_work[name]
            limit = self.plan.task(name).concurrency if self.plan.has(name) else None
            assert limit is None or node.active <= limit
        assert all(times == 1 for times in self.made.values()), "a job was made twice"
        if self.run.status in ENDED_RUNS:
            assert not self.at_work
            assert not self.front
            assert self.run.finished_ms is not None
            if self.run.status is RunStatus.SUCCESS:
                assert self.run.ok + self.run.skipped == self.run.total
