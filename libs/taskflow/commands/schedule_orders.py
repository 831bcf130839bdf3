"""`taskflow schedules pause|resume|trigger|backfill|rm`: steer schedules that are there."""

import shlex
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from taskflow.commands.errors import CommandFailed
from taskflow.commands.options import ApiUrl, AsJson, Token, iso, moment
from taskflow.commands.schedule_options import Overlap, Ref

if TYPE_CHECKING:
    from taskflow.commands.http import Api

PATH: Final = "/api/v1/schedules"
LOOK_S: Final = 0.5  # at a run that waits for another to end


def quoted(ref: str) -> str:
    """A name as a shell takes it."""
    from taskflow.commands.render import in_line

    return in_line(shlex.quote(ref))


def path_of(ref: str) -> str:
    """The address of a schedule."""
    from taskflow.commands.http import segment

    if not ref:
        raise typer.BadParameter("a schedule has a name, or an id")
    return f"{PATH}/{segment(ref)}"


def pause(
    ref: Ref,
    reason: Annotated[str | None, typer.Option(help="Why, for those who wonder")] = None,
    as_json: AsJson = False,
    api: ApiUrl = None,
    token: Token = None,
) -> None:
    """Let a schedule rest; runs that are active go on."""
    _order(ref, "pause", {} if reason is None else {"reason": reason}, as_json, api, token)


def resume(ref: Ref, as_json: AsJson = False, api: ApiUrl = None, token: Token = None) -> None:
    """Let a paused schedule go on with its next time; those it rested through are not made up for."""
    _order(ref, "resume", None, as_json, api, token)


def _order(ref: str, verb: str, body: object, as_json: bool, url: str | None, token: str | None) -> None:
    from taskflow.commands import render
    from taskflow.commands.http import Api

    with Api(url, token) as http:
        schedule = http.post(f"{path_of(ref)}/{verb}", body)
        status = http.field(schedule, "status")
    if as_json:
        render.show_json(schedule)
    else:
        from taskflow.commands.calendar import next_run

        typer.echo(f"{render.in_line(ref)} is {status}.  {next_run(schedule)}")


def trigger(
    ref: Ref,
    overlap: Annotated[
        Overlap | None,
        typer.Option(
            metavar="POLICY",
            help="Instead of the schedule's: allow, skip, buffer_one, buffer_all or cancel_previous",
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", "-w", help="Show its output as it comes, and end with its exit code")
    ] = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
    token: Token = None,
) -> None:
    """Run a schedule's job now, beside its times, and print the job's id."""
    from taskflow.commands.http import Api

    with Api(api, token) as http:
        answer = http.create(f"{path_of(ref)}/trigger", {} if overlap is None else {"overlap": overlap})
        job_id = http.field(answer, "job_id")
        waits = answer.get("outcome") == "buffered"
        if wait:
            from taskflow.commands.wait import wait_for

            if waits:
                _say("It waits for the run before it to end; Ctrl-C leaves it to itself.")
                _wait_for_its_turn(http, ref, job_id)
            raise typer.Exit(wait_for(http, job_id, as_json=as_json, retries=True))
    if as_json:
        from taskflow.commands.render import show_json

        show_json(answer)
        return
    typer.echo(job_id)
    if waits:
        _say("It waits for the run before it to end.")
    elif sys.stdout.isatty() and sys.stderr.isatty():
        typer.echo(f"Follow it with: taskflow jobs logs -f {job_id}", err=True)


def _wait_for_its_turn(http: "Api", ref: str, job_id: str) -> None:
    """Until the job is there.  What waits no more, and is no job, never will be."""
    from taskflow.commands.http import Refused, job_path

    while True:
        waiting = http.get(path_of(ref)).get("waiting")
        try:
            http.get(job_path(job_id))
            return
        except Refused as refusal:
            if refusal.status != 404:
                raise
        if not waiting:
            raise CommandFailed(f"It was passed over; see why with `taskflow schedules history {quoted(ref)}`.")
        time.sleep(LOOK_S)


def _say(text: str) -> None:
    typer.secho(text, err=True, dim=True)


def backfill(
    ref: Ref,
    start: Annotated[
        datetime,
        typer.Option("--from", parser=moment, metavar="TIME", help="From this time on; local unless it has an offset"),
    ],
    end: Annotated[
        datetime, typer.Option("--to", parser=moment, metavar="TIME", help="Up to and with this time, which is past")
    ],
    one_by_one: Annotated[
        bool | None,
        typer.Option(
            "--one-by-one/--at-once",
            help="One after the other, or all at the same time  \\[--at-once if the schedule's overlap is allow]",
        ),
    ] = None,
    rerun: Annotated[bool, typer.Option("--rerun", help="Also the times that have run")] = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
    token: Token = None,
) -> None:
    """Make up for times that are past, as far as they have not run."""
    from taskflow.commands import render
    from taskflow.commands.http import Api

    body: dict[str, Any] = {"from": iso(start), "to": iso(end), "rerun": rerun}
    if one_by_one is not None:
        body["overlap"] = "buffer_all" if one_by_one else "allow"
    with Api(api, token) as http:
        answer = http.post(f"{path_of(ref)}/backfill", body)
        how = "at once" if http.field(answer, "overlap") == "allow" else "one after the other"
    if as_json:
        render.show_json(answer)
    elif answer["count"] == 0:
        typer.echo(f"{render.in_line(ref)} has no times there; nothing is to be done.")
    else:
        times = "1 time is" if answer["count"] == 1 else f"{answer['count']} times are"
        left_out = "" if rerun else "; those that have run are left out"
        typer.echo(f"{times} made up for, {how}{left_out}.  See them with: taskflow schedules history {quoted(ref)}")


def rm(
    refs: Annotated[list[str], typer.Argument(metavar="NAME…", help="The schedules, by name or id")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False,
    as_json: AsJson = False,
    api: ApiUrl = None,
    token: Token = None,
) -> None:
    """Delete schedules and their history; their jobs stay, and those that run go on."""
    from taskflow.commands import render
    from taskflow.commands.http import Api, Unreachable

    paths = {ref: path_of(ref) for ref in refs}
    if not yes and sys.stdin.isatty():
        typer.confirm(f"Delete {render.in_line(', '.join(paths))}, with the history?", abort=True, err=True)
    failures: list[CommandFailed] = []
    done: list[str] = []
    with Api(api, token) as http:
        for ref, path in paths.items():
            try:
                http.delete(path)
            except Unreachable:
                raise
            except CommandFailed as failure:
                failures.append(failure)
            else:
                done.append(ref)
                if not as_json:
                    typer.echo(f"{render.in_line(ref)} is deleted.")
    if as_json:
        render.show_json(done)
    for earlier in failures[:-1]:
        typer.echo(f"taskflow: {earlier}", err=True)
    if failures:
        raise failures[-1]
