"""Secrets do not show in output, also when it arrives in pieces.

What may be seen does not depend on how the output was cut: any way of feeding it gives the same bytes.  Only what may
still become a secret is held back, so that the rest can be seen at once.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

# Long words anywhere in a name; short ones only where no letter follows, and not as the end of another word: DBPASS and
# GITHUB_TOKEN, but neither COMPASS, PASSENGER nor MAX_TOKENS; MYSQL_PWD, but neither PWD nor OLDPWD, which are folders.
DEFAULT_SECRET_NAMES: Final = (
    r"(?i)PASS(WORD(?!LESS)|WD|PHRASE|CODE|KEY)|SECRET(?!AR)|CREDENTIAL|(PRIVATE|API|ACCESS)_?KEY(?!_?ID)"
    r"|((?<!BY)(?<!COM)(?<!TRES)(?<!ASK)PASS|TOKEN|(?!^)(?<!OLD)PWD)(?![A-Z])"
)
PLAIN_WORDS: Final = frozenset(
    ["true", "false", "none", "null", "auto", "echo", "default", "disabled", "enabled", "always", "never"]
)
SHORTEST_SECRET: Final = 4  # characters; anything shorter is in half the words there are
SHORTEST_SECRET_LINE: Final = 8  # characters of a line in a secret of several lines; less may be a lone bracket
LONGEST_HELD_LINE: Final = 4096  # bytes; patterns see a longer line in pieces, cut at a blank if there is one
MASK: Final = b"***"

_LINE_END: Final = re.compile(rb"[\r\n]")
_LAST_BLANK: Final = re.compile(rb".*[ \t]", re.DOTALL)


def secret_values(env: Mapping[str, str], name_pattern: str = DEFAULT_SECRET_NAMES) -> list[str]:
    """The values of the variables whose names the pattern finds, without plain words and those too short to be hidden.

    No pattern finds nothing.  Raises ValueError for what is no regular expression.
    """
    if not name_pattern:
        return []
    try:
        names = re.compile(name_pattern)
    except re.error as error:
        raise ValueError(f"{name_pattern!r} is not a regular expression: {error}") from None
    found = (value for name, value in env.items() if names.search(name) and len(value) >= SHORTEST_SECRET)
    return list(dict.fromkeys(value for value in found if value.lower() not in PLAIN_WORDS))


class Redactor:
    """Replaces secrets, and what patterns find within a line, by `***` in a stream of bytes.

    Secrets are found wherever they are; the longest of those that begin first is taken.  Of a secret with several
    lines, each line is one, too.  While there are patterns, a line is held back until it ends.
    """

    def __init__(self, secrets: Iterable[str] = (), patterns: Iterable[re.Pattern[bytes] | str] = ()) -> None:
        """Raises ValueError for a pattern that is no regular expression."""
        self._secrets: list[bytes] = []  # the longest first
        self._any_secret: re.Pattern[bytes] | None = None
        self._patterns = [_compiled(pattern) for pattern in patterns]
        self._held = b""  # may become a secret
        self._line = b""  # has not ended
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str) -> None:
        """Hide this text, too, from now on."""
        lines = [line for each in secret.splitlines() if len(line := each.strip()) >= SHORTEST_SECRET_LINE]
        texts = [each for each in (secret, secret.strip()) if len(each) >= SHORTEST_SECRET]
        known = {*self._secrets, *map(_encoded, (*texts, *lines))}
        if len(known) != len(self._secrets):
            self._secrets = sorted(known, key=lambda each: (-len(each), each))
            self._any_secret = re.compile(b"|".join(map(re.escape, self._secrets)))

    def feed(self, data: bytes) -> bytes:
        """Take what came, and give what may be shown by now."""
        if self._any_secret is not None or self._held:
            data = self._without_secrets(self._held + data)
        return self._without_matches(data) if self._patterns else data

    def flush(self) -> bytes:
        """Give what was held back: the output has ended."""
        rest, self._held = self._held, b""
        if self._any_secret is not None:
            rest = self._any_secret.sub(MASK, rest)
        if not self._patterns:
            return rest
        shown = self._without_matches(rest)
        line, self._line = self._line, b""
        return shown + self._masked(line)

    def _without_secrets(self, data: bytes) -> bytes:
        shown: list[bytes] = []
        at = 0
        open_at = self._may_begin(data, at)
        if self._any_secret is not None and any(secret in data for secret in self._secrets):
            # One that begins before `open_at` is sure: nothing that comes can make it longer, or part of another.
            while (found := self._any_secret.search(data, at)) and found.start() < open_at:
                shown += data[at : found.start()], MASK
                at = found.end()
                if open_at < at:
                    open_at = self._may_begin(data, at)
        shown.append(data[at:open_at])
        self._held = data[open_at:]
        return b"".join(shown)

    def _may_begin(self, data: bytes, at: int) -> int:
        """The first place from `at` on where all that follows is the beginning of a secret, or the end."""
        first = len(data)
        for secret in self._secrets:
            place = data.find(secret[:1], max(at, len(data) - len(secret) + 1), first)
            while place >= 0 and not secret.startswith(data[place:]):
                place = data.find(secret[:1], place + 1, first)
            if place >= 0:
                first = place
        return first

    def _without_matches(self, data: bytes) -> bytes:
        data, at = self._line + data, 0
        shown: list[bytes] = []
        while True:
            end = _LINE_END.search(data, at, at + LONGEST_HELD_LINE)
            if end is not None:
                shown += self._masked(data[at : end.start()]), end[0]
                at = end.end()
            elif len(data) - at >= LONGEST_HELD_LINE:
                blank = _LAST_BLANK.match(data, at, at + LONGEST_HELD_LINE)
                cut = blank.end() if blank else at + LONGEST_HELD_LINE
                shown.append(self._masked(data[at:cut]))
                at = cut
            else:
                self._line = data[at:]
                return b"".join(shown)

    def _masked(self, line: bytes) -> bytes:
        for pattern in self._patterns:
            line = pattern.sub(lambda found: MASK if found[0] else b"", line)
        return line


def _encoded(secret: str) -> bytes:
    try:
        return secret.encode(errors="surrogateescape")  # as the environment had it
    except UnicodeEncodeError:
        return secret.encode(errors="surrogatepass")


def _compiled(pattern: re.Pattern[bytes] | str) -> re.Pattern[bytes]:
    if not isinstance(pattern, str):
        return pattern
    try:
        return re.compile(pattern.encode())
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
