"""When a failed attempt is tried again, and after how long."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator


class BackoffStrategy(StrEnum):
    """How the delay grows from one retry to the next."""

    FIXED = "FIXED"
    LINEAR = "LINEAR"
    EXPONENTIAL = "EXPONENTIAL"


MaxAttempts = Annotated[int, Field(strict=True, ge=1, le=10)]
BaseDelaySeconds = Annotated[int, Field(strict=True, ge=1, le=300)]
MaxDelaySeconds = Annotated[int, Field(strict=True, ge=1, le=3600)]
Jitter = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]


class RetryPolicy(BaseModel):
    """How often a job may run, and how long it rests in between.

    Whole numbers only: no `"3"`, no `3.0`, no `true`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_attempts: MaxAttempts = 3
    backoff_strategy: BackoffStrategy = BackoffStrategy.EXPONENTIAL
    base_delay_seconds: BaseDelaySeconds = 10
    max_delay_seconds: MaxDelaySeconds = 300  # no smaller than any base delay, so the default always fits
    jitter: Jitter = 0.0  # the share of a delay by which it may be shortened, so that jobs return apart

    @field_validator("max_delay_seconds")
    @classmethod
    def _reaches_base_delay(cls, max_delay: int, info: ValidationInfo) -> int:
        base_delay = info.data.get("base_delay_seconds")  # absent when it was itself refused
        if base_delay is not None and max_delay < base_delay:
            raise ValueError(f"max_delay_seconds ({max_delay}) is less than base_delay_seconds ({base_delay})")
        return max_delay

    def merged(self, changes: Mapping[str, object]) -> Self:
        """This policy with some fields replaced, validated as a whole."""
        return self.model_validate(self.model_dump() | dict(changes))


class Retries(RetryPolicy):
    """A policy for those who count retries, not attempts: up to a thousand, soon and apart."""

    max_attempts: Annotated[int, Field(strict=True, ge=1, le=1001)] = 4
    base_delay_seconds: BaseDelaySeconds = 1
    jitter: Jitter = 0.5


class Retryable(Protocol):
    """A job as far as retrying is concerned."""

    @property
    def attempt_count(self) -> int: ...
    @property
    def retry_policy(self) -> RetryPolicy: ...


def should_retry(job: Retryable) -> bool:
    """Whether a job whose attempt just failed gets another one."""
    return job.attempt_count < job.retry_policy.max_attempts


def calculate_retry_delay(policy: RetryPolicy, attempt_number: int) -> int:
    """Seconds to wait after attempt `attempt_number` (the first is 1) has failed."""
    if attempt_number < 1:
        raise ValueError(f"attempts count from 1, not {attempt_number}")
    base, cap = policy.base_delay_seconds, policy.max_delay_seconds
    match policy.backoff_strategy:
        case BackoffStrategy.FIXED:
            return base
        case BackoffStrategy.LINEAR:
            return min(base * attempt_number, cap)
        case BackoffStrategy.EXPONENTIAL:
            doublings = min(attempt_number - 1, cap.bit_length())  # that many pass any cap already
            return min(base << doublings, cap)


def with_jitter(delay_ms: int, fraction: float, unit_random: float) -> int:
    """`delay_ms` shortened by up to `fraction` of itself, so that jobs that failed together return apart.

    `unit_random` is drawn from [0, 1) by the caller.  Jitter only shortens: a delay stays within its cap.
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"jitter is a fraction from 0 to 1, not {fraction}")
    return delay_ms - int(delay_ms * fraction * unit_random)


def retry_delay_ms(policy: RetryPolicy, attempt_number: int, unit_random: float) -> int:
    """Milliseconds to wait after attempt `attempt_number` has failed, with the policy's jitter."""
    return with_jitter(calculate_retry_delay(policy, attempt_number) * 1000, policy.jitter, unit_random)
