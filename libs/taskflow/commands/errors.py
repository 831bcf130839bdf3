"""What can go wrong with a command.

CommandFailed      status 1
"""

from typing import ClassVar


class CommandFailed(Exception):
    """A command cannot do what it was asked to; the message is one sentence that says what to do about it."""

    exit_status: ClassVar[int] = 1
