"""A user's code in a process of its own: one call, or one task after the other.

Standard output and errors are pipes that the worker reads.  Descriptor 3 is the line: results, errors and progress go
out as frames, and to those that serve tasks come in as packets.
"""

import asyncio
import importlib
import inspect
import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, TextIO

from taskflow.calling import encode_result
from taskflow.context import Context, enter
from taskflow.errors import Fatal
from taskflow_worker.processes.messages import Frames, frame

LINE_FD = 3
READ_BYTES = 64 << 10
MESSAGE_CHARS = 2_000
TRACEBACK_CHARS = 16_000  # of its end, where the cause stands
OURS = ("taskflow_worker.", "importlib.", "asyncio.")


def run(order: Mapping[str, Any]) -> int:
    """Do what was ordered; the exit status."""
    os.environ.clear()
    os.environ.update(order["env"])
    sys.path[:] = order["path"]
    sys.argv[:] = ["taskflow"]
    sys.stdout, sys.stderr = _stream(1), _stream(2)  # the old ones remember what the descriptors were
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    if order["kind"] == "serve":
        return _serve(order["modules"])
    _say(_outcome(order["job"], lambda: _call(order["job"])))
    return 0


def _stream(fd: int) -> TextIO:
    return open(fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def _serve(modules: list[str]) -> int:
    """Load the tasks once, then run one after the other until the line ends."""
    import taskflow.builtin  # noqa: F401 - importing it registers the built-in tasks
    from taskflow.tasks import registry

    for module in modules:
        importlib.import_module(module)
    frames = Frames()
    while data := os.read(LINE_FD, READ_BYTES):
        for job in frames.feed(data):
            _say(_outcome(job, partial(_call_task, registry.tasks[job["task"]], job["payload"])))
    return 0


def _call_task(task: Any, payload: bytes) -> Any:
    args, kwargs = task.arguments(payload)
    return task.function(*args, **kwargs)


def _call(job: Mapping[str, Any]) -> Any:
    fields = json.loads(job["payload"])
    result = _find(fields["callable"])(*fields.get("args") or (), **fields.get("kwargs") or {})
    return asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result


async def _awaited(result: Any) -> Any:
    return await result


def _find(name: str) -> Callable[..., Any]:
    module, _, attributes = name.partition(":")
    found: Any = importlib.import_module(module)
    for attribute in attributes.split("."):
        found = getattr(found, attribute)
    if not callable(found):
        raise TypeError(f"{name} is not a function, but {type(found).__name__}")
    function: Callable[..., Any] = found
    return function


def _outcome(job: Mapping[str, Any], call: Callable[[], Any]) -> dict[str, Any]:
    limit_s = job["timeout_s"]
    enter(
        Context(
            job["job_id"], job["attempt"], job["fence"], job["queue"], job["name"], job["worker"],
            datetime.now(UTC) + timedelta(seconds=limit_s) if limit_s else None, False,
            lambda fraction, note: _say({"progress": [fraction, note[:200]]}),
        )
    )  # fmt: skip
    try:
        return {"value": encode_result(call())}
    except BaseException as error:
        return {"error": _error(error)}
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()


def _error(error: BaseException) -> tuple[str, str, str, bool]:
    trace = traceback.TracebackException(type(error), error, _below_ours(error.__traceback__))
    try:
        message = str(error)
    except Exception:  # its own __str__ failed
        message = f"<{type(error).__name__} without a message>"
    if isinstance(error, SystemExit):
        message = f"it asked to exit with {error.code!r}"
    text = "".join(trace.format())[-TRACEBACK_CHARS:]
    storable = [part.encode(errors="replace").decode() for part in (message[:MESSAGE_CHARS], text)]
    return type(error).__name__, storable[0], storable[1], isinstance(error, Fatal)


def _below_ours(trace: TracebackType | None) -> TracebackType | None:
    """From the user's frames on; if there are none (an import that failed), nothing of ours is shown."""
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(OURS):
        trace = trace.tb_next
    return trace


def _say(word: dict[str, Any]) -> None:
    data = memoryview(frame(word))
    while data:
        data = data[os.write(LINE_FD, data) :]
