"""`--wait`: as if the job ran here.

Its output comes out of the same streams, and its exit code is ours:

    0          it succeeded
    its own    a shell command failed (128 + n if signal n ended it)
    1          it failed otherwise, or expired
    130        it was canceled, or left to itself by a second Ctrl-C

Ctrl-C cancels the job and waits for its end.
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, BinaryIO, Final

import typer

from taskflow.commands.errors import CommandFailed
from taskflow.commands.follow import Output, follow
from taskflow.commands.http import Api, job_path

DOOR: Final = ""  # the one whose words are queued, running, succeeded, failed, canceled and expired
CANCELED: Final = 130
SIGNALED: Final = 128


def wait_for(api: Api, job_id: str, *, as_json: bool, retries: bool = False) -> int:
    """Show a job's output until it ends, then how it ended; the status to exit with.  `retries`: it may have some.

    For programs, all output goes to stderr and stdout is one document that tells the end.
    """
    out, err = _binary(sys.stdout), _binary(sys.stderr)
    output = Output(err if as_json else out, err)
    say = _Speaker(output)
    say(f"Job {job_id}")
    with _interrupts(api, job_id, say), _told(api, job_id, say, retries):
        end = follow(api, job_id, output, say, door=DOOR)
    if as_json:
        from taskflow.commands.render import show_json

        show_json(end)
    say(_sentence(end))
    return exit_code(end)


def exit_code(end: dict[str, Any]) -> int:
    """What to exit with when a job ended so."""
    match end.get("status"):
        case "succeeded":
            return 0
        case "canceled":
            return CANCELED
    result = end.get("result")
    code = result.get("exit_code") if isinstance(result, dict) else None
    if isinstance(code, int) and code:
        return SIGNALED - code if code < 0 else code
    return 1


def _sentence(end: dict[str, Any]) -> str:
    from taskflow.commands.render import harmless

    status, result, error = end.get("status"), end.get("result"), end.get("error")
    if status == "succeeded" and (result is None or (isinstance(result, dict) and "exit_code" in result)):
        return "Succeeded."
    if status == "succeeded":
        import json

        text = json.dumps(result, ensure_ascii=False)
        return f"Succeeded and returned {text if len(text) <= 1000 else text[:1000] + '…'}"
    if isinstance(error, dict):
        error = error.get("message")
    first = str(error).strip().splitlines()[-1] if error and str(error).strip() else ""
    return f"{str(status).capitalize()}{': ' + harmless(first) if first else '.'}"


def _told(api: Api, job_id: str, say: "_Speaker", retries: bool) -> AbstractContextManager[None]:
    if not retries:
        return nullcontext()
    from taskflow.commands.retrying import retries_told

    return retries_told(api, job_id, say)


class _Speaker:
    """Words of our own between the job's: on stderr, each on a line of its own."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def __call__(self, text: str) -> None:
        self._output.bar.hide()
        if self._output.ends_open:
            text = f"\n{text}"
            self._output.ends_open = False
        typer.secho(text, err=True, dim=True)


@contextmanager
def _interrupts(api: Api, job_id: str, say: _Speaker) -> Iterator[None]:
    """The first Ctrl-C cancels the job, and the stream is not disturbed; the second one ends the command."""
    asked = False

    def cancel() -> None:
        say("Canceling the job and waiting for its end; press Ctrl-C again to leave it to itself.")
        try:
            api.post(f"{job_path(job_id, DOOR)}/cancel")
        except CommandFailed as failure:  # such as one that has ended at this moment
            say(f"It could not be canceled: {failure}")

    def interrupted(*_: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        threading.Thread(target=cancel, daemon=True).start()

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    except KeyboardInterrupt:
        say(f"Left to itself; see how it ends with: taskflow jobs show {job_id}")
        raise typer.Exit(CANCELED) from None
    finally:
        signal.signal(signal.SIGINT, before)


def _binary(stream: Any) -> BinaryIO:
    stream.flush()
    buffer: BinaryIO = stream.buffer
    return buffer
