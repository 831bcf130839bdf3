"""Jobs of type `python`: a function, imported and called in a process of its own, forked from the warm nursery."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from taskflow.calling import is_result
from taskflow.executor import Failed, Kit, Outcome, Report, Succeeded, Work
from taskflow_domain import executor_faults
from taskflow_streams import Failure
from taskflow_worker.processes import Nursery, NurseryGone, Order
from taskflow_worker.runners import ends
from taskflow_worker.runners.surroundings import environment, job_fields, limits, mark


class Python:
    """`{"callable": "pkg.module:function", "args"?, "kwargs"?, "timeout_s"?}`; the result is what it returns."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._nursery: Nursery = kit.services["nursery"]

    async def run(self, work: Work, report: Report) -> Outcome:
        """One attempt."""
        fields = json.loads(work.payload)
        if faults := executor_faults("python", fields):
            return Failed(Failure("Refused", "; ".join(f"{field}: {why}" for field, why in faults)), fatal=True)
        order = Order(
            "call", environment(self._kit, work, {}), job=job_fields(work) | {"of": 0}, path=python_path(),
            mark=mark(work), limits=limits(self._kit),
        )  # fmt: skip
        told = Told(report)
        try:
            out, err = partial(report.write, "stdout"), partial(report.write, "stderr")
            child = await self._nursery.spawn(order, out, err, told)
            told.then = child.let_go
            try:
                status = await child.wait()
            except asyncio.CancelledError:
                await child.kill(report.grace_s)
                raise
        except NurseryGone as error:
            return Failed(Failure("NotStarted", str(error)))
        return told.outcome or ends.ended_early(status)

    async def close(self) -> None:
        """The nursery is not ours."""


class Told:
    """What a child says on its line: progress, and in the end an outcome."""

    def __init__(self, report: Report, of: int = 0) -> None:
        self.outcome: Outcome | None = None
        self.then: Callable[[], None] | None = None  # called with the outcome
        self._report, self._of = report, of

    def __call__(self, word: dict[str, Any]) -> None:
        """Take it; raises ValueError for what no child of ours says, as code of a job may write there, too."""
        if isinstance(word, dict) and word.get("of", self._of) != self._of:
            return  # of an order that is over
        match word:
            case {"progress": [float(fraction), str(note)]} if 0 <= fraction <= 1:
                self._report.progress(fraction, note)
            case {"error": [str(), str(), None | str(), bool()] as error}:
                self.outcome = ends.from_word(error)
            case {"value": None | bytes() as value} if is_result(value):
                self.outcome = Succeeded(value)
            case _:
                raise ValueError("it is no word of ours")
        if self.outcome is not None and self.then is not None:
            self.then()


def python_path() -> tuple[str, ...]:
    """Where the worker looks for modules; also in its working directory, after everywhere else."""
    here = os.getcwd()
    return tuple(sys.path) if here in sys.path else (*sys.path, here)


def make(kit: Kit) -> Python:
    """What the entry point names."""
    return Python(kit)
