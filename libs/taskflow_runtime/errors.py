"""Why a service does not start.  Each ends the process with one sentence and a status of its own.

Refusal                 status 1
├── BadSetting          status 2   a setting has a value that is not allowed
├── AddressTaken        status 2   the address to listen on cannot be had
└── UnfitBroker         status 3   the server is too old, or would throw data away
"""

from typing import ClassVar


class Refusal(Exception):
    """The service cannot run as it was asked to; the message is a sentence for whoever started it."""

    exit_status: ClassVar[int] = 1


class BadSetting(Refusal):
    """A setting has a value that is not allowed."""

    exit_status = 2


class AddressTaken(Refusal):
    """The service cannot listen where its settings say."""

    exit_status = 2


class UnfitBroker(Refusal):
    """The Redis or Valkey server is one that TaskFlow must not use."""

    exit_status = 3
