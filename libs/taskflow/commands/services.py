"""`taskflow api`, `taskflow worker` and the rest: one service alone, as containers run it."""

from typing import Annotated

import typer

RedisUrl = Annotated[
    str | None, typer.Option(help="The Redis or Valkey server: redis://, rediss:// or unix://  [TASKFLOW_REDIS_URL]")
]
Modules = Annotated[list[str] | None, typer.Argument(help="Python modules with your @task functions")]
Queues = Annotated[
    str | None, typer.Option(help="The queues to take jobs from: a,b or critical=6,default=3 or critical=6,*  \\[all]")
]


def register(app: typer.Typer) -> None:
    """Add one command for each service."""
    for command in (api, scheduler, cron, reaper, worker, projector):
        app.command()(command)


def api(
    redis_url: RedisUrl = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on  [127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 finds a free one  [8000]")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Listen beyond this machine without a token")] = False,
) -> None:
    """Serve the REST API."""
    _start("api", redis_url=redis_url, host=host, port=port, insecure=insecure or None)


def scheduler(redis_url: RedisUrl = None) -> None:
    """Release jobs that are due and jobs whose dependencies have ended."""
    _start("scheduler", redis_url=redis_url)


def cron(redis_url: RedisUrl = None) -> None:
    """Fire schedules."""
    _start("cron", redis_url=redis_url)


def reaper(redis_url: RedisUrl = None) -> None:
    """Give the jobs of dead workers to living ones, and remove what is past its time."""
    _start("reaper", redis_url=redis_url)


def worker(
    modules: Modules = None,
    redis_url: RedisUrl = None,
    concurrency: Annotated[int | None, typer.Option(help="Jobs to run at the same time")] = None,
    queues: Queues = None,
    max_jobs: Annotated[int | None, typer.Option(help="End after so many jobs, to be started anew")] = None,
    max_memory: Annotated[int | None, typer.Option(help="End when more MiB than this are used")] = None,
    reload: Annotated[bool, typer.Option("--reload", help="Start anew when a Python file changes")] = False,
) -> None:
    """Run jobs; without an address, those of the `taskflow up` of this directory, if it runs."""
    if redis_url is None:
        from taskflow.broker import redis_here

        redis_url = redis_here()
    if reload:
        from taskflow.commands.reload import run_reloading

        given = {
            "--redis-url": redis_url,
            "--concurrency": concurrency,
            "--queues": queues,
            "--max-jobs": max_jobs,
            "--max-memory": max_memory,
        }
        run_reloading(modules or (), [f"{name}={value}" for name, value in given.items() if value is not None])
        return
    _start(
        "worker",
        redis_url=redis_url,
        worker_concurrency=concurrency,
        worker_queues=queues,
        worker_max_jobs=max_jobs,
        worker_max_memory_mb=max_memory,
        worker_modules=",".join(modules) if modules else None,
    )


def projector(redis_url: RedisUrl = None) -> None:
    """Keep the search indexes and counters up to date."""
    _start("projector", redis_url=redis_url)


def _start(name: str, **overrides: object) -> None:
    from taskflow.services import start

    start(name, **overrides)
