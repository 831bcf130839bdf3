"""Runs of random graphs with random outcomes, told in random order: each ends, in order, and always in the same way."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from taskflow_domain.run_states import ENDED_RUNS, ENDED_TASKS, RunStatus, TaskStatus
from taskflow_domain.workflow import OnFailure, Task, Workflow
from tests.support.run_player import Fate, Player

MOST_TASKS = 12
HOOKS = ("on_success", "on_failure")

bad_ends = st.sampled_from([TaskStatus.FAILED, TaskStatus.CANCELLED])
small = st.integers(0, 6)


@st.composite
def fates(draw: st.DrawFn, fan_out: bool) -> Fate:
    count = draw(small) if fan_out else 1
    outcomes = draw(st.dictionaries(st.integers(0, 6), bad_ends, max_size=2)) if draw(st.booleans()) else {}
    way = draw(st.sampled_from(["plain", "plain", "plain", "plain", "unwanted", "unclear", "faulty"]))
    faulty_from = draw(small) if way == "faulty" else None
    return Fate(count, outcomes, unwanted=way == "unwanted", unclear=way == "unclear", faulty_from=faulty_from)


@st.composite
def tasks(draw: st.DrawFn, name: str, before: list[str]) -> Task:
    parents = draw(st.lists(st.sampled_from(before), unique=True, max_size=4)) if before else []
    return Task(
        name,
        depends_on=tuple(parents),
        on_failure=draw(st.sampled_from(OnFailure)),
        parallel=1 if draw(st.booleans()) else None,  # a fate says how many
        concurrency=draw(st.none() | st.integers(1, 3)),
    )


Story = tuple[Workflow, dict[str, Fate]]


@st.composite
def stories(draw: st.DrawFn) -> Story:
    names = [f"t{place}" for place in range(draw(st.integers(1, MOST_TASKS)))]
    order = draw(st.permutations(names))  # a task may be written before those that it needs
    made = {name: draw(tasks(name, names[:place])) for place, name in enumerate(names)}
    flow = Workflow(
        "any",
        {name: made[name] for name in order},
        max_parallel=draw(st.none() | st.integers(1, 4)),
        on_success=draw(st.none() | st.just(Task("on_success"))),
        on_failure=draw(st.none() | st.just(Task("on_failure"))),
    )
    lots = {name: draw(fates(task.fans_out)) for name, task in made.items()}
    lots |= {name: draw(fates(fan_out=False)) for name in HOOKS}
    for place, adder in enumerate(draw(st.lists(st.sampled_from(names), unique=True, max_size=2))):
        added = [draw(tasks(f"new{place}.{number}", names)) for number in range(draw(st.integers(1, 3)))]
        lots[adder] = replace(lots[adder], adds=tuple(added))
        lots |= {task.name: draw(fates(task.fans_out)) for task in added}
    return flow, lots


def played(story: Story, seed: int) -> Player:
    player = Player(*story, Random(seed))
    player.play()
    return player


@given(stories(), st.integers(0, 9999))
@settings(max_examples=400)
def test_every_run_ends_and_no_task_begins_before_those_it_needs(story: Story, seed: int) -> None:
    """The order, and that limits hold, is checked by the player at each step."""
    player = played(story, seed)
    assert player.run.left == 0
    assert all(player.nodes[name].status in ENDED_TASKS for name in player.plan.names)
    assert player.run.ok + player.run.failed + player.run.skipped == player.run.total
    assert (player.run.status is RunStatus.FAILED) == bool(player.run.failed or player.run.why)


@given(stories(), st.integers(0, 9999), st.integers(0, 9999))
@settings(max_examples=300)
def test_a_run_ends_in_the_same_way_whatever_the_order(story: Story, one: int, other: int) -> None:
    first, second = played(story, one), played(story, other)
    assert first.run.status is second.run.status
    assert first.statuses() == second.statuses()
    assert first.ended == second.ended
    # Which parent is named as the reason depends on which one ended first.
    counts = [(player.run.ok, player.run.failed, player.run.skipped, player.run.total) for player in (first, second)]
    assert counts[0] == counts[1]


@given(stories(), st.integers(0, 9999), st.integers(0, 20), st.sampled_from(["cancelled", "failed"]))
@settings(max_examples=300)
def test_a_run_that_is_closed_at_any_time_ends(story: Story, seed: int, steps: int, how: str) -> None:
    player = Player(*story, Random(seed))
    if steps:
        player.begin()
    for _ in range(steps - 1):
        if player.run.status in ENDED_RUNS:
            break
        player.end_some()
    before = player.run.status
    player.close(how)
    player.play()
    if before in ENDED_RUNS:
        assert player.run.status is before
    elif how == "cancelled":
        assert player.run.status is RunStatus.CANCELLED
    else:
        assert player.run.status is RunStatus.FAILED


@given(stories(), st.integers(0, 9999), st.integers(0, 9999))
@settings(max_examples=300)
def test_a_retry_after_the_cause_is_gone_succeeds_and_repeats_nothing(story: Story, one: int, other: int) -> None:
    player = played(story, one)
    before, kept = dict(player.ended), _kept(player)
    player.fates = {
        name: replace(fate, outcomes={}, unclear=False, faulty_from=None, adds=())
        for name, fate in player.fates.items()
    }
    player.chance = Random(other)
    was = player.run.status
    player.retry()
    player.play()
    assert player.run.status is RunStatus.SUCCESS
    assert player.run.retries == (0 if was is RunStatus.SUCCESS else 1)
    again = {key[:2] for key in player.ended.keys() - before.keys()}
    good = {key[:2] for key, status in before.items() if status is TaskStatus.SUCCESS and key[0] in kept}
    assert not again & good


def _kept(player: Player) -> set[str]:
    """The tasks of which nothing that succeeded is repeated.  Of others the input may be another one now."""
    good = {name for name, status in player.statuses().items() if status is TaskStatus.SUCCESS}
    return {name for name in player.plan.names if name in good or good.issuperset(player.plan.task(name).depends_on)}
