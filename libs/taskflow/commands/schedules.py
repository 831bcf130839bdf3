"""`taskflow schedules`: the group, and the commands that only look: ls, show, preview and history."""

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from taskflow.commands import schedule_definition as definition
from taskflow.commands import schedule_orders as orders
from taskflow.commands.errors import CommandFailed
from taskflow.commands.options import ApiUrl, AsJson, Token, duration_s, iso, moment
from taskflow.commands.schedule_options import Ref, WithCommand
from taskflow.commands.schedule_orders import PATH, path_of

if TYPE_CHECKING:
    from taskflow.commands.http import Api

PAGE: Final = 100  # the api's largest page
NEXT_SHOWN: Final = 5
LINES_SHOWN: Final = 10

commands = typer.Typer(help="Run work again and again: make, see and steer schedules.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the group `schedules`."""
    commands.command()(ls)
    commands.command("add", cls=WithCommand)(definition.add)
    commands.command()(show)
    commands.command("set", cls=WithCommand)(definition.set_)
    for command in (orders.pause, orders.resume, orders.trigger, preview, orders.backfill, history, orders.rm):
        commands.command()(command)
    app.add_typer(commands, name="schedules", rich_help_panel="Work")


def ls(
    status: Annotated[
        Literal["active", "paused", "ended"] | None,
        typer.Option("--status", "-s", case_sensitive=False, help="Only those in this state"),
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Only those of this owner")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Only those whose name begins so")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many")] = PAGE,
    as_json: AsJson = False,
    api: ApiUrl = None,
    token: Token = None,
) -> None:
    """List schedules, the newest first."""
    from taskflow.commands import render
    from taskflow.commands.http import Api

    with Api(api, token) as http:
        schedules, more = _pages(http, PATH, limit, status=status, owner=owner, name=name)
    if as_json:
        render.show_json(schedules)
        return
    if not schedules:
        filtered = status or owner or name
        typer.echo("There are no such schedules." if filtered else "There are no schedules yet.", err=True)
        return
    from taskflow.commands.calendar import listing

    render.show(listing(schedules))
    if more and sys.stdout.isatty():
        typer.echo(f"There are more; --limit {limit * 5} shows them.", err=True)


def show(ref: Ref, as_json: AsJson = False, api: ApiUrl = None, token: Token = None) -> None:
    """Show a schedule: why it is as it is, what it runs, its next runs, and what happened."""
    from taskflow.commands import render
    from taskflow.commands.http import Api

    with Api(api, token) as http:
        path = path_of(ref)
        schedule = http.get(path)
        http.field(schedule, "id")
        schedule["next"] = http.items(http.get(f"{path}/preview", n=NEXT_SHOWN))
        schedule["history"] = http.items(http.get(f"{path}/history", limit=LINES_SHOWN))
        schedule["last_status"] = _last_status(http, schedule)
    if as_json:
        render.show_json(schedule)
    else:
        from taskflow.commands.schedule_portrait import portrait

        render.show(portrait(schedule))


def _last_status(http: "Api", schedule: dict[str, Any]) -> str | None:
    """How its last job is; None for one that is not remembered any more."""
    from taskflow.commands.http import Refused, job_path

    job_id = schedule.get("last_job_id")
    try:
        return http.field(http.get(job_path(job_id)), "status") if job_id else None
    except Refused:
        return None


def preview(
    ref: Annotated[str | None, typer.Argument(metavar="NAME", help="The schedule, by name or id")] = None,
    cron: Annotated[str | None, typer.Option(help="Instead of a schedule: an expression")] = None,
    every: Annotated[
        float | None, typer.Option(parser=duration_s, metavar="DURATION", help="Instead of a schedule: an interval")
    ] = None,
    tz: Annotated[str | None, typer.Option("--tz", metavar="ZONE", help="The zone whose clocks --cron means")] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many")] = 10,
    start: Annotated[
        datetime | None,
        typer.Option(
            "--from", parser=moment, metavar="TIME", help="From when on; local unless it has an offset  \\[now]"
        ),
    ] = None,
    as_json: AsJson = False,
    api: ApiUrl = None,
    token: Token = None,
) -> None:
    """Show the next runs of a schedule, or of one that could be.

    taskflow schedules preview --cron "0 3 * * 1-5" --tz Asia/Tokyo
    """
    if sum(each is not None for each in (ref, cron, every)) != 1:
        raise typer.BadParameter("give the name of a schedule, --cron or --every, and one of them only")
    if ref is not None and tz is not None:
        raise typer.BadParameter("a schedule has its own zone; give --tz with --cron")
    from taskflow.commands import render
    from taskflow.commands.caret import pointed_out
    from taskflow.commands.http import Api

    path = f"{PATH}/preview" if ref is None else f"{path_of(ref)}/preview"
    asked: dict[str, object] = {"n": count, "from": iso(start) if start else None}
    with Api(api, token) as http, pointed_out(cron):
        found = http.get(path, cron=cron, interval_s=every, timezone=tz, **asked)
        items = http.items(found)
    if as_json:
        render.show_json(found)
    elif not items:
        typer.echo("There are no further runs.", err=True)
    else:
        from taskflow.commands.calendar import runs

        render.show(runs(items, http.field(found, "timezone")))


def history(
    ref: Ref,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many lines")] = 20,
    as_json: AsJson = False,
    api: ApiUrl = None,
    token: Token = None,
) -> None:
    """Show what happened, the newest first: each run, and each that was skipped, with why."""
    from taskflow.commands import render
    from taskflow.commands.http import Api

    with Api(api, token) as http:
        lines, more = _pages(http, f"{path_of(ref)}/history", limit)
        if as_json:
            render.show_json(lines)
            return
        zone = http.field(http.get(path_of(ref)), "timezone")
    if not lines:
        raise CommandFailed(f"Nothing is remembered of {render.in_line(ref)}.")
    from taskflow.commands.calendar import story

    render.show(story(lines, zone))
    if more and sys.stdout.isatty():
        typer.echo(f"There is more; --limit {limit * 5} shows it.", err=True)


def _pages(http: "Api", path: str, limit: int, **filters: str | None) -> tuple[list[dict[str, Any]], bool]:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = http.get(path, limit=min(limit - len(found), PAGE), cursor=cursor, **filters)
        found += http.items(page)
        cursor = page.get("next_cursor")
        if not cursor or len(found) >= limit:
            return found, bool(cursor)
