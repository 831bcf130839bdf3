"""Tasks in processes: each has loaded the worker's modules, and runs one task after the other.

A process is made when none is idle.  One whose task must stop is killed; one that dies takes only its own task along.
"""

import asyncio
import os
import signal
from collections.abc import Sequence

from taskflow.executor import Failed, Outcome, Report, Work
from taskflow_streams import Failure
from taskflow_worker.processes import Child, Nursery, NurseryGone, Order
from taskflow_worker.processes.messages import frame
from taskflow_worker.runners import ends
from taskflow_worker.runners.python import Told, python_path
from taskflow_worker.runners.surroundings import job_fields

TASKS_EACH = 1000  # then a process is replaced: what leaks does not leak for ever


class Seat:
    """One process of the pool."""

    def __init__(self) -> None:
        self.child: Child
        self.tasks = 0
        self.report: Report | None = None
        self.told: Told | None = None
        self._news = asyncio.Event()

    def hear(self, word: dict[str, object]) -> None:
        """On its line."""
        if self.told is not None:
            self.told(word)
            if self.told.outcome is not None:
                self._news.set()

    def print_out(self, data: bytes) -> None:
        """It printed."""
        if self.report is not None:
            self.report.write("stdout", data)

    def print_err(self, data: bytes) -> None:
        """It printed errors."""
        if self.report is not None:
            self.report.write("stderr", data)

    async def do(self, task: str, work: Work, report: Report) -> Outcome | None:
        """One task; None when the process ended before it was done."""
        assert self.child.line is not None
        self.tasks += 1
        self.report, self.told = report, Told(report, self.tasks)
        self._news.clear()
        ended = asyncio.ensure_future(self.child.wait())
        heard = asyncio.ensure_future(self._news.wait())
        try:
            self.child.line.sendall(frame({"task": task, "of": self.tasks, **job_fields(work)}))
            await asyncio.wait((heard, ended), return_when=asyncio.FIRST_COMPLETED)
            self.child.drain()
            return self.told.outcome
        except OSError:
            return None
        finally:
            heard.cancel()
            ended.cancel()

    def leave(self) -> None:
        """Its task is over."""
        self.report = self.told = None


class TaskPool:
    """Processes that have the tasks of some modules."""

    def __init__(self, nursery: Nursery, modules: Sequence[str], most: int = 16) -> None:
        self._nursery, self._modules = nursery, tuple(modules)
        self._room = asyncio.Semaphore(most)
        self._idle: list[Seat] = []

    async def run(self, task: str, work: Work, report: Report) -> Outcome:
        """One attempt."""
        async with self._room:
            try:
                seat = await self._seat()
            except NurseryGone as error:
                return Failed(Failure("NotStarted", str(error)))
            return await self._run(seat, task, work, report)

    async def close(self) -> None:
        """End all that wait for work; those at work are the nursery's to end."""
        for seat in self._idle:
            seat.child.signal(signal.SIGKILL)
        self._idle.clear()

    async def _run(self, seat: Seat, task: str, work: Work, report: Report) -> Outcome:
        try:
            outcome = await seat.do(task, work, report)
        except asyncio.CancelledError:
            await seat.child.kill(report.grace_s)
            raise
        if outcome is None:
            try:
                outcome = ends.ended_early(await seat.child.wait())
            except NurseryGone as error:
                outcome = Failed(Failure("NotStarted", str(error)))
        seat.leave()
        if seat.child.is_whole and seat.tasks < TASKS_EACH:
            self._idle.append(seat)
        else:
            seat.child.signal(signal.SIGKILL)
        return outcome

    async def _seat(self) -> Seat:
        while self._idle:
            seat = self._idle.pop()
            if seat.child.is_whole:
                return seat
            seat.child.signal(signal.SIGKILL)
        seat = Seat()
        order = Order("serve", dict(os.environ), modules=self._modules, path=python_path())
        seat.child = await self._nursery.spawn(order, seat.print_out, seat.print_err, seat.hear)
        return seat
