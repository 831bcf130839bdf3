"""How far a run and each of its tasks are: what a scheduler knows, and nothing more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from taskflow_domain.ids import index_id
from taskflow_domain.run_states import TaskStatus

Span = tuple[int, int]  # indexes from the first up to, and without, the second
Spans = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """One task of a run.  A task without instances of its own (no fan-out) has a single one, with index 0."""

    status: TaskStatus = TaskStatus.PENDING
    met: int = 0  # tasks that it needs and that have ended
    count: int | None = None  # instances, once that is known
    todo: Spans = ()  # of these, those that no job was made for yet
    active: int = 0  # jobs that have not ended
    ok: int = 0
    failed: int = 0
    cancelled: int = 0
    started_ms: int | None = None
    finished_ms: int | None = None
    why: str | None = None  # a sentence, if no job can tell
    again: tuple[tuple[int, Spans], ...] = ()  # which instances were tried again with the run, and in which retry of it

    def generation(self, index: int) -> int:
        """In which retry of the run the instance's latest job was made; 0 in none."""
        for retry, spans in reversed(self.again):
            if any(first <= index < end for first, end in spans):
                return retry
        return 0


FRESH: Final = Node()


def instance_id(run_id: str, created_ms: int, task: str, index: int, generation: int) -> str:
    """The id of an instance's job: the same for everyone, in the partition of the run, and rising with the index."""
    return index_id(f"{run_id}/{task}/{index}/{generation}", created_ms, index, run_id)


def first_of(spans: Spans, count: int) -> tuple[list[int], Spans]:
    """The first `count` indexes, and what is left of the spans."""
    taken: list[int] = []
    for place, (first, end) in enumerate(spans):
        room = count - len(taken)
        if end - first > room:
            taken += range(first, first + room)
            return taken, ((first + room, end), *spans[place + 1 :]) if room else spans[place:]
        taken += range(first, end)
    return taken, ()


def spans_of(indexes: list[int]) -> Spans:
    """Rising indexes, as spans."""
    spans: list[Span] = []
    for index in indexes:
        if spans and spans[-1][1] == index:
            spans[-1] = (spans[-1][0], index + 1)
        else:
            spans.append((index, index + 1))
    return tuple(spans)


def ends(node: Node, status: TaskStatus, now_ms: int, why: str | None = None) -> Node:
    """The same, at its end."""
    return replace(node, status=status, finished_ms=now_ms, todo=(), why=why or node.why)
