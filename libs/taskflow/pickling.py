"""What lives in one process only says so when it is pickled."""

from typing import ClassVar, NoReturn


class NotPickled:
    """Holds connections, which no other process could use."""

    __slots__ = ()

    _instead: ClassVar[str]

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be pickled; {self._instead}")
