"""The command `taskflow`: one module of `taskflow.commands` for each group of commands.

Whatever goes wrong is one sentence on stderr and a status other than 0, never a traceback.  Commands import
what they need when they are called, so that none pays for the others.
"""

import sys
from contextlib import suppress
from typing import Annotated, Any, Final, NoReturn

import typer

from taskflow.commands import jobs, queues, schedules, services, submit, up, version, workers
from taskflow.commands.errors import CommandFailed

# What typer raises for a call that it does not understand: click's class, or that of the copy it brings along.
_CALL_ERROR: Any = typer.BadParameter.__mro__[2]

SIGPIPE_STATUS: Final = 141  # 128 + 13

app = typer.Typer(
    name="taskflow",
    help="A job scheduler on Redis streams.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

for group in (submit, jobs, schedules, queues, workers, up, services, version):
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
        _check(sys.argv[1:])
        sys.exit(app(standalone_mode=False))
    except CommandFailed as failure:
        _fail(str(failure), failure.exit_status)
    except typer.Abort:
        sys.exit(1)
    except _CALL_ERROR as error:
        if not error.format_message():  # a group without a command: its help is shown already
            sys.exit(error.exit_code)
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "taskflow"
        _fail(f"{error.format_message().rstrip('.')}; see {path} --help.", error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        _unheard()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # caught on its way here, as click does
            _unheard()
        raise


def _unheard() -> NoReturn:
    """Whoever read our output has gone: end as programs do whom SIGPIPE ends, for nothing is left to be said."""
    with suppress(OSError):
        sys.stderr.close()
    sys.exit(SIGPIPE_STATUS)


def _check(arguments: list[str]) -> None:
    """Python keeps bytes that are no text as lone surrogates, which nothing takes."""
    for argument in arguments:
        if not argument.isascii() and any("\ud800" <= char <= "\udfff" for char in argument):
            raise CommandFailed(f"{argument!a} is no UTF-8 text; write it in UTF-8, or put it into a file.")


def _fail(sentence: str, status: int) -> NoReturn:
    print(f"taskflow: {sentence}", file=sys.stderr)  # noqa: T201 - this is what the user reads
    sys.exit(status)
