"""What a job calls, and the two ways to call it: for those who wait in a thread, and for those on an event loop."""

import asyncio
import contextvars
import importlib
import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from taskflow.context import Context, enter
from taskflow.inline.entry import Entry

T = TypeVar("T")
Body = Callable[[], Any]


class ShellFailed(Exception):
    """A command that did not exit with 0; its result is known."""

    def __init__(self, status: int, result: dict[str, Any]) -> None:
        super().__init__(f"it exited with {status}")
        self.result = result


class Caller(Protocol):
    """Calls a function inside an attempt."""

    async def __call__(self, body: Body, is_async: bool, context: Context) -> Any:
        """What it returns, or raises."""


def find(entry: Entry) -> tuple[Body, bool]:
    """What to call, and whether it must be awaited."""
    new = entry.new
    if (task := entry.task) is not None:
        args, kwargs = task.arguments(new.payload)
        return lambda: task.function(*args, **kwargs), task.is_async
    fields = json.loads(new.payload)
    if new.type == "shell":
        return lambda: _shell(fields, entry), False
    function = _import(fields["callable"])
    is_async = inspect.iscoroutinefunction(inspect.unwrap(function))
    return lambda: function(*fields.get("args", ()), **fields.get("kwargs", {})), is_async


async def awaited(body: Body, is_async: bool, context: Context) -> Any:
    """On the caller's event loop, or in a thread of its own if it is no coroutine function."""

    def inside() -> Any:
        enter(context)
        return body()

    async def inside_loop() -> Any:
        try:
            return await inside()
        except SystemExit as error:  # which would end the loop, and the test with it
            return _Exited(error)

    if not is_async:
        return await asyncio.to_thread(inside)
    result = await asyncio.create_task(inside_loop(), context=contextvars.copy_context())
    if isinstance(result, _Exited):
        raise result.error
    return result


async def blocking(body: Body, is_async: bool, context: Context) -> Any:
    """In the caller's thread, unless that runs an event loop, which the function must not see; never waits."""

    async def inside_loop() -> Any:
        return await body()

    def inside() -> Any:
        enter(context)
        return asyncio.run(inside_loop()) if is_async else body()

    return _away_from_loops(lambda: contextvars.copy_context().run(inside))


def ends_the_test(error: BaseException) -> bool:
    """Whether it is for the test that called, not the end of an attempt: Ctrl-C, a loop that stops, `pytest.fail`."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task() if _is_on_a_loop() else None
        return task is not None and task.cancelling() > 0
    outcome = getattr(sys.modules.get("_pytest.outcomes"), "OutcomeException", KeyboardInterrupt)
    return isinstance(error, KeyboardInterrupt | GeneratorExit | outcome)


@dataclass(frozen=True, slots=True)
class _Exited:
    """An attempt that raised SystemExit."""

    error: SystemExit


def _away_from_loops(call: Callable[[], T]) -> T:
    if not _is_on_a_loop():
        return call()
    values: list[T] = []
    errors: list[BaseException] = []

    def inside() -> None:
        try:
            values.append(call())
        except BaseException as error:
            errors.append(error)

    surroundings = contextvars.copy_context()
    thread = threading.Thread(target=surroundings.run, args=[inside], name="taskflow-inline")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return values[0]


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _import(name: str) -> Callable[..., Any]:
    module, _, attributes = name.partition(":")
    found: Any = importlib.import_module(module)
    for attribute in attributes.split("."):
        found = getattr(found, attribute)
    function: Callable[..., Any] = found
    return function


def _shell(fields: dict[str, Any], entry: Entry) -> dict[str, Any]:
    own = {
        "TASKFLOW_JOB_ID": entry.new.id,
        "TASKFLOW_ATTEMPT": str(entry.attempt),
        "TASKFLOW_FENCE": str(entry.attempt),
    }
    with tempfile.TemporaryDirectory(prefix="taskflow-") as folder:
        output = Path(folder) / "output"
        env = {**os.environ, **(fields.get("env") or {}), **own, "TASKFLOW_OUTPUT": str(output)}
        argv = ["/bin/sh", "-c", fields["cmd"]]
        done = subprocess.run(
            argv, env=env, cwd=fields.get("cwd"), stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        left = json.loads(output.read_bytes()) if output.exists() else None
    for stream, data in (("stdout", done.stdout), ("stderr", done.stderr)):
        if data:
            entry.write(stream, data)
    result = {"exit_code": done.returncode, "output": left}
    if done.returncode:
        raise ShellFailed(done.returncode, result)
    return result
