"""Handlers the harness runs."""

from __future__ import annotations

from time import time_ns

from taskflow import task


@task(name="load.noop")
async def noop() -> None:
    """Do nothing."""


@task(name="load.stamp")
async def stamp(sent_ns: int) -> int:
    """The nanoseconds from the client's submit to here; both clocks are this machine's."""
    return time_ns() - sent_ns


def nothing() -> None:
    """Do nothing: what is left is the cost of a process."""
