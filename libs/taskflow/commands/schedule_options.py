"""What can be said about a schedule, for `add` and `set` alike; `none` takes a setting back.

A setting that may be `none` is an object here: its parser gives the value, or the word.
"""

from typing import Annotated, Any, Final, Literal

import typer
from typer.core import TyperCommand

from taskflow.commands.options import duration_s, moment, or_none, whole, whole_number
from taskflow.commands.submit import WHEN

LATE: Final = "When it cannot run in time"

Overlap = Literal["allow", "skip", "buffer_one", "buffer_all", "cancel_previous"]
Ref = Annotated[str, typer.Argument(metavar="NAME", help="The schedule, by name or id")]
Command = Annotated[
    list[str] | None,
    typer.Argument(metavar="COMMAND", help="What to run; one text alone is given to the shell as it is"),
]

Cron = Annotated[
    str | None,
    typer.Option(
        "--cron",
        metavar="EXPR",
        rich_help_panel=WHEN,
        help="Five fields, such as '0 3 * * 1-5', or six with seconds last, or @daily and the like",
    ),
]
Every = Annotated[
    float | None,
    typer.Option(
        "--every",
        parser=duration_s,
        metavar="DURATION",
        rich_help_panel=WHEN,
        help="Instead: 90, 15m, 1h30m; the first at once",
    ),
]
Zone = Annotated[
    str | None,
    typer.Option("--tz", metavar="ZONE", rich_help_panel=WHEN, help="Whose clocks --cron means  \\[UTC]"),
]
Start = Annotated[
    object | None,
    typer.Option(
        "--start",
        parser=or_none(moment),
        metavar="TIME",
        rich_help_panel=WHEN,
        help="Not before; local unless it has an offset",
    ),
]
End = Annotated[
    object | None,
    typer.Option("--end", parser=or_none(moment), metavar="TIME", rich_help_panel=WHEN, help="Not afterwards"),
]
MaxRuns = Annotated[
    object | None,
    typer.Option(
        "--max-runs", parser=or_none(whole), metavar="N", rich_help_panel=WHEN, help="It ends after so many runs"
    ),
]
Jitter = Annotated[
    object | None,
    typer.Option(
        "--jitter",
        parser=or_none(duration_s),
        metavar="DURATION",
        rich_help_panel=WHEN,
        help="Each run comes up to so much later",
    ),
]

OverlapRule = Annotated[
    Overlap | None,
    typer.Option(
        "--overlap",
        metavar="POLICY",
        rich_help_panel=LATE,
        help="While a run is active: allow, skip, buffer_one, buffer_all or cancel_previous  \\[allow]",
    ),
]
CatchupLimit = Annotated[
    object | None,
    typer.Option(
        "--catchup-limit",
        parser=or_none(whole),
        metavar="N",
        rich_help_panel=LATE,
        help="Of runs missed in a downtime, make up for the latest N  \\[5]",
    ),
]
CatchupWindow = Annotated[
    object | None,
    typer.Option(
        "--catchup-window",
        parser=or_none(duration_s),
        metavar="DURATION",
        rich_help_panel=LATE,
        help="And for none that was missed longer ago",
    ),
]
Reason = Annotated[str | None, typer.Option("--reason", help="Why it is paused, for those who wonder")]

Python = Annotated[
    str | None,
    typer.Option(
        "--python",
        metavar="MODULE:FUNCTION",
        help="A Python function, with --arg and --kwarg",
    ),
]
Task = Annotated[
    str | None,
    typer.Option("--task", metavar="NAME", help="A task that workers have, with --payload"),
]
Payload = Annotated[str | None, typer.Option("--payload", metavar="JSON", help="What a task gets")]

Queue = Annotated[
    str | None,
    typer.Option("--queue", "-q", help="The queue it waits in  \\[general; of a --task: default]"),
]
Priority = Annotated[
    object | None,
    typer.Option(
        "--priority",
        "-p",
        parser=or_none(whole_number),
        metavar="N",
        help="The lower, the sooner; of a --task from 0 to 9  \\[0; of a --task: 5]",
    ),
]
Timeout = Annotated[
    object | None,
    typer.Option(
        "--timeout",
        parser=or_none(duration_s),
        metavar="DURATION",
        rich_help_panel=WHEN,
        help="How long one attempt may take",
    ),
]
Retries = Annotated[
    object | None,
    typer.Option(
        "--retries",
        parser=or_none(whole),
        metavar="N",
        rich_help_panel=WHEN,
        help="How often it may run again after a failure  \\[3; of a --task: 2]",
    ),
]
Ttl = Annotated[
    object | None,
    typer.Option(
        "--ttl",
        parser=or_none(duration_s),
        metavar="DURATION",
        rich_help_panel=WHEN,
        help="Expire unless started within so long",
    ),
]


class WithCommand(TyperCommand):
    """A command whose words after `--` are another command, of which it is known where it begins."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Show where the command begins."""
        *pieces, _ = super().collect_usage_pieces(ctx)
        return [*pieces, "[-- COMMAND…]"]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep the words apart, as a name may come before them or not."""
        words: list[str] | None = None
        if "--" in args:
            place = args.index("--")
            args, words = args[:place], args[place + 1 :]
        rest: list[str] = super().parse_args(ctx, args)
        stray = ctx.params.get("command")
        if stray and not ctx.resilient_parsing:
            raise typer.BadParameter(f"put -- before the command, as in: -- {' '.join(stray)}", ctx)
        if words is not None:
            ctx.params["command"] = words
        return rest
