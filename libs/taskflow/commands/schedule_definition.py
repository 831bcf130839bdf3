"""`taskflow schedules add|set`: say when to run what, and change it."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taskflow.commands import schedule_options as opt
from taskflow.commands import submit
from taskflow.commands.options import ApiUrl, AsJson, Token, iso, said
from taskflow.commands.schedule_orders import PATH, path_of, quoted
from taskflow.commands.template import aimed, target, with_rules

if TYPE_CHECKING:
    from taskflow.commands.http import Api


def add(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="By which it can be found, as by its id")] = None,
    command: opt.Command = None,
    cron: opt.Cron = None,
    every: opt.Every = None,
    tz: opt.Zone = None,
    start: opt.Start = None,
    end: opt.End = None,
    max_runs: opt.MaxRuns = None,
    jitter: opt.Jitter = None,
    overlap: opt.OverlapRule = None,
    catchup_limit: opt.CatchupLimit = None,
    catchup_window: opt.CatchupWindow = None,
    python: opt.Python = None,
    arg: submit.Arg = None,
    kwarg: submit.Kwarg = None,
    task: opt.Task = None,
    payload: opt.Payload = None,
    env: submit.Env = None,
    cwd: submit.Cwd = None,
    queue: opt.Queue = None,
    priority: opt.Priority = None,
    timeout: opt.Timeout = None,
    retries: opt.Retries = None,
    ttl: opt.Ttl = None,
    owner: submit.Owner = None,
    paused: Annotated[bool, typer.Option("--paused", help="Let it rest until it is resumed")] = False,
    reason: opt.Reason = None,
    as_json: AsJson = False,
    api: ApiUrl = None,
    token: Token = None,
) -> None:
    """Make a schedule, and print its id.

    taskflow schedules add nightly --cron "0 3 * * 1-5" -- ./report.sh
    """
    if (cron is None) == (every is None):
        raise typer.BadParameter("say when to run it: with --cron or --every, and one of them only")
    job = target(command, env, cwd, python, arg, kwarg, task, payload)
    if not job:
        raise typer.BadParameter("say what to run: a command after --, or --python, or --task")
    if reason is not None and not paused:
        raise typer.BadParameter("--reason goes with --paused")
    from taskflow.commands.caret import pointed_out
    from taskflow.commands.http import Api

    rules = _rules(queue, priority, timeout, retries, ttl)
    body = _timing(cron, every, tz, start, end, max_runs, jitter, overlap, catchup_limit, catchup_window)
    body |= said(name=name, owner=owner, paused=paused or None, reason=reason) | {"job": with_rules(job, rules)}
    with Api(api, token) as http:
        with pointed_out(cron), _taken(http, name):
            schedule = http.create(PATH, body)
        schedule_id = http.field(schedule, "id")
    if as_json:
        from taskflow.commands.render import show_json

        show_json(schedule)
        return
    typer.echo(schedule_id)
    if sys.stdout.isatty() and sys.stderr.isatty():
        from taskflow.commands.calendar import next_run

        typer.echo(next_run(schedule), err=True)


@contextmanager
def _taken(http: "Api", name: str | None) -> Iterator[None]:
    """A refusal because there is one of that name says how to change that one."""
    from taskflow.commands.http import Refused
    from taskflow.commands.render import in_line

    try:
        yield
    except Refused as refusal:
        if refusal.status != 409 or name is None:
            raise
        try:
            http.get(path_of(name))
        except Refused:
            raise refusal from None
        shown = in_line(name)
        sentence = f"There is a schedule {shown} already; change it with: taskflow schedules set {quoted(name)} …"
        raise Refused(sentence, refusal.status) from None


def set_(
    ref: opt.Ref,
    command: opt.Command = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Another name, by which it can be found")
    ] = None,
    cron: opt.Cron = None,
    every: opt.Every = None,
    tz: opt.Zone = None,
    start: opt.Start = None,
    end: opt.End = None,
    max_runs: opt.MaxRuns = None,
    jitter: opt.Jitter = None,
    overlap: opt.OverlapRule = None,
    catchup_limit: opt.CatchupLimit = None,
    catchup_window: opt.CatchupWindow = None,
    python: opt.Python = None,
    arg: submit.Arg = None,
    kwarg: submit.Kwarg = None,
    task: opt.Task = None,
    payload: opt.Payload = None,
    env: submit.Env = None,
    cwd: submit.Cwd = None,
    queue: opt.Queue = None,
    priority: opt.Priority = None,
    timeout: opt.Timeout = None,
    retries: opt.Retries = None,
    ttl: opt.Ttl = None,
    owner: submit.Owner = None,
    paused: Annotated[bool | None, typer.Option("--paused/--resumed", help="Whether it rests")] = None,
    reason: opt.Reason = None,
    as_json: AsJson = False,
    api: ApiUrl = None,
    token: Token = None,
) -> None:
    """Change what is said of a schedule; the rest stays, and `none` takes a setting back.

    taskflow schedules set nightly --cron "0 4 * * 1-5" --end none
    """
    if cron is not None and every is not None:
        raise typer.BadParameter("give --cron or --every, not both")
    job = target(command, env, cwd, python, arg, kwarg, task, payload)
    rules = _rules(queue, priority, timeout, retries, ttl)
    body = _timing(cron, every, tz, start, end, max_runs, jitter, overlap, catchup_limit, catchup_window)
    body |= said(name=name, owner=owner, paused=paused, reason=reason)
    if not body and not job and not rules:
        raise typer.BadParameter("say what to change, such as --cron, --overlap, or a command after --")
    from taskflow.commands.caret import pointed_out
    from taskflow.commands.http import Api
    from taskflow.commands.render import in_line, show_json

    with Api(api, token) as http:
        schedule = http.get(path_of(ref))
        place = path_of(http.field(schedule, "id"))  # a name could be another's by now, or make a new one
        if job or rules:
            old = schedule["job"]
            body["job"] = with_rules(aimed(old, job) if job else old, rules)
        with pointed_out(cron):
            schedule = http.put(place, body)
        http.field(schedule, "status")
    if as_json:
        show_json(schedule)
    else:
        from taskflow.commands.calendar import next_run

        typer.echo(f"{in_line(ref)} is changed.  {next_run(schedule)}")


def _timing(
    cron: str | None,
    every: float | None,
    tz: str | None,
    start: object,
    end: object,
    max_runs: object,
    jitter: object,
    overlap: str | None,
    catchup_limit: object,
    catchup_window: object,
) -> dict[str, Any]:
    return said(
        cron=cron,
        interval_s=every,
        timezone=tz,
        start_at=iso(start) if isinstance(start, datetime) else start,
        end_at=iso(end) if isinstance(end, datetime) else end,
        max_runs=max_runs,
        jitter_s=jitter,
        overlap=overlap,
        catchup_limit=catchup_limit,
        catchup_window_s=catchup_window,
    )


def _rules(queue: str | None, priority: object, timeout: object, retries: object, ttl: object) -> Mapping[str, Any]:
    return said(queue=queue, priority=priority, timeout_s=timeout, retries=retries, ttl_s=ttl)
