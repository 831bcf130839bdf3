"""`taskflow up`, from the options of the command line to the end of the stack."""

import asyncio
import dataclasses
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import setproctitle

from taskflow.commands.errors import CommandFailed
from taskflow.supervisor import ports
from taskflow.supervisor.child import Child, Lifeline
from taskflow.supervisor.claim import Claim, Running
from taskflow.supervisor.console import Console
from taskflow.supervisor.plan import Program, StackSettings, programs
from taskflow.supervisor.stack import Stack
from taskflow_runtime.errors import BadSetting
from taskflow_runtime.logs import configure, get_log
from taskflow_runtime.masking import mask
from taskflow_runtime.settings import read
from taskflow_streams.embedded import EmbeddedServer, EmbeddedServerError

OWN_NAME = "up"
KILL_AFTER_S = 7.0  # beyond the grace; services end themselves after five
READY = """
  TaskFlow is ready.

    API   {url}/api/v1/jobs
    Docs  {url}/docs
    Data  {data}

  Ctrl-C stops everything.
"""


def up(data_dir: Path, workers: int, **overrides: Any) -> None:
    """Run a whole stack until it is told to stop.  Returns after a clean stop, else raises CommandFailed."""
    setproctitle.setproctitle("taskflow up")
    try:
        settings = read(StackSettings, **overrides)
    except BadSetting as error:
        raise CommandFailed(str(error)) from None
    with Claim(data_dir.resolve()) as claim:
        ports.check(settings.host, settings.port)
        server = None if "redis_url" in settings.model_fields_set else EmbeddedServer(claim.data_dir)
        redis_url = server.url if server else settings.redis_url
        plan = programs(settings, redis_url, workers)
        try:
            completed = asyncio.run(_supervise(plan, server, settings, claim, redis_url))
        except EmbeddedServerError as error:
            raise CommandFailed(str(error)) from None
    if not completed:
        raise CommandFailed("A service refused to run; its reason is above.")


async def _supervise(
    plan: Sequence[Program],
    server: EmbeddedServer | None,
    settings: StackSettings,
    claim: Claim,
    redis_url: str,
) -> bool:
    console = _console(plan, settings)
    configure(OWN_NAME, settings.log_level, "json", console.stream(OWN_NAME))
    log, lifeline = get_log(), Lifeline.here()
    children = [Child(each, partial(console.line, each.name), log, lifeline) for each in plan]
    running = _describe(plan, redis_url)
    data = f"{claim.data_dir}" if server else mask(redis_url)

    def announce() -> None:
        claim.publish(dataclasses.replace(running, ready=True))
        log.info("up.ready", url=running.api_url, docs=f"{running.api_url}/docs", data=data)
        console.plain(READY.format(url=running.api_url, data=data))

    claim.publish(running)
    stack = Stack(children, server, log, settings.stop_grace_s + KILL_AFTER_S)
    return await stack.run(announce)


def _console(plan: Sequence[Program], settings: StackSettings) -> Console:
    terminal = sys.stdout.isatty()
    pretty = settings.log_format == "pretty" or (settings.log_format == "auto" and terminal)
    colors = not os.environ.get("NO_COLOR") and (terminal or bool(os.environ.get("FORCE_COLOR")))
    return Console(sys.stdout.buffer, [OWN_NAME, *(each.name for each in plan)], pretty=pretty, colors=colors)


def _describe(plan: Sequence[Program], redis_url: str) -> Running:
    urls = {program.name: program.url for program in plan}
    return Running(os.getpid(), urls["api"], redis_url, ready=False, health_urls=urls)
