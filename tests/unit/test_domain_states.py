"""The state machine: SRS §2.4, and what the engine adds to it."""

from itertools import product

import pytest

from taskflow_domain import (
    BIRTHS,
    LIVE,
    S1_TRANSITIONS,
    TERMINAL,
    TRANSITIONS,
    UNSUCCESSFUL,
    JobStatus,
    validate_transition,
)

PENDING, READY, RUNNING = JobStatus.PENDING, JobStatus.READY, JobStatus.RUNNING
COMPLETED, FAILED, BLOCKED = JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.BLOCKED
CANCELED, EXPIRED = JobStatus.CANCELED, JobStatus.EXPIRED

SRS_TABLE = {
    (PENDING, READY),
    (PENDING, BLOCKED),
    (READY, RUNNING),
    (RUNNING, COMPLETED),
    (RUNNING, READY),
    (RUNNING, FAILED),
}
ADDED = {
    (PENDING, CANCELED),
    (READY, CANCELED),
    (RUNNING, CANCELED),
    (PENDING, EXPIRED),
    (READY, EXPIRED),
    (READY, PENDING),
    (READY, BLOCKED),
}


def test_the_srs_table_is_kept_as_it_is() -> None:
    """The six moves of SRS §2.4.1, no more and no fewer."""
    assert S1_TRANSITIONS == SRS_TABLE


@pytest.mark.parametrize(("current", "target"), list(product(JobStatus, JobStatus)))
def test_only_moves_in_the_table_are_allowed(current: JobStatus, target: JobStatus) -> None:
    """Every pair of states is judged, under the engine's table and under the SRS's."""
    assert validate_transition(current, target) == ((current, target) in SRS_TABLE | ADDED)
    assert validate_transition(current, target, S1_TRANSITIONS) == ((current, target) in SRS_TABLE)


def test_nothing_leaves_a_terminal_state() -> None:
    """Terminal states never reverse, and every live state has a way out."""
    assert {COMPLETED, FAILED, BLOCKED, CANCELED, EXPIRED} == TERMINAL
    assert {current for current, _ in TRANSITIONS} == LIVE == {PENDING, READY, RUNNING}


def test_a_job_that_has_started_does_not_expire() -> None:
    """Expiry is for what never ran."""
    assert not validate_transition(RUNNING, EXPIRED)


def test_every_state_can_be_reached() -> None:
    """From a birth, the table leads to each of the eight states."""
    reached = set(BIRTHS)
    for _ in JobStatus:
        reached |= {target for current, target in TRANSITIONS if current in reached}

    assert {PENDING, READY, BLOCKED} == BIRTHS
    assert reached == set(JobStatus)


def test_only_completion_is_success() -> None:
    """All endings but COMPLETED disappoint the jobs that wait."""
    assert {FAILED, BLOCKED, CANCELED, EXPIRED} == UNSUCCESSFUL
