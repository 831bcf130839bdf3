"""TaskFlow without any server, for unit tests: jobs run in this process.  Users come through `taskflow.testing`."""

from taskflow.inline.bench import Bench

__all__ = ["Bench"]
