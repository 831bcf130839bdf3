"""`taskflow queues ls|pause|resume|limit|weight`."""

import math
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from taskflow.commands.options import ApiUrl, AsJson, Token

if TYPE_CHECKING:
    from rich.text import Text

PATH: Final = "/api/v1/queues"
Name = Annotated[str, typer.Argument(help="The queue")]

commands = typer.Typer(help="See queues, pause and limit them.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the group `queues`."""
    app.add_typer(commands, name="queues", rich_help_panel="Operation")


@commands.command()
def ls(as_json: AsJson = False, api: ApiUrl = None, token: Token = None) -> None:
    """List all queues: how much waits, how much runs, and their settings."""
    from taskflow.commands import render
    from taskflow.commands.http import Api

    with Api(api, token) as http:
        queues = http.items(http.get(PATH))
    if as_json:
        render.show_json(queues)
    elif not queues:
        typer.echo("There are no queues yet; the first job of a queue makes it.", err=True)
    else:
        rows: list[list[str | Text]] = [
            [
                queue["name"],
                str(queue["waiting"]),
                str(queue["running"]),
                _number(queue["max_concurrent"], "none"),
                _number(queue["weight"], "1"),
                render.plain(f"paused: {queue['reason']}" if queue["reason"] else "paused", "yellow")
                if queue["paused"]
                else render.plain("open", "green"),
            ]
            for queue in queues
        ]
        render.show(render.table(["QUEUE", "WAITING", "RUNNING", "LIMIT", "WEIGHT", "STATE"], rows, flexible=5))


@commands.command()
def pause(
    name: Name,
    reason: Annotated[str | None, typer.Option(help="Why, for those who wonder")] = None,
    as_json: AsJson = False,
    api: ApiUrl = None,
    token: Token = None,
) -> None:
    """Start no more jobs of a queue; those that run go on."""
    body = {"paused": True} | ({"reason": reason} if reason is not None else {})
    _change(name, body, "is paused; jobs that run go on", as_json, api, token)


@commands.command()
def resume(name: Name, as_json: AsJson = False, api: ApiUrl = None, token: Token = None) -> None:
    """Start jobs of a queue again."""
    _change(name, {"paused": False}, "is open", as_json, api, token)


@commands.command()
def limit(
    name: Name,
    most: Annotated[str, typer.Argument(metavar="N|none", help="How many of its jobs may run at the same time")],
    as_json: AsJson = False,
    api: ApiUrl = None,
    token: Token = None,
) -> None:
    """Limit how many jobs of a queue run at the same time, over all workers."""
    count = _limit(most)
    told = "has no limit" if count is None else f"runs at most {count} at a time"
    _change(name, {"max_concurrent": count}, told, as_json, api, token)


@commands.command()
def weight(
    name: Name,
    share: Annotated[float, typer.Argument(metavar="W", help="Its share of the workers, against that of the others")],
    as_json: AsJson = False,
    api: ApiUrl = None,
    token: Token = None,
) -> None:
    """Give a queue a larger or smaller share when many queues wait."""
    if not math.isfinite(share):
        raise typer.BadParameter(f"{share} is no weight; give a number above 0.")
    value = int(share) if share.is_integer() else share
    _change(name, {"weight": value}, f"has the weight {value:g}", as_json, api, token)


def _limit(text: str) -> int | None:
    if text.lower() == "none":
        return None
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise typer.BadParameter(f"{text!r} is no limit; give a number from 1, or none.  To stop it, pause it.")
    return int(text)


def _change(name: str, body: dict[str, Any], told: str, as_json: bool, url: str | None, token: str | None) -> None:
    from taskflow.commands.http import Api, segment

    with Api(url, token) as http:
        queue = http.patch(f"{PATH}/{segment(name)}", body)
    if as_json:
        from taskflow.commands.render import show_json

        show_json(queue)
    else:
        typer.echo(f"{http.field(queue, 'name')} {told}.")


def _number(value: float | None, otherwise: str) -> str:
    return otherwise if value is None else f"{value:g}"
