"""Cycles, readiness and cascades: SRS §2.1 and §2.5."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskflow_domain import (
    CycleDetectionResult,
    DependencyStatus,
    JobStatus,
    check_dependencies,
    detect_cycle,
    propagate_completion,
    propagate_failure,
)

PENDING, READY, RUNNING = JobStatus.PENDING, JobStatus.READY, JobStatus.RUNNING
COMPLETED, FAILED, BLOCKED = JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.BLOCKED
CANCELED, EXPIRED = JobStatus.CANCELED, JobStatus.EXPIRED
SATISFIED, WAITING, STUCK = DependencyStatus.SATISFIED, DependencyStatus.WAITING, DependencyStatus.BLOCKED

PAST_WAITING = [status for status in JobStatus if status is not PENDING]
NO_CYCLE = CycleDetectionResult(has_cycle=False, cycle_path=[])
CHAIN = 10_000  # ten times Python's recursion limit

Graph = dict[str, list[str]]


@dataclass(frozen=True)
class Node:
    id: str
    status: JobStatus = PENDING
    dependencies: tuple[str, ...] = ()


names = st.sampled_from("abcdefgh")
statuses = st.sampled_from(JobStatus)
graphs = st.dictionaries(names, st.lists(names, max_size=4))
nodes = st.builds(Node, names, statuses, st.lists(names, max_size=3).map(tuple))
populations = st.lists(nodes, max_size=8, unique_by=lambda node: node.id)


# Cycle detection


def test_a_job_that_names_itself_is_a_cycle_of_one() -> None:
    """Self-dependency has a path of length 1."""
    assert detect_cycle("a", ["a"], {}) == (True, ["a"])
    assert detect_cycle("a", ["b", "a"], {"b": []}) == (True, ["a"])


def test_no_dependencies_no_cycle() -> None:
    """An empty list closes no circle, whatever the others do among themselves."""
    assert detect_cycle("a", [], {}) == NO_CYCLE
    assert detect_cycle("a", [], {"b": ["c"], "c": ["b"]}) == NO_CYCLE


def test_unknown_jobs_depend_on_nothing() -> None:
    """A dependency that is not among the existing jobs is a valid reference."""
    assert detect_cycle("a", ["elsewhere"], {"b": ["elsewhere"]}) == NO_CYCLE


def test_the_path_goes_round_once_in_dependency_order() -> None:
    """Each job of the path depends on the next, the last on the first."""
    assert detect_cycle("a", ["b"], {"b": ["c"], "c": ["a"]}) == (True, ["a", "b", "c"])


def test_the_path_leaves_out_the_way_to_the_cycle() -> None:
    """A cycle that the new job merely leads to is found, and only the cycle is told."""
    assert detect_cycle("a", ["b"], {"b": ["c"], "c": ["d"], "d": ["c"]}) == (True, ["c", "d"])


def test_a_diamond_is_no_cycle() -> None:
    """Reaching a job twice is not the same as coming back to it."""
    assert detect_cycle("d", ["b", "c"], {"b": ["a"], "c": ["a"], "a": []}) == NO_CYCLE


def test_an_update_replaces_the_old_edges() -> None:
    """The new list of dependencies counts, not the one on record."""
    on_record = {"a": ["b"], "b": [], "c": ["a"]}

    assert detect_cycle("a", [], on_record | {"b": ["a"]}) == NO_CYCLE
    assert detect_cycle("a", ["c"], on_record) == (True, ["a", "c"])


def test_a_chain_of_ten_thousand_is_searched_and_closed() -> None:
    """Depth is no obstacle, with and without a cycle at the end."""
    chain = {str(i): [str(i + 1)] for i in range(CHAIN)}

    assert detect_cycle("new", ["0"], chain) == NO_CYCLE

    closed = detect_cycle("new", ["0"], chain | {str(CHAIN): ["new"]})
    assert closed.cycle_path == ["new", *map(str, range(CHAIN + 1))]


def test_a_ladder_is_searched_once() -> None:
    """Work grows with the edges, not with the number of ways (here 2 to the power of 2,000)."""
    ladder = {f"{side}{i}": [f"x{i + 1}", f"y{i + 1}"] for i in range(2_000) for side in "xy"}

    assert detect_cycle("new", ["x0", "y0"], ladder) == NO_CYCLE


@given(names, st.lists(names, max_size=4), graphs)
def test_a_cycle_is_found_exactly_when_there_is_one(new: str, wanted: list[str], existing: Graph) -> None:
    """The answer agrees with a search by exhaustion, and the path is truly a cycle."""
    graph = existing | {new: wanted}

    result = detect_cycle(new, wanted, existing)

    assert result.has_cycle == any(job in reachable(job, graph) for job in {new} | reachable(new, graph))
    assert result.has_cycle == bool(result.cycle_path)
    if result.has_cycle:
        assert len(set(result.cycle_path)) == len(result.cycle_path)
        for job, following in pairwise([*result.cycle_path, result.cycle_path[0]]):
            assert following in graph[job]


def reachable(start: str, graph: Mapping[str, Sequence[str]]) -> set[str]:
    """All jobs that `start` depends on, by repeating one step until nothing is new."""
    found: set[str] = set(graph.get(start, ()))
    while more := {following for job in found for following in graph.get(job, ())} - found:
        found |= more
    return found


# Satisfaction


@pytest.mark.parametrize(
    ("reported", "verdict"),
    [
        ([], SATISFIED),
        ([COMPLETED], SATISFIED),
        ([COMPLETED, COMPLETED], SATISFIED),
        ([FAILED], STUCK),
        ([BLOCKED], STUCK),
        ([CANCELED], STUCK),
        ([EXPIRED], STUCK),
        ([PENDING], WAITING),
        ([READY], WAITING),
        ([RUNNING], WAITING),
        ([COMPLETED, RUNNING], WAITING),
        ([RUNNING, FAILED], STUCK),
        ([FAILED, PENDING], STUCK),
        ([COMPLETED, BLOCKED], STUCK),
        ([COMPLETED, PENDING, FAILED], STUCK),
    ],
)
def test_dependencies_are_judged_in_the_order_of_the_rules(
    reported: list[JobStatus], verdict: DependencyStatus
) -> None:
    """SRS §2.1.2: failure outweighs waiting, waiting outweighs completion."""
    by_id = {str(i): status for i, status in enumerate(reported)}

    assert check_dependencies(list(by_id), by_id) is verdict


def test_a_dependency_without_status_makes_the_job_wait() -> None:
    """Unknown is not done; but a known failure still decides."""
    assert check_dependencies(["a", "b"], {"a": COMPLETED}) is WAITING
    assert check_dependencies(["a", "b"], {"a": FAILED}) is STUCK


def test_only_the_named_dependencies_count() -> None:
    """The fate of other jobs is nothing to this one."""
    assert check_dependencies(["a"], {"a": COMPLETED, "b": FAILED}) is SATISFIED
    assert check_dependencies([], {"b": FAILED}) is SATISFIED


# Failure


def test_failure_blocks_all_that_wait_downstream() -> None:
    """Direct and indirect dependents are blocked, others are not."""
    jobs = [
        Node("a", FAILED),
        Node("b", dependencies=("a",)),
        Node("c", dependencies=("b",)),
        Node("d", dependencies=("x", "c")),
        Node("x", RUNNING),
        Node("other", dependencies=("x",)),
    ]

    assert propagate_failure("a", jobs) == {"b", "c", "d"}


@pytest.mark.parametrize("status", PAST_WAITING)
def test_failure_does_not_pass_through_a_job_that_no_longer_waits(status: JobStatus) -> None:
    """Only PENDING jobs are blocked, and only through them the search goes on."""
    jobs = [Node("b", status, ("a",)), Node("c", PENDING, ("b",))]

    assert propagate_failure("a", jobs) == set()


def test_the_failed_job_is_not_blocked_by_itself() -> None:
    """Not even where the records form a circle and say that it waits."""
    jobs = [Node("a", dependencies=("a", "b")), Node("b", dependencies=("a",))]

    assert propagate_failure("a", jobs) == {"b"}


def test_the_failure_of_a_stranger_blocks_nobody() -> None:
    """An id that nobody names has no dependents."""
    assert propagate_failure("nobody", [Node("a"), Node("b", dependencies=("a",))]) == set()
    assert propagate_failure("nobody", []) == set()


def test_failure_runs_down_a_chain_of_ten_thousand() -> None:
    """Depth is no obstacle, and the order of the list does not matter."""
    jobs = [Node(str(i), dependencies=(str(i - 1),)) for i in reversed(range(1, CHAIN))]

    assert propagate_failure("0", jobs) == {job.id for job in jobs}


@given(names, populations)
def test_failure_is_the_closure_of_waiting(failed: str, jobs: list[Node]) -> None:
    """The result is what repeating "PENDING and waits for a lost one" until nothing changes gives."""
    lost = {failed}
    for _ in jobs:
        lost |= {job.id for job in jobs if job.status is PENDING and lost & set(job.dependencies)}

    assert propagate_failure(failed, jobs) == lost - {failed}


# Completion


def test_completion_frees_those_it_was_the_last_for() -> None:
    """Who still waits for another job stays PENDING."""
    jobs = [
        Node("a", COMPLETED),
        Node("done", COMPLETED),
        Node("busy", RUNNING),
        Node("free", dependencies=("a",)),
        Node("free_too", dependencies=("a", "done")),
        Node("held", dependencies=("a", "busy")),
        Node("unrelated", dependencies=("done",)),
    ]

    assert propagate_completion("a", jobs) == {"free", "free_too"}


def test_the_completed_job_counts_whatever_its_record_says() -> None:
    """Its record may still say RUNNING, or be missing from the list."""
    waiting = Node("b", dependencies=("a",))

    assert propagate_completion("a", [Node("a", RUNNING), waiting]) == {"b"}
    assert propagate_completion("a", [waiting]) == {"b"}


@pytest.mark.parametrize("status", PAST_WAITING)
def test_completion_moves_only_jobs_that_wait(status: JobStatus) -> None:
    """A job that is already READY, running or ended is not made READY again."""
    assert propagate_completion("a", [Node("b", status, ("a",))]) == set()


def test_completion_does_not_free_who_waits_for_an_unknown_job() -> None:
    """Unknown is not done."""
    assert propagate_completion("a", [Node("b", dependencies=("a", "elsewhere"))]) == set()


def test_completion_goes_one_step_only() -> None:
    """In a chain of ten thousand the next job becomes READY, and only that."""
    jobs = [Node(str(i), dependencies=(str(i - 1),)) for i in range(1, CHAIN)]

    assert propagate_completion("0", jobs) == {"1"}


def test_one_completion_can_free_ten_thousand() -> None:
    """A wide fan-out is one pass over the jobs."""
    jobs = [Node(str(i), dependencies=("root",)) for i in range(CHAIN)]

    assert propagate_completion("root", jobs) == {job.id for job in jobs}


@given(names, populations)
def test_completion_frees_exactly_the_satisfied(completed: str, jobs: list[Node]) -> None:
    """A freed job was PENDING, named the completed one, and has nothing else open."""
    done = {job.id for job in jobs if job.status is COMPLETED} | {completed}

    assert propagate_completion(completed, jobs) == {
        job.id
        for job in jobs
        if job.status is PENDING
        and job.id != completed
        and completed in job.dependencies
        and set(job.dependencies) <= done
    }
