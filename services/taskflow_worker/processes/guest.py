"""A user's code in a process of its own: one call, or one task after the other.

Standard output and errors are pipes that the worker reads.  Descriptor 3 is the line: results, errors and progress go
out as frames, and to those that serve tasks come in as packets.  Every word names the order it belongs to (`of`): a
thread or a process that an earlier task has left may still speak.  A process that the code forks and that comes back
to us ends here, without a word: the outcome is the parent's.
"""

import asyncio
import gc
import importlib
import importlib.util
import inspect
import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, TextIO

from taskflow.calling import encode_result
from taskflow.context import Context, enter
from taskflow.errors import Fatal
from taskflow_worker.processes.messages import Frames, frame

LINE_FD = 3
LOADED_TASKS = 75  # exit status of a call that had to; its outcome was told before
READ_BYTES = 64 << 10
MESSAGE_CHARS = 2_000
TRACEBACK_CHARS = 16_000  # of its end, where the cause stands
_streams: list[TextIO] = []
_self: list[int] = []  # the pid of the process that got the order
OURS = ("taskflow_worker", "taskflow.calling", "importlib", "asyncio")


def prepare() -> None:
    """What can be done once for all, in the nursery: its children write through the same objects."""
    os.environ.clear()
    sys.argv[:] = ["taskflow"]
    _streams[:] = sys.stdout, sys.stderr = _stream(1), _stream(2)  # the old ones remember what the descriptors were
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", force=True)


def rehearse() -> None:
    """Go the whole way once, for nothing: each page of memory that is touched now need not be copied later."""
    job = dict.fromkeys(("job_id", "attempt", "fence", "queue", "name", "worker", "timeout_s"))
    frame(_outcome(job, lambda: _call({"payload": b'{"callable": "builtins:len", "args": [[]]}'})))


def look_around(path: Sequence[str]) -> None:
    """Know what is in the places that modules come from; each is looked at again when it has changed."""
    if sys.path != list(path):
        sys.path[:] = path
        importlib.util.find_spec("taskflow_looks_around")


def run(order: Mapping[str, Any]) -> int:
    """Do what was ordered; the exit status."""
    _self[:] = [os.getpid()]
    os.environ.update(order["env"])
    sys.path[:] = order["path"]
    if order["kind"] == "serve":
        return _serve(order["modules"])
    had_tasks = has_tasks()
    _end(_outcome(order["job"], lambda: _call(order["job"])))
    return LOADED_TASKS if has_tasks() and not had_tasks else 0


def has_tasks() -> bool:
    """Whether this process has loaded what a module with tasks needs of TaskFlow."""
    return "taskflow.tasks" in sys.modules


def load_tasks() -> None:
    """Load it, for all children to come.  It takes longer than all else, and doubles what a fork has to copy."""
    import taskflow.builtin  # noqa: F401 - importing it registers the built-in tasks

    gc.freeze()


def _stream(fd: int) -> TextIO:
    return open(fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def _serve(modules: list[str]) -> int:
    """Load the tasks once, then run one after the other until the line ends."""
    from taskflow.tasks import registry

    for module in modules:
        importlib.import_module(module)
    frames = Frames()
    while data := os.read(LINE_FD, READ_BYTES):
        for job in frames.feed(data):
            _end(_outcome(job, partial(_call_task, registry.tasks[job["task"]], job["payload"])))
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
    limit_s, of = job["timeout_s"], job.get("of")
    enter(
        Context(
            job["job_id"], job["attempt"], job["fence"], job["queue"], job["name"], job["worker"],
            datetime.now(UTC) + timedelta(seconds=limit_s) if limit_s else None, False,
            lambda fraction, note: _say({"progress": [fraction, note[:200]], "of": of}),
        )
    )  # fmt: skip
    try:
        sys.stdout, sys.stderr = _streams  # whatever a task before has put there
        return {"value": encode_result(call()), "of": of}
    except BaseException as error:
        try:
            return {"error": _error(error), "of": of}
        except BaseException:  # there may be no memory left to say more
            return {"error": (type(error).__name__, "it failed, and so did telling of it", None, False), "of": of}
    finally:
        _flush()


def _flush() -> None:
    """Also where the code has put something else in their place, or closed them."""
    for stream in {sys.stdout, sys.stderr, *_streams}:
        with suppress(Exception):
            stream.flush()


def _error(error: BaseException) -> tuple[str, str, str, bool]:
    trace = traceback.TracebackException(type(error), error, _below_ours(error.__traceback__))
    try:
        message = str(error)
    except Exception:  # its own __str__ failed
        message = f"<{type(error).__name__} without a message>"
    if isinstance(error, SystemExit):
        message = f"it asked to exit with {error.code!r}"
    elif isinstance(error, MemoryError) and not message:
        message = "it needed more memory than it may have"
    text = "".join(trace.format())[-TRACEBACK_CHARS:]
    storable = [part.encode(errors="replace").decode() for part in (message[:MESSAGE_CHARS], text)]
    return type(error).__name__, storable[0], storable[1], isinstance(error, Fatal)


def _below_ours(trace: TracebackType | None) -> TracebackType | None:
    """From the user's frames on; if there are none (an import that failed), nothing of ours is shown."""
    while trace is not None and _is_ours(trace.tb_frame.f_globals.get("__name__", "")):
        trace = trace.tb_next
    return trace


def _is_ours(module: object) -> bool:
    return any(module == name or str(module).startswith(f"{name}.") for name in OURS)


def _end(outcome: dict[str, Any]) -> None:
    """Tell how it ended, unless this is a process that the code has forked."""
    if [os.getpid()] != _self:
        os._exit(0)
    _say(outcome)


def _say(word: dict[str, Any]) -> None:
    data = memoryview(frame(word))
    while data:
        data = data[os.write(LINE_FD, data) :]
