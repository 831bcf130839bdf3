"""`@task` registers a function and leaves it what it was."""

from __future__ import annotations

import copy
import functools
import inspect
import multiprocessing
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from taskflow import Registry, RetryPolicy, task
from taskflow.builtin import echo, fail, noop, sleep
from taskflow.calling import encode_result
from taskflow.tasks import registry


def test_bare_and_with_options() -> None:
    """Both forms register; the function can still be called, and is at hand as it was."""
    tasks = Registry()

    def add(a: int, b: int) -> int:
        return a + b

    async def send(to: str) -> str:
        return to

    plain = tasks.task(add)
    policy = RetryPolicy(max_attempts=7)
    decorated = tasks.task(name="mail.send", queue="mail", retry_policy=policy, timeout_s=2.5)(send)

    assert plain.__wrapped__ is add
    assert plain(1, 2) == 3
    assert decorated.__wrapped__ is send
    found = tasks.tasks["mail.send"]
    assert (found.function, found.queue, found.retry_policy, found.timeout_s) == (send, "mail", policy, 2.5)
    assert (found.is_async, tasks.tasks["add"].is_async) == (True, False)
    assert (tasks.tasks["add"].queue, tasks.tasks["add"].retry_policy) == ("default", None)


def test_the_module_decorator_uses_the_registry_of_the_process() -> None:
    """`from taskflow import task` is enough."""

    @task(name="test_sdk_tasks.here")
    def here() -> None: ...

    assert registry.find("test_sdk_tasks.here") is registry.find(here)
    assert registry.find(here) is not None


def test_a_task_is_found_under_further_decorators() -> None:
    """One may decorate a task once more and enqueue what comes of it."""
    tasks = Registry()

    def loudly(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @loudly
    @tasks.task
    def work() -> None: ...

    found = tasks.find(work)

    assert found is not None
    assert found.name == "work"
    assert tasks.find(lambda: None) is None


def test_a_name_belongs_to_one_function() -> None:
    """A second function of that name is refused; the same one, loaded again, takes its place."""
    tasks = Registry()

    def module(version: int) -> Callable[[], int]:
        def work() -> int:
            return version

        return work

    tasks.task(module(1))
    tasks.task(module(2))
    assert tasks.tasks["work"].function() == 2

    def other() -> None: ...

    with pytest.raises(ValueError, match=r"two functions are called 'work'.*another name"):
        tasks.task(name="work")(other)


def generator() -> Iterator[int]:
    """No task."""
    yield 1


async def async_generator() -> AsyncIterator[int]:
    """No task either."""
    yield 1


class Calculator:
    """Has methods."""

    def method(self, a: int) -> int:
        """No task, for want of an object."""
        return a

    @staticmethod
    def static(a: int) -> int:
        """Needs none."""
        return a


def test_a_static_method_can_be_a_task() -> None:
    """It needs no object."""
    made = Registry().task(Calculator.static)

    assert (made.name, made(3)) == ("static", 3)


@pytest.mark.parametrize(
    ("options", "function", "reason"),
    [
        ({"name": "@shell"}, noop, "executors"),
        ({"name": "x" * 256}, noop, "1 to 255"),
        ({"name": "a\0b"}, noop, "NUL"),
        ({"name": ""}, noop, "1 to 255"),
        ({"name": 5}, noop, "name is a str, not 5"),
        ({"name": "\ud800"}, noop, "half a surrogate pair"),
        ({"timeout_s": 0}, noop, r"timeout_s of task 'noop' is a number of seconds from 0\.001"),
        ({"timeout_s": -1}, noop, "timeout_s of task"),
        ({"timeout_s": float("nan")}, noop, "timeout_s of task"),
        ({"timeout_s": 1e9}, noop, "to 31,536,000"),
        ({"timeout_s": "30"}, noop, "timeout_s of task 'noop' is a number of seconds, not '30'"),
        ({"queue": "a b"}, noop, "a queue's name"),
        ({"queue": 1}, noop, "queue of task 'noop' is a str"),
        ({"retry_policy": 3}, noop, "retry_policy of task 'noop' is a RetryPolicy, not 3"),
        ({}, Calculator.method, "is a method, and a worker has no object to call it on"),
        ({}, generator, "generator"),
        ({}, async_generator, "generator"),
        ({}, 3, "must be a function"),
    ],
)
def test_what_cannot_be_a_task_is_refused_at_once(options: dict[str, Any], function: Any, reason: str) -> None:
    """At the import, not when the first job comes."""
    with pytest.raises((ValueError, TypeError), match=reason):
        Registry().task(**options)(function)


async def test_the_built_in_tasks() -> None:
    """They are registered under their names, and do what they say."""
    assert {"taskflow.noop", "taskflow.echo", "taskflow.sleep", "taskflow.fail"} <= registry.tasks.keys()
    assert await echo({"args": [1], "kwargs": {}}) == {"args": [1], "kwargs": {}}
    await noop([])
    await sleep(seconds=0)
    with pytest.raises(RuntimeError, match="because"):
        await fail(message="because")


@pytest.mark.parametrize("payload", [b"null", b"[]", b'"x"', b"{}", b'{"args":[1],"kwargs":{}}', b'{"payload":5}'])
async def test_echo_returns_any_payload_as_it_came(payload: bytes) -> None:
    """Also those that would be arguments to other functions."""
    found = registry.tasks["taskflow.echo"]
    args, kwargs = found.arguments(payload)
    assert encode_result(await echo(*args, **kwargs)) == (payload if payload != b"null" else None)


@pytest.mark.parametrize("seconds", [-1, True, "1", None, float("nan"), float("inf"), [1]])
async def test_sleep_refuses_what_is_no_time(seconds: Any) -> None:
    """With a sentence."""
    with pytest.raises(ValueError, match="seconds must be a number"):
        await sleep(seconds=seconds)


@task(name="test_sdk_tasks.placed")
def placed(a: int) -> int:
    """Has a place."""
    return a


def test_a_task_looks_like_its_function_and_is_pickled_by_its_place() -> None:
    """So that pools and documentation tools can use it."""
    assert (placed.__name__, placed.__doc__, placed.__module__) == ("placed", "Has a place.", __name__)
    assert inspect.signature(placed) == inspect.signature(placed.__wrapped__)
    assert pickle.loads(pickle.dumps(placed)) is placed
    assert copy.deepcopy(placed) is placed
    assert repr(placed).startswith("<task 'test_sdk_tasks.placed'")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(placed, 3).result() == 3
