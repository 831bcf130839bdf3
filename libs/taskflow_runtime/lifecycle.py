"""The life of a service, from its settings to its exit status; all six go through here.

`run` reads the settings, sets up logs and health, connects, calls `main`, and undoes all that in reverse.
The first SIGTERM or SIGINT sets `stopping`: take nothing new, finish what is in hand.  After `stop_grace_s` main is
cancelled, and its `finally` may give back what is left.  Five seconds later the process ends in any case.

Exit status: 0 stopped, 1 crashed, 2 a setting or an address is wrong, 3 the broker is unfit.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import setproctitle

import taskflow_streams
from taskflow_runtime import logs, sources
from taskflow_runtime.errors import Refusal, UnfitBroker
from taskflow_runtime.health import Health
from taskflow_runtime.loops import Backoff, Outage
from taskflow_runtime.masking import mask
from taskflow_runtime.parent import watch_parent
from taskflow_runtime.service import Service
from taskflow_runtime.settings import S, Settings, read
from taskflow_runtime.signals import two_stage
from taskflow_runtime.stop import Stop
from taskflow_runtime.web import Web, listen

REMIND_S = 30.0
LAST_TASKS_S = 1.0  # for tasks that are cancelled when all else is undone

Main = Callable[[Service[S]], Awaitable[None]]


def run(name: str, settings_class: type[S], main: Main[S], **overrides: Any) -> None:
    """Run a service until it is stopped.  Returns after a clean stop, else raises SystemExit with the status."""
    try:
        settings = read(settings_class, **overrides)
        watch_parent()
        setproctitle.setproctitle(f"taskflow {name}")
        logs.configure(name, settings.log_level, settings.log_format)
        status = _run_to_the_end(name, settings, main)
    except Refusal as refusal:
        sys.stderr.write(f"taskflow {name}: {refusal}\n")
        status = refusal.exit_status
    if status:
        raise SystemExit(status)


def _run_to_the_end(name: str, settings: S, main: Main[S]) -> int:
    health = Health(name, settings.ready_within_s)
    stop = Stop(settings.stop_grace_s, health, logs.get_log())
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_to_the_last_task(_live(name, settings, main, health, stop)))
    finally:
        stop.over()


async def _to_the_last_task(life: Coroutine[Any, Any, int]) -> int:
    """The exit status of a life.  Code that does not let itself be cancelled is left behind, with the process."""
    status = await life
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        _, left = await asyncio.wait(left, timeout=LAST_TASKS_S)
    if left:
        logs.get_log().warning("service.left_behind", tasks=len(left))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return status


async def _live(name: str, settings: S, main: Main[S], health: Health, stop: Stop) -> int:
    log, status = logs.get_log(), 0
    async with contextlib.AsyncExitStack() as undo:
        undo.enter_context(two_stage(asyncio.get_running_loop(), stop.ask, stop.arm))
        web = Web(listen(settings.address), health.app, settings.stop_grace_s)
        web.start()
        undo.push_async_callback(web.stop)
        log.info("service.starting", pid=os.getpid(), url=web.url)
        _tell_what_is_ignored(settings, log)
        store = await _connect(settings, stop, log)
        if store is not None:
            undo.push_async_callback(_close, store, log)
            health.beat()
            log.info("service.started", broker=mask(settings.redis_url), namespace=settings.namespace)
            service = Service(name, settings, store, health=health, stopping=stop.event, web=web)
            status = await _work(service, main, stop)
    log.info("service.stopped", status=status)
    return status


async def _connect(settings: Settings, stop: Stop, log: logs.Log) -> taskflow_streams.Store | None:
    """A connected store, however long it takes; None if the stop comes first."""
    outage, backoff = Outage(log, REMIND_S), Backoff()
    with contextlib.suppress(TimeoutError):
        async with stop.limit(0):
            while True:
                try:
                    store = await taskflow_streams.Store.connect(
                        settings.redis_url, namespace=settings.namespace, partitions=settings.partitions
                    )
                except taskflow_streams.Unfit as error:
                    raise UnfitBroker(str(error)) from None
                except taskflow_streams.Unavailable as error:
                    outage.failed(error)
                    await asyncio.sleep(backoff.pause())
                else:
                    outage.passed()
                    return store
    return None


async def _work(service: Service[S], main: Main[S], stop: Stop) -> int:
    limit = stop.limit(service.settings.stop_grace_s)
    try:
        async with limit:
            await main(service)
            await service.join()
    except Refusal:
        raise
    except Exception:
        if not limit.expired():
            service.log.exception("service.crashed")
            return 1
        service.log.warning("service.cut_short", grace_s=service.settings.stop_grace_s)
    finally:
        stop.ask("main ended")
        await service.abandon()
    return 0


async def _close(store: taskflow_streams.Store, log: logs.Log) -> None:
    try:
        await store.close()
    except taskflow_streams.Unavailable as error:
        log.warning("broker.unavailable", error=str(error))


def _tell_what_is_ignored(settings: Settings, log: logs.Log) -> None:
    scheme = None if "redis_url" in settings.model_fields_set else sources.foreign_database_url()
    if scheme:
        reason = f"a {scheme} URL is no broker; using the default, {settings.redis_url}"
        log.warning("setting.ignored", setting=sources.DATABASE_URL, reason=reason)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # not made for every platform
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
