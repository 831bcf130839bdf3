"""`taskflow workers ls|drain`."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from taskflow.commands.options import ApiUrl, AsJson, Token

if TYPE_CHECKING:
    from rich.text import Text

PATH: Final = "/api/v1/workers"

commands = typer.Typer(help="See workers, and send them home.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the group `workers`."""
    app.add_typer(commands, name="workers", rich_help_panel="Operation")


@commands.command()
def ls(as_json: AsJson = False, api: ApiUrl = None, token: Token = None) -> None:
    """List all workers: where they take jobs from, how busy they are, and when they were last heard of."""
    from taskflow.commands import render
    from taskflow.commands.http import Api

    with Api(api, token) as http:
        workers = http.items(http.get(PATH))
    if as_json:
        render.show_json(workers)
    elif not workers:
        typer.echo("There are no workers; start one with `taskflow worker`.", err=True)
    else:
        rows: list[list[str | Text]] = [
            [
                worker["id"],
                render.status(worker["status"]),
                _slots(worker),
                ", ".join(worker["queues"]) if worker["queues"] else "all",
                render.age(worker["started_at"]),
                render.age(worker["last_heartbeat"]),
            ]
            for worker in workers
        ]
        render.show(render.table(["ID", "STATUS", "BUSY", "QUEUES", "STARTED", "HEARD OF"], rows, flexible=3))


@commands.command()
def drain(
    worker_id: Annotated[str, typer.Argument(metavar="ID", help="The worker")],
    as_json: AsJson = False,
    api: ApiUrl = None,
    token: Token = None,
) -> None:
    """Let a worker finish what it has, take nothing new, and end."""
    from taskflow.commands.http import Api, segment

    with Api(api, token) as http:
        worker = http.post(f"{PATH}/{segment(worker_id)}/drain")
    if as_json:
        from taskflow.commands.render import show_json

        show_json(worker)
    else:
        typer.echo(f"{worker_id} takes no new jobs, and ends when it has finished what it has.")


def _slots(worker: dict[str, Any]) -> str:
    running = worker["running"]
    busy = len(running) if isinstance(running, list) else running
    slots = worker["concurrency"]
    return f"{'–' if busy is None else busy} of {'–' if slots is None else slots}"
