"""A thread with an event loop of its own, for programs that have none, or whose loop is busy running them."""

import asyncio
import atexit
import os
import selectors
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

T = TypeVar("T")
Cleanup = Callable[[], Awaitable[None]]

CLOSED = "this client was closed; make another"
TOO_LATE = "the program ends, and a client can do nothing any more; use it earlier, in atexit at the latest"
CLOSE_S = 5.0  # at the interpreter's end, for connections that do not close


class Portal:
    """Runs coroutines of any number of threads on one loop; `cleanup` is awaited there when it closes.

    It closes when it is told to, when nobody knows it any more, and when the interpreter ends.  The thread does not
    follow a process into its child (fork): there a portal is of no use.
    """

    def __init__(self, cleanup: Cleanup) -> None:
        if sys.is_finalizing():  # a thread would never begin, and `start` wait for it for ever
            raise RuntimeError(TOO_LATE)
        # A poll of our own: an epoll is shared with children, who would take our connections out of it.
        self._loop = asyncio.SelectorEventLoop(getattr(selectors, "PollSelector", selectors.SelectSelector)())
        thread = threading.Thread(target=_serve, args=[self._loop], name="taskflow-client", daemon=True)
        thread.start()
        self._finalizer = weakref.finalize(self, _stop, self._loop, thread, cleanup, os.getpid())
        self._finalizer.atexit = False  # it may be too late then; see `_end`
        _portals.add(self)

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What it returns, or raises.  Whoever is interrupted while waiting cancels it."""
        if not self._finalizer.alive:
            raise RuntimeError(CLOSED)
        future: Future[T] = Future()
        try:
            self._loop.call_soon_threadsafe(_begin, self._loop, work, future)
            return future.result()
        except CancelledError:
            if _ending:
                threading.Event().wait()  # a daemon thread, which the interpreter leaves behind without a word
            raise RuntimeError(CLOSED) from None
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Clean up and end the thread."""
        if alive := self._finalizer.detach():
            _, stop, args, _ = alive
            stop(*args)


_portals: "weakref.WeakSet[Portal]" = weakref.WeakSet()
_ending = False


@atexit.register
def _end() -> None:
    """The interpreter ends."""
    global _ending
    _ending = True
    for portal in list(_portals):
        portal.close()


def _begin(loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, T]], future: "Future[T]") -> None:
    """Let a task do the work; the coroutine is made here, for an interrupt could lose it elsewhere."""
    if not future.cancelled():
        task = loop.create_task(work())
        task.add_done_callback(lambda _: _pass_on(task, future))
        future.add_done_callback(lambda _: future.cancelled() and loop.call_soon_threadsafe(task.cancel))


def _pass_on(task: "asyncio.Task[T]", future: "Future[T]") -> None:
    if task.cancelled():
        future.cancel()
        future.set_running_or_notify_cancel()
    elif future.set_running_or_notify_cancel():
        error = task.exception()
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(task.result())


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(asyncio.sleep(0))  # lets those begin who came last
        while tasks := asyncio.all_tasks(loop):
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, cleanup: Cleanup, pid: int) -> None:
    if os.getpid() != pid or not thread.is_alive():
        return

    async def finish() -> None:
        try:
            await asyncio.wait_for(cleanup(), CLOSE_S)
        except Exception:  # noqa: S110 - a connection that cannot be closed is gone already
            pass
        finally:
            loop.stop()

    asyncio.run_coroutine_threadsafe(finish(), loop)
    if threading.current_thread() is not thread:  # else the collector called us from there, and it ends after us
        thread.join(2 * CLOSE_S)
