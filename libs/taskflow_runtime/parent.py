"""A service that a supervisor started does not outlive it, not even when the supervisor is killed.

The supervisor keeps the writing end of a pipe and tells the number of the reading end in `TASKFLOW_PARENT_FD`.
However it ends, the kernel closes its end, and reading ours says so.
"""

import os
import threading

from taskflow_runtime.errors import BadSetting

VARIABLE = "TASKFLOW_PARENT_FD"
ORPHANED = 1


def watch_parent() -> None:
    """If a supervisor asked for it, end this process the moment it is gone."""
    told = os.environ.pop(VARIABLE, None)  # it is meant for us, not for the processes that we start
    if not told:
        return
    try:
        descriptor = int(told)
        os.set_inheritable(descriptor, False)
    except (ValueError, OSError):
        raise BadSetting(f"{VARIABLE} is {told!r}, but must be the number of an open pipe.") from None
    threading.Thread(target=_follow, args=(descriptor,), name="parent", daemon=True).start()


def _follow(descriptor: int) -> None:
    try:
        while os.read(descriptor, 1):
            pass
    finally:
        os._exit(ORPHANED)
