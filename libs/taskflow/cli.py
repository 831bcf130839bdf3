"""The command `taskflow`: one module of `taskflow.commands` for each group of commands.

Whatever goes wrong is one sentence on stderr and a status other than 0, never a traceback.  Commands import
what they need when they are called, so that none pays for the others.
"""

import sys
from typing import Annotated

import typer

from taskflow.commands import jobs, queues, services, submit, up, version, workers
from taskflow.commands.errors import CommandFailed

app = typer.Typer(
    name="taskflow",
    help="A job scheduler on Redis streams.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

for group in (submit, jobs, queues, workers, up, services, version):
    group.register(app)
for command in app.registered_commands:
    command.rich_help_panel = command.rich_help_panel or "Services"


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=version.show, help="Show the version and end.")
    ] = False,
) -> None:
    """A job scheduler on Redis streams."""


def main() -> None:
    """Run the command line of this process, and end the process."""
    try:
        app()
    except CommandFailed as failure:
        print(f"taskflow: {failure}", file=sys.stderr)  # noqa: T201 - this is what the user reads
        sys.exit(failure.exit_status)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone; nothing is left to be said
        sys.exit(141)
