"""What a service's `main` is given: settings, store, log, health, the stop event, and loops that survive.

A loop's step may fail in any way: an outage of the broker is told once, everything else with its traceback,
and the step runs again after a pause that grows.  Loops wait on the stop event and never sleep through it.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Generic

import taskflow_streams
from taskflow_runtime import logs
from taskflow_runtime.health import App, Health
from taskflow_runtime.loops import LONGEST_PAUSE_S, Backoff, Outage, name_of, summary
from taskflow_runtime.settings import S
from taskflow_runtime.web import Web

Step = Callable[[], Awaitable[object]]


class Service(Generic[S]):
    """One running service."""

    def __init__(
        self,
        name: str,
        settings: S,
        store: taskflow_streams.Store,
        *,
        health: Health | None = None,
        stopping: asyncio.Event | None = None,
        web: Web | None = None,
    ) -> None:
        self.name = name
        self.settings = settings
        self.store = store
        self.health = health or Health(name, settings.ready_within_s)
        self.stopping = stopping or asyncio.Event()
        self.log = logs.get_log()
        self._web = web
        self._outage = Outage(self.log)
        self._backgrounds: set[asyncio.Task[None]] = set()

    async def every(self, seconds: float, step: Step, *, until: asyncio.Event | None = None) -> None:
        """Take the step, tell what it did, pause; until the stop (or until another event, for what must outlast it)."""
        end = until or self.stopping
        backoff = Backoff()
        while not end.is_set():
            if await self._attempt(step, "info"):
                backoff.reset()
                await self._rest(seconds, end)
            else:
                await _wait(end, backoff.pause())

    async def consume(self, step: Step, *, until: asyncio.Event | None = None) -> None:
        """Take the step again and again; it blocks by itself while there is nothing to do.

        The stop does not interrupt a step, for what it has read must be dealt with: let it block for a second
        or so.  What it did is told at debug level, because under load that is a line per batch.
        """
        end = until or self.stopping
        backoff = Backoff()
        while not end.is_set():
            if await self._attempt(step, "debug"):
                backoff.reset()
                await asyncio.sleep(0)  # a step that found work at once must not starve its neighbours
            else:
                await _wait(end, backoff.pause())

    async def serve(self, app: App) -> None:
        """Let this application answer at the service's address until the stop, then finish the requests in hand.

        The broker is asked meanwhile whether it is there.  A response without end has to watch `stopping` itself.
        """
        if self._web is None:
            raise RuntimeError("This service was made without a web server.")
        self._web.mount(app)
        self.log.info("api.listening", url=self._web.url)
        await self.every(self.health.ready_within_s / 4, self.store.ping)
        await self._web.stop()

    def background(self, loop: Callable[[], Awaitable[None]], name: str) -> asyncio.Task[None]:
        """Run a loop beside `main`, and again if it crashes.  The service ends when `main` and all of these have."""
        task = asyncio.create_task(self._supervise(loop, name), name=name)
        self._backgrounds.add(task)
        task.add_done_callback(self._backgrounds.discard)
        return task

    async def join(self) -> None:
        """Wait until every background loop has ended."""
        while self._backgrounds:
            await asyncio.wait(self._backgrounds)

    async def abandon(self) -> None:
        """Cancel the background loops that are left."""
        left = list(self._backgrounds)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _supervise(self, loop: Callable[[], Awaitable[None]], name: str) -> None:
        clock, backoff = asyncio.get_running_loop().time, Backoff()
        while True:
            started = clock()
            try:
                return await loop()
            except taskflow_streams.Unavailable as error:
                self._outage.failed(error)
            except Exception:
                self.log.exception("background.crashed", background=name)
            if clock() - started > LONGEST_PAUSE_S:
                backoff.reset()
            if await _wait(self.stopping, backoff.pause()):
                return None

    async def _attempt(self, step: Step, level: str) -> bool:
        try:
            result = await step()
        except taskflow_streams.Unavailable as error:
            self._outage.failed(error)
            return False
        except Exception:
            self.log.exception("step.failed", step=name_of(step))
            return False
        self._outage.passed()
        self.health.beat()
        event, fields = summary(step, result)
        if fields:
            getattr(self.log, level)(f"{self.name}.{event}", **fields)
        return True

    async def _rest(self, seconds: float, end: asyncio.Event) -> None:
        """Pause.  In a long pause the broker is asked now and then, or the service would seem unready."""
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        while not await _wait(end, min(until - clock(), self.health.ready_within_s / 2)):
            if clock() >= until:
                return
            await self._attempt(self.store.ping, "debug")


async def _wait(event: asyncio.Event, seconds: float) -> bool:
    """Wait for the event, but not longer than this.  True if it is set."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, seconds)):
            await event.wait()
    return event.is_set()
