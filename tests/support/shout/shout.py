"""An executor as somebody else would write it: jobs of type `shout` print their text in capitals."""

import asyncio
import json

from taskflow.executor import Failed, Kit, Outcome, Report, Succeeded, Work
from taskflow_streams import Failure


class Shout:
    """Runs jobs of type `shout`: `{"text": "hello"}`."""

    async def run(self, work: Work, report: Report) -> Outcome:
        """One attempt."""
        text = json.loads(work.payload).get("text")
        if not isinstance(text, str):
            return Failed(Failure("BadField", "text: must be a string"), fatal=True)
        report.progress(0.5, "breathing in")
        await asyncio.sleep(0)
        report.write("stdout", f"{text.upper()}!\n".encode())
        return Succeeded(json.dumps(text.upper()).encode())

    async def close(self) -> None:
        """Nothing is held."""


def make(_kit: Kit) -> Shout:
    """What the entry point names."""
    return Shout()
