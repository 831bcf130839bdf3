"""`taskflow workers ls|drain|resume`."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from taskflow.commands.options import ApiUrl, AsJson, Token

if TYPE_CHECKING:
    from rich.text import Text

PATH: Final = "/api/v1/workers"
MIB: Final = 1024 * 1024

commands = typer.Typer(help="See workers, and keep new jobs from them.", no_args_is_help=True)


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
                render.status(
                    "draining" if worker.get("draining") and worker["status"] != "offline" else worker["status"]
                ),
                _slots(worker),
                _number(worker.get("cpu_percent"), 1, "%"),
                _number(worker.get("memory_bytes"), MIB, " MiB"),
                ", ".join(worker["queues"]) if worker["queues"] else "all",
                render.age(worker["started_at"]),
                render.age(worker["last_heartbeat"]),
            ]
            for worker in workers
        ]
        columns = ["ID", "STATUS", "BUSY", "CPU", "MEMORY", "QUEUES", "STARTED", "HEARD OF"]
        render.show(render.table(columns, rows, flexible=5))


WorkerId = Annotated[str, typer.Argument(metavar="ID", help="The worker")]


@commands.command()
def drain(worker_id: WorkerId, as_json: AsJson = False, api: ApiUrl = None, token: Token = None) -> None:
    """Let a worker take nothing new.  What it runs goes on, and it stays until it is stopped or resumed."""
    told = "takes no new jobs; what it runs goes on, and it stays until it is stopped or resumed"
    _order(worker_id, "drain", told, as_json, api, token)


@commands.command()
def resume(worker_id: WorkerId, as_json: AsJson = False, api: ApiUrl = None, token: Token = None) -> None:
    """Let a drained worker take jobs again."""
    _order(worker_id, "resume", "takes jobs", as_json, api, token)


def _order(worker_id: str, verb: str, told: str, as_json: bool, url: str | None, token: str | None) -> None:
    from taskflow.commands.http import Api, segment

    with Api(url, token) as http:
        worker = http.post(f"{PATH}/{segment(worker_id)}/{verb}")
    if as_json:
        from taskflow.commands.render import show_json

        show_json(worker)
    else:
        typer.echo(f"{worker_id} {told}.")


def _slots(worker: dict[str, Any]) -> str:
    running = worker["running"]
    busy = len(running) if isinstance(running, list) else running
    slots = worker["concurrency"]
    return f"{'–' if busy is None else busy} of {'–' if slots is None else slots}"


def _number(value: float | None, unit: int, name: str) -> str:
    return "–" if value is None else f"{value / unit:.0f}{name}"
