"""Which queues a worker takes jobs from, and in which proportion."""

import re
from dataclasses import dataclass
from typing import Final

HEAVIEST: Final = 1000.0

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_WEIGHT: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_EVERY: Final = "*"


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """The queues that are named, each with its weight (None: the queue's own), and whether all others count, too."""

    queues: tuple[tuple[str, float | None], ...] = ()
    all: bool = False

    def __contains__(self, queue: str) -> bool:
        return self.all or any(name == queue for name, _ in self.queues)


def parse_subscriptions(text: str) -> Subscriptions:
    """`critical=6,default=3`, `a,b`, `*` (all queues), or `critical=6,*` (all queues, one with a weight of its own).

    Raises ValueError with a sentence for anything else.
    """
    queues: dict[str, float | None] = {}
    every = False
    for part in text.split(","):
        name, equals, weight = (each.strip() for each in part.partition("="))
        if not name:
            raise ValueError(f"{text!r} has a comma or an = without a queue: write names such as critical=6,default=3")
        if name in queues or (name == _EVERY and every):
            raise ValueError(f"{name} is named twice: name each queue once")
        if name == _EVERY:
            if equals:
                raise ValueError("* has no weight: give weights to queues by name, such as critical=6,*")
            every = True
            continue
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is no queue's name: use 1 to 64 letters, digits, underscores, hyphens and dots, or * for all"
            )
        queues[name] = _weight(name, weight) if equals else None
    return Subscriptions(tuple(queues.items()), every)


def _weight(name: str, text: str) -> float:
    weight = float(text) if _WEIGHT.fullmatch(text) else 0.0
    if not 0 < weight <= HEAVIEST:
        raise ValueError(
            f"the weight of {name} is {text!r}: use a number above 0, up to {HEAVIEST:g}, such as 6 or 0.5"
        )
    return weight
