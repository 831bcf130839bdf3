"""The tasks every worker has.  Importing this module registers them."""

import asyncio
import math
from typing import Any

from taskflow.tasks import task


@task(name="taskflow.noop")
async def noop(payload: Any, /) -> None:
    """Do nothing, whatever the payload is."""


@task(name="taskflow.echo")
async def echo(payload: Any, /) -> Any:
    """Return the payload."""
    return payload


@task(name="taskflow.sleep")
async def sleep(*, seconds: float) -> None:
    """`{"seconds": 1.5}`: take that long."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        raise ValueError(f"seconds must be a number from 0 up, not {seconds!r}")
    await asyncio.sleep(seconds)


@task(name="taskflow.fail")
async def fail(*, message: str = "taskflow.fail always fails") -> None:
    """`{"message": "why"}`: fail, saying why."""
    raise RuntimeError(message)
