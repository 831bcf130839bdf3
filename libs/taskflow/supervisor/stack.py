"""The whole: a server, the services on it, and the order in which they start and stop."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Sequence

from taskflow.supervisor.backoff import Backoff
from taskflow.supervisor.child import Child
from taskflow.supervisor.plan import STOP_ORDER
from taskflow_runtime.logs import Log
from taskflow_streams.embedded import EmbeddedServer, EmbeddedServerError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ONE_PRESS_S = 0.3  # a wrapper may pass on the Ctrl-C that the terminal gave us already
SERVER_POLL_S = 0.1
SERVER_HURRY_S = 2.0  # to write what it holds in memory; even in a hurry, data are worth that
SLOW_START_S = 15.0


class Stack:
    """Runs everything until a signal comes, or a service says that it can never run like this."""

    def __init__(self, children: Sequence[Child], server: EmbeddedServer | None, log: Log, grace_s: float) -> None:
        self._children = children
        self._server = server
        self._log = log
        self._grace_s = grace_s
        self._lives: list[asyncio.Task[None]] = []
        self._end = asyncio.Event()
        self._hurry = asyncio.Event()
        self._ended_at = 0.0

    async def run(self, when_ready: Callable[[], None]) -> bool:
        """Start all, wait for the end, stop all.  False if a service refused to run."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.request_stop)
        try:
            if await self._unless_ended(self._start_server()):
                self._lives = [asyncio.create_task(self._live(child)) for child in self._children]
                keeper = asyncio.create_task(self._keep_server())
                if await self._unless_ended(self._all_ready()):
                    when_ready()
                await self._end.wait()
                keeper.cancel()
        finally:
            await self._stop_services()
            await self._stop_server()
        return not any(child.refused for child in self._children)

    def request_stop(self) -> None:
        """The first time: stop in order.  Again: stop at once."""
        now = time.monotonic()
        if not self._end.is_set():
            self._ended_at = now
            self._end.set()
        elif now - self._ended_at > ONE_PRESS_S:
            self._hurry.set()

    async def _live(self, child: Child) -> None:
        await child.run()
        if child.refused:
            self._end.set()

    async def _unless_ended(self, work: Awaitable[object]) -> bool:
        """Do the work, unless the end comes first; whether it was done."""
        doing = asyncio.ensure_future(work)
        ending = asyncio.create_task(self._end.wait())
        await asyncio.wait([doing, ending], return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if doing.done():
            doing.result()
            return not self._end.is_set()
        doing.cancel()
        return False

    async def _start_server(self) -> None:
        if self._server is not None:
            self._server.launch()  # here, on the main thread: the kernel ties it to the thread that starts it
            await asyncio.to_thread(self._server.wait_ready)

    async def _keep_server(self) -> None:
        """Start the server again whenever it ends.  The services wait for it, and lose nothing."""
        server, backoff = self._server, Backoff()
        while server is not None:
            started = time.monotonic()
            while (status := server.exit_code()) is None:  # noqa: ASYNC110 - only polling tells
                await asyncio.sleep(SERVER_POLL_S)
            pause_s = backoff.after(time.monotonic() - started)
            self._log.warning("valkey.ended", status=status, restart_in_s=pause_s)
            await asyncio.sleep(pause_s)
            try:
                server.launch()
            except (EmbeddedServerError, OSError) as error:
                self._log.error("valkey.refused", reason=str(error))

    async def _all_ready(self) -> None:
        while waiting := [child.name for child in self._children if not child.ready.is_set()]:
            try:
                async with asyncio.timeout(SLOW_START_S):
                    await asyncio.gather(*(child.ready.wait() for child in self._children))
            except TimeoutError:
                self._log.warning("up.slow", waiting_for=", ".join(waiting))

    async def _stop_services(self) -> None:
        self._log.info("up.stopping", hint="Ctrl-C again kills at once")
        orderly = asyncio.create_task(self._stop_in_order())
        hurried = asyncio.create_task(self._hurry.wait())
        await asyncio.wait([orderly, hurried], return_when=asyncio.FIRST_COMPLETED)
        for child in self._children:
            child.kill()
        await asyncio.gather(*self._lives, return_exceptions=True)
        orderly.cancel()
        hurried.cancel()

    async def _stop_in_order(self) -> None:
        for services in STOP_ORDER:
            stage = [child for child in self._children if child.program.service in services]
            await asyncio.gather(*(child.stop(self._grace_s) for child in stage))

    async def _stop_server(self) -> None:
        if self._server is not None:
            await asyncio.to_thread(self._server.stop, SERVER_HURRY_S if self._hurry.is_set() else 10.0)
        self._log.info("up.stopped")
