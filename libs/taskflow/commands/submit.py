"""`taskflow submit` and `taskflow python`: hand in work, and wait for it if asked to."""

import sys
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from taskflow.commands.options import ApiUrl, AsJson, Token, duration_s, iso, moment
from taskflow.commands.template import command_job, function_job

PANEL: Final = "Work"
WHEN: Final = "When and how often"

Queue = Annotated[str | None, typer.Option("--queue", "-q", help="The queue it waits in  \\[general]")]
Priority = Annotated[int | None, typer.Option("--priority", "-p", help="The lower, the sooner  [0]")]
Owner = Annotated[str | None, typer.Option(help="For whom it is")]
Key = Annotated[
    str | None, typer.Option(help="An idempotency key: handed in again with it, the first job is the answer")
]
Wait = Annotated[bool, typer.Option("--wait", "-w", help="Show its output as it comes, and end with its exit code")]
Timeout = Annotated[
    float | None,
    typer.Option(parser=duration_s, metavar="DURATION", rich_help_panel=WHEN, help="How long one attempt may take"),
]
Retries = Annotated[
    int | None,
    typer.Option(
        min=0, rich_help_panel=WHEN, help="How often it may run again after a failure  \\[3, or 0 with --wait]"
    ),
]
Delay = Annotated[
    float | None,
    typer.Option(parser=duration_s, metavar="DURATION", rich_help_panel=WHEN, help="Start so long from now"),
]
At = Annotated[
    datetime | None,
    typer.Option(
        parser=moment, metavar="TIME", rich_help_panel=WHEN, help="Start at this time, local unless it has an offset"
    ),
]
Ttl = Annotated[
    float | None,
    typer.Option(
        parser=duration_s, metavar="DURATION", rich_help_panel=WHEN, help="Expire unless started within so long"
    ),
]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", "-e", metavar="NAME[=VALUE]", help="A variable for the command; may be repeated"),
]
Cwd = Annotated[str | None, typer.Option(help="The directory in which the command runs, on the worker's machine")]
Arg = Annotated[
    list[str] | None,
    typer.Option("--arg", "-a", metavar="VALUE", help="An argument of the function: JSON, else text; repeatable"),
]
Kwarg = Annotated[
    list[str] | None, typer.Option("--kwarg", "-k", metavar="NAME=VALUE", help="One with a name; repeatable")
]


def register(app: typer.Typer) -> None:
    """Add the commands `submit` and `python`."""
    app.command(rich_help_panel=PANEL)(submit)
    app.command(rich_help_panel=PANEL)(python)


def submit(
    command: Annotated[list[str], typer.Argument(help="The command; one text alone is given to the shell as it is")],
    queue: Queue = None,
    priority: Priority = None,
    env: Env = None,
    cwd: Cwd = None,
    owner: Owner = None,
    key: Key = None,
    timeout: Timeout = None,
    retries: Retries = None,
    delay: Delay = None,
    at: At = None,
    ttl: Ttl = None,
    wait: Wait = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
    token: Token = None,
) -> None:
    """Run a shell command as a job:  taskflow submit -- echo hi"""
    body = command_job(command, env, cwd)
    _hand_in(body | _common(queue, priority, owner, key, timeout, retries, delay, at, ttl), wait, as_json, api, token)


def python(
    function: Annotated[str, typer.Argument(metavar="PACKAGE.MODULE:FUNCTION", help="What to call")],
    arg: Arg = None,
    kwarg: Kwarg = None,
    queue: Queue = None,
    priority: Priority = None,
    owner: Owner = None,
    key: Key = None,
    timeout: Timeout = None,
    retries: Retries = None,
    delay: Delay = None,
    at: At = None,
    ttl: Ttl = None,
    wait: Wait = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
    token: Token = None,
) -> None:
    """Call a Python function as a job:  taskflow python math:sqrt -a 2"""
    body = function_job(function, arg, kwarg)
    _hand_in(body | _common(queue, priority, owner, key, timeout, retries, delay, at, ttl), wait, as_json, api, token)


def _common(
    queue: str | None,
    priority: int | None,
    owner: str | None,
    key: str | None,
    timeout: float | None,
    retries: int | None,
    delay: float | None,
    at: datetime | None,
    ttl: float | None,
) -> dict[str, Any]:
    if delay is not None and at is not None:
        raise typer.BadParameter("give --delay or --at, not both")
    return {
        "queue": queue,
        "priority": priority,
        "owner": owner,
        "idempotency_key": key,
        "timeout_s": timeout,
        "retries_max": retries,
        "delay_s": delay,
        "scheduled_at": iso(at) if at else None,
        "ttl_s": ttl,
    }


def _hand_in(body: dict[str, Any], wait: bool, as_json: bool, url: str | None, token: str | None) -> None:
    from taskflow.commands.http import Api

    if wait and body["retries_max"] is None and body["idempotency_key"] is None:
        body["retries_max"] = 0  # as if it ran here; with a key it must be the same job as without --wait
    said = {name: value for name, value in body.items() if value is not None}
    with Api(url, token) as api:
        answer = api.create("/jobs", said)
        job_id = api.field(answer, "id")
        if wait:
            from taskflow.commands.wait import wait_for

            raise typer.Exit(wait_for(api, job_id, as_json=as_json, retries=body["retries_max"] != 0))
    if as_json:
        from taskflow.commands.render import show_json

        show_json(answer)
    else:
        typer.echo(job_id)
        if sys.stdout.isatty() and sys.stderr.isatty():
            typer.echo(f"Follow it with: taskflow jobs logs -f {job_id}", err=True)
