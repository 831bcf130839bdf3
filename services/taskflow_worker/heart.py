"""The heartbeat: renews leases from a thread of its own, with a connection of its own.

A handler that keeps the event loop busy, or computes in a thread, cannot keep it from beating.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

from taskflow_runtime.logs import Log
from taskflow_runtime.loops import Backoff, Outage
from taskflow_streams import Store, Unavailable

CANCEL_AGAIN_S = 0.1  # the Redis client swallows a cancel that comes while it connects

Connect = Callable[[], Awaitable[Store]]
Beat = Callable[[Store], Awaitable[None]]


class Heart:
    """Calls `beat` every `every_s` seconds in its own thread, until stopped; sooner again when it failed."""

    def __init__(self, connect: Connect, beat: Beat, every_s: float, log: Log) -> None:
        self.failing = False
        self._connect, self._beat, self._every_s, self._log = connect, beat, every_s, log
        self._unwanted = False
        self._life: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="heart", daemon=True)

    def start(self) -> None:
        """Begin to beat.  Called on the worker's event loop."""
        self._owner = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        self._thread.start()

    async def wait_end(self) -> None:
        """Return when it does not beat any more."""
        await self._stopped.wait()

    async def stop(self) -> None:
        """Beat no more, and return when that is so."""
        self._unwanted = True
        while not self._stopped.is_set():
            with suppress(RuntimeError):  # its loop is closed already
                if self._life is not None:
                    self._life.get_loop().call_soon_threadsafe(self._life.cancel)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), CANCEL_AGAIN_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except asyncio.CancelledError:
            pass
        except Exception:
            self.failing = True
            self._log.exception("heart.stopped")
        finally:
            with suppress(RuntimeError):  # the worker's loop is closed
                self._owner.call_soon_threadsafe(self._stopped.set)

    async def _live(self) -> None:
        self._life = asyncio.current_task()
        store: Store | None = None
        backoff, outage = Backoff(), Outage(self._log)
        try:
            while not self._unwanted:
                try:
                    store = store or await self._connect()
                    await self._beat(store)
                except Unavailable as error:
                    outage.failed(error)
                    self.failing = True
                except Exception:
                    self._log.exception("heartbeat.failed")
                    self.failing = True
                else:
                    outage.passed()
                    backoff.reset()
                    self.failing = False
                await asyncio.sleep(min(backoff.pause(), self._every_s) if self.failing else self._every_s)
        finally:
            if store is not None:
                await store.close()
