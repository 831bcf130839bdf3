"""`taskflow up`: everything on this machine, with one command."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def register(app: typer.Typer) -> None:
    """Add the command `up`."""
    app.command()(up)


def up(
    host: Annotated[str | None, typer.Option(help="Address the api listens on  [127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="Port the api listens on; 0 finds a free one  [8000]")] = None,
    data_dir: Annotated[Path, typer.Option(envvar="TASKFLOW_DATA_DIR", help="Where the data are kept")] = Path(
        ".taskflow"
    ),
    workers: Annotated[int, typer.Option(min=0, help="Worker processes")] = 1,
    concurrency: Annotated[int | None, typer.Option(help="Jobs that each worker runs at a time")] = None,
    partitions: Annotated[int | None, typer.Option(help="Independent engines to spread the work over  [1]")] = None,
    redis_url: Annotated[
        str | None, typer.Option(help="A server of your own instead of the embedded Valkey  [TASKFLOW_REDIS_URL]")
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Listen beyond this machine without a token")] = False,
    log_format: Annotated[
        Literal["auto", "pretty", "json"] | None,
        typer.Option(help="pretty for people, json for programs; auto asks whether this is a terminal  \\[auto]"),
    ] = None,
) -> None:
    """Start Valkey and all services here, keep them running, and stop them on Ctrl-C."""
    from taskflow.supervisor.up import up as run

    run(
        data_dir,
        workers,
        host=host,
        port=port,
        worker_concurrency=concurrency,
        partitions=partitions,
        redis_url=redis_url,
        insecure=insecure or None,
        log_format=log_format,
    )
