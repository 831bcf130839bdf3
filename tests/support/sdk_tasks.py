"""Tasks of a user, for the tests of the SDK."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

from taskflow import RetryPolicy, current, task


@task(name="sdk.add", queue="sums")
def add(a: int, b: int = 0) -> int:
    """Add, in a process."""
    return a + b


@task(name="sdk.greet")
async def greet(name: str, *, loud: bool = False) -> str:
    """Greet, on the event loop."""
    await asyncio.sleep(0)
    return f"HELLO {name.upper()}" if loud else f"hello {name}"


@task(name="sdk.echo")
def echo(payload: Any, /) -> Any:
    """The payload, whole."""
    return payload


@task(name="sdk.fail", retry_policy=RetryPolicy(max_attempts=1))
def fail(why: str) -> None:
    """Fail."""
    raise ValueError(why)


@task(name="sdk.talk")
def talk(lines: int) -> None:
    """Say something on both streams."""
    for number in range(lines):
        print(f"line {number} ü")  # noqa: T201 - to be seen in the log
    print("warning", file=sys.stderr)  # noqa: T201


@task(name="sdk.linger")
async def linger() -> None:
    """Say so, and never end."""
    print("here I am")  # noqa: T201
    current().progress(0.25, "waiting")
    await asyncio.Event().wait()


@task(name="sdk.thread", isolation="thread")
def where() -> str:
    """The thread that runs it."""
    return threading.current_thread().name
