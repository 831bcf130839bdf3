"""The life of a job: its states, and the only moves between them.

`TRANSITIONS` is the table the engine obeys.  It contains the six moves of the SRS (`S1_TRANSITIONS`) and adds
cancelling, expiring, and updates that give a READY job new dependencies.  Nothing leaves a terminal state.
"""

from enum import StrEnum
from typing import Final


class JobStatus(StrEnum):
    """Where a job stands.  The first three are live, the others terminal."""

    PENDING = "PENDING"
    READY = "READY"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    BLOCKED = "BLOCKED"
    CANCELED = "CANCELED"
    EXPIRED = "EXPIRED"


Transition = tuple[JobStatus, JobStatus]

LIVE: Final = frozenset({JobStatus.PENDING, JobStatus.READY, JobStatus.RUNNING})
TERMINAL: Final = frozenset(JobStatus) - LIVE

# A job that ended in one of these can never satisfy the jobs that wait for it.
UNSUCCESSFUL: Final = TERMINAL - {JobStatus.COMPLETED}

# A new job waits, may run, or is born BLOCKED because a dependency has already failed.
BIRTHS: Final = frozenset({JobStatus.PENDING, JobStatus.READY, JobStatus.BLOCKED})

S1_TRANSITIONS: Final[frozenset[Transition]] = frozenset(
    {
        (JobStatus.PENDING, JobStatus.READY),
        (JobStatus.PENDING, JobStatus.BLOCKED),
        (JobStatus.READY, JobStatus.RUNNING),
        (JobStatus.RUNNING, JobStatus.COMPLETED),
        (JobStatus.RUNNING, JobStatus.READY),  # retry; also a lost lease and a release
        (JobStatus.RUNNING, JobStatus.FAILED),
    }
)

TRANSITIONS: Final[frozenset[Transition]] = S1_TRANSITIONS | {
    (JobStatus.PENDING, JobStatus.CANCELED),
    (JobStatus.READY, JobStatus.CANCELED),
    (JobStatus.RUNNING, JobStatus.CANCELED),
    (JobStatus.PENDING, JobStatus.EXPIRED),
    (JobStatus.READY, JobStatus.EXPIRED),
    (JobStatus.READY, JobStatus.PENDING),  # an update added a dependency that is not met yet
    (JobStatus.READY, JobStatus.BLOCKED),  # an update added a dependency that had failed
}


def validate_transition(current: JobStatus, target: JobStatus, table: frozenset[Transition] = TRANSITIONS) -> bool:
    """Whether a job may go from `current` to `target`.  Staying where it is is not a transition."""
    return (current, target) in table
