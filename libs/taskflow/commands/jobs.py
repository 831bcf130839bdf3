"""`taskflow jobs ls|show|logs|cancel|retry`."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from taskflow.commands.errors import CommandFailed
from taskflow.commands.options import ApiUrl, AsJson, Token

if TYPE_CHECKING:
    from taskflow.commands.http import Api

PAGE: Final = 100  # the api's largest page
LOG_PAGE: Final = 1000
TAIL_LINES: Final = 10
ENDED: Final = frozenset({"COMPLETED", "FAILED", "BLOCKED", "CANCELED", "EXPIRED"})

JobId = Annotated[str, typer.Argument(metavar="ID", help="The job")]
JobIds = Annotated[list[str], typer.Argument(metavar="ID…", help="The jobs")]
Status = Literal["PENDING", "READY", "RUNNING", "COMPLETED", "FAILED", "BLOCKED", "CANCELED", "EXPIRED"]

commands = typer.Typer(help="See jobs, follow their output, cancel and repeat them.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the group `jobs`."""
    app.add_typer(commands, name="jobs", rich_help_panel="Work")


@commands.command()
def ls(
    status: Annotated[
        Status | None, typer.Option("--status", "-s", case_sensitive=False, help="Only those in this state")
    ] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Only those of this queue")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Only those of this owner")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many")] = 20,
    as_json: AsJson = False,
    api: ApiUrl = None,
    token: Token = None,
) -> None:
    """List jobs, the newest first."""
    from taskflow.commands import render
    from taskflow.commands.http import Api

    with Api(api, token) as http:
        jobs, more = _search(http, limit, status=status, queue=queue, owner=owner)
    if as_json:
        render.show_json(jobs)
        return
    if not jobs:
        typer.echo("There are no such jobs." if status or queue or owner else "There are no jobs yet.", err=True)
        return
    columns = ["ID", "STATUS", "QUEUE", "NAME", "CREATED", "TOOK", "PROGRESS"]
    rows = [
        [
            job["id"],
            render.status(job["status"]),
            job["queue"],
            render.one_line(job["name"], 60),
            render.age(job["created_at"]),
            render.length(job) or "–",
            render.bar(job["progress"] if job["status"] not in ENDED else None),
        ]
        for job in jobs
    ]
    if not any(job["progress"] and job["status"] not in ENDED for job in jobs):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    render.show(render.table(columns, rows, flexible=3))
    if more and sys.stdout.isatty():
        typer.echo(f"There are more; --limit {limit * 5} shows them.", err=True)


def _search(http: "Api", limit: int, **filters: str | None) -> tuple[list[dict[str, Any]], bool]:
    jobs: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = http.get("/api/v1/jobs", limit=min(limit - len(jobs), PAGE), cursor=cursor, **filters)
        jobs += http.items(page)
        cursor = page.get("next_cursor")
        if not cursor or len(jobs) >= limit:
            return jobs, bool(cursor)


@commands.command()
def show(job_id: JobId, as_json: AsJson = False, api: ApiUrl = None, token: Token = None) -> None:
    """Show a job: what it does, why it is where it is, what happened to it, and its last output."""
    from taskflow.commands import render
    from taskflow.commands.http import Api, job_path

    with Api(api, token) as http:
        path = job_path(job_id)
        job = http.get(path)
        ended = http.field(job, "status") in ENDED
        job["explanation"] = None if ended else http.get(f"{path}/explain")["message"]
        job["events"] = http.get(f"{path}/events")["items"]
        job["last_output"] = list(_tail(_pieces(http, job_id)))
    if as_json:
        render.show_json(job)
    else:
        from taskflow.commands.portrait import portrait

        render.show(portrait(job))


@commands.command()
def logs(
    job_id: JobId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array of pieces; not with -f")] = False,
    api: ApiUrl = None,
    token: Token = None,
) -> None:
    """Print what a job has printed, each stream to its own."""
    if follow and as_json:
        raise typer.BadParameter("give --follow or --json, not both")
    from taskflow.commands.follow import Output
    from taskflow.commands.http import Api

    with Api(api, token) as http:
        if as_json:
            from taskflow.commands.render import show_json

            show_json(list(_pieces(http, job_id)))
            return
        output = Output(sys.stdout.buffer, sys.stderr.buffer)
        if follow:
            _follow(http, job_id, output)
        else:
            for piece in _pieces(http, job_id):
                output.show(piece)


def _follow(http: "Api", job_id: str, output: Any) -> None:
    from taskflow.commands.follow import follow
    from taskflow.commands.http import V1, job_path

    http.get(job_path(job_id))  # tells at once if there is no api, or no such job
    end = follow(http, job_id, output, lambda text: typer.secho(text, err=True, dim=True), door=V1)
    if sys.stderr.isatty():
        newline = "\n" if output.ends_open else ""
        typer.secho(f"{newline}{str(end.get('status')).capitalize()}.", err=True, dim=True)


def _pieces(http: "Api", job_id: str) -> Iterator[dict[str, Any]]:
    """All output so far, page by page."""
    from taskflow.commands.http import job_path

    after: str | None = None
    while True:
        page = http.get(f"{job_path(job_id)}/logs", after=after, limit=LOG_PAGE)
        items = http.items(page)
        yield from items
        following = page.get("next")
        if not items or not following or following == after:
            return
        after = following


def _tail(pieces: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The last lines, whatever pieces they came in; streams are not mixed within a line."""
    lines: deque[str] = deque(maxlen=TAIL_LINES)
    open_lines: dict[str, str] = {}
    for piece in pieces:
        stream = piece["stream"]
        *whole, rest = (open_lines.get(stream, "") + piece["text"]).split("\n")
        lines.extend(whole)
        open_lines[stream] = rest
    lines.extend(rest for rest in open_lines.values() if rest)
    yield from lines


@commands.command()
def cancel(job_ids: JobIds, as_json: AsJson = False, api: ApiUrl = None, token: Token = None) -> None:
    """Cancel jobs.  One that runs is stopped, and counts as canceled once its process has ended."""

    def told(job: dict[str, Any]) -> str:
        return f"{job['id']} is being stopped" if job["status"] == "RUNNING" else f"{job['id']} is canceled"

    _each(job_ids, "cancel", told, as_json, api, token)


@commands.command()
def retry(job_ids: JobIds, as_json: AsJson = False, api: ApiUrl = None, token: Token = None) -> None:
    """Run ended jobs once more, as new jobs, and print their ids."""
    _each(job_ids, "retry", lambda job: str(job["id"]), as_json, api, token)


def _each(
    job_ids: list[str],
    verb: str,
    told: Callable[[dict[str, Any]], str],
    as_json: bool,
    url: str | None,
    token: str | None,
) -> None:
    """Do something with each job; a refusal does not keep the others from it, and the last one is the failure."""
    from taskflow.commands.http import Api, Unreachable, job_path

    failures: list[CommandFailed] = []
    done: list[dict[str, Any]] = []
    with Api(url, token) as http:
        for job_id in job_ids:
            try:
                done.append(http.post(f"{job_path(job_id)}/{verb}"))
            except Unreachable:
                raise
            except CommandFailed as failure:
                failures.append(failure)
            else:
                if not as_json:
                    typer.echo(told(done[-1]))
    if as_json:
        from taskflow.commands.render import show_json

        show_json(done)
    for earlier in failures[:-1]:
        typer.echo(f"taskflow: {earlier}", err=True)
    if failures:
        raise failures[-1]
