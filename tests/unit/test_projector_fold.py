"""What a run of events changes in the indexes, and nothing more."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from taskflow_projector.fold import fold
from taskflow_streams import Event
from taskflow_streams.indexes import positions


def an_event(type_: str, from_: str, to: str, job: str = "a", **more: Any) -> Event:
    fields: dict[str, Any] = {"queue": "q", "order": 5, "owner": "", "created_ms": 1000, "at_ms": 61_000, **more}
    return Event(id="1-0", type=type_, job_id=job, from_=from_, to=to, attempt=0, fence=0, worker="", **fields)


def test_a_submission_is_added_to_every_scope() -> None:
    """All jobs, the queue and the owner each have their set, chosen by status and priority."""
    changes = fold([an_event("job.submitted", "", "READY", owner="ann")])

    assert dict(changes["adds"]) == {
        "*:READY:5": [-1000, "a"],
        "q=q:READY:5": [-1000, "a"],
        "o=ann:READY:5": [-1000, "a"],
    }
    assert changes["removes"] == []


def test_only_the_net_effect_of_a_batch_is_written() -> None:
    """A job that came and completed within one batch is added once, where it ended up."""
    changes = fold(
        [
            an_event("job.submitted", "", "READY"),
            an_event("job.started", "READY", "RUNNING"),
            an_event("job.completed", "RUNNING", "COMPLETED"),
        ]
    )

    assert [index for index, _ in changes["adds"]] == ["*:COMPLETED:5", "q=q:COMPLETED:5"]
    assert changes["removes"] == []
    assert dict(changes["totals"])["job.completed:q"] == 1
    assert [minute for minute, _ in changes["minutes"]] == [1]


def test_an_update_moves_a_job_from_where_it_stood() -> None:
    """A job that changes its queue and priority leaves its old sets."""
    was = {"was": {"queue": "old", "order": 0, "owner": "bob"}}
    changes = fold([an_event("job.updated", "READY", "PENDING", more=was)])

    assert {index for index, _ in changes["removes"]} == {"*:READY:10", "q=old:READY:10", "o=bob:READY:10"}
    assert {index for index, _ in changes["adds"]} == {"*:PENDING:5", "q=q:PENDING:5"}


def test_a_deleted_job_leaves_every_set() -> None:
    """Deletion removes and adds nothing."""
    changes = fold([an_event("job.deleted", "COMPLETED", "")])

    assert changes["adds"] == []
    assert {index for index, _ in changes["removes"]} == {"*:COMPLETED:5", "q=q:COMPLETED:5"}


@given(st.lists(st.sampled_from(["READY", "RUNNING", "PENDING", "COMPLETED"]), min_size=1, max_size=12), st.data())
def test_batches_may_be_cut_anywhere(states: list[str], data: st.DataObject) -> None:
    """However the events are cut into batches, the indexes end up the same."""
    events = [an_event("job.submitted", "", states[0])]
    events += [an_event("job.x", before, after) for before, after in pairwise(states)]
    cut = data.draw(st.integers(0, len(events)))
    index: set[str] = set()

    for batch in (events[:cut], events[cut:]):
        changes = fold(batch)
        for name, members in changes["removes"]:
            assert members == ["a"]
            assert name in index
            index.remove(name)
        for name, _ in changes["adds"]:
            index.add(name)

    assert index == set(positions(states[-1], "q", 5, ""))
