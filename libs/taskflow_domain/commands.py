"""Which commands a shell text would run, as far as its words tell.

It finds a denied command that is written in the text.  What a shell works out only when it runs, nobody can see
beforehand: `$x`, a decoded base64, a script in a file, a program of another name that does the same.  So this is a
guard rail against accidents, and no sandbox.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from taskflow_domain.programs import Program, file_name, named, unwrapped
from taskflow_domain.shell_text import KEYWORDS, Command, Scanner, Text

MOST_PASSES: Final = 16  # texts in texts (`eval`, `sh -c`) are read until that many times the whole has been read

_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")
_COMPOUND: Final = frozenset(("{", "[[", "if", "while", "until", "for", "select", "case"))  # "(" ends a command's words


def denied_command(cmd: str, denylist: Sequence[str]) -> str | None:
    """The first entry of `denylist` that the shell text `cmd` would run, or None.

    An entry is a command (`rm`, which `/bin/rm` is, too), a path (`/sbin/halt`: that file only), or a command with
    its first arguments (`git push`, `rm -rf /`: word by word; options between them make no difference).  Commands are
    seen behind pipes, `;`, `&&`, `||`, `&` and newlines, in `$(…)`, backticks, subshells, braces, control structures
    and functions, after assignments, redirections and wrappers (`sudo`, `env`, `xargs`, `find -exec`, …), in quotes,
    and in texts for `sh -c` and `eval`.  To define a function is not to run it; to call one is, whatever it does.

    A guard rail, not a sandbox: `$x`, encoded texts and scripts pass.  Any text is accepted; the time it takes is
    proportional to its length.
    """
    denied = _Denied(denylist)
    if not denied.entries:
        return None
    budget = MOST_PASSES * (len(cmd) + 1)
    texts = [Text(cmd)]
    for text in texts:  # grows
        budget -= len(text.text) + 1
        if budget < 0:
            return None
        scanner = Scanner(text)
        scanner.scan()
        texts += scanner.texts
        for command in scanner.commands:
            entry = denied.entry_run_by(command, texts)
            if entry is not None:
                return entry
    return None


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry of the denylist."""

    text: str
    arguments: tuple[tuple[str, Program], ...]  # each with what knows the options before it

    @classmethod
    def of(cls, text: str) -> "_Entry":
        words = text.split()
        words[0] = file_name(words[0])
        return cls(text, tuple((word, named(" ".join(words[:i]))) for i, word in enumerate(words) if i))

    def matches(self, words: list[str], at: int) -> bool:
        """Whether the words from `at` on are the entry's arguments, perhaps with other options between them."""
        for argument, program in self.arguments:
            while at < len(words) and words[at] != argument:
                if not words[at].startswith("-"):
                    return False
                at = program.behind_option(words, at)
            if at >= len(words):
                return False
            at += 1
        return True


class _Denied:
    """The denylist, by the first word of its entries."""

    def __init__(self, denylist: Sequence[str]) -> None:
        self.entries: dict[str, list[_Entry]] = {}
        for entry in denylist:
            for word in entry.split()[:1]:
                self.entries.setdefault(word, []).append(_Entry.of(entry))

    def entry_run_by(self, command: Command, texts: list[Text]) -> str | None:
        """The entry that the command runs, seen through wrappers.  Texts it runs are added to `texts`."""
        words, at = command.words, 0
        while at < len(words):
            word = words[at]
            if word in KEYWORDS or _ASSIGNMENT.match(word):
                at += 1
                continue
            if word == "coproc":
                at += 2 if not _COMPOUND.isdisjoint(words[at + 2 : at + 3]) else 1  # perhaps with a name
                continue
            if word == "function":
                at += 2
                continue
            if word in ("for", "select", "case", "[["):
                return None
            entry = self._entry(words, at)
            if entry is not None:
                return entry
            if file_name(word) == "find":
                return self._found(words, at, texts)
            at, more = unwrapped(command, at)
            texts += map(Text, more)
        return None

    def _entry(self, words: list[str], at: int) -> str | None:
        for name in dict.fromkeys((words[at], file_name(words[at]))):
            for entry in self.entries.get(name, ()):
                if entry.matches(words, at + 1):
                    return entry.text
        return None

    def _found(self, words: list[str], at: int, texts: list[Text]) -> str | None:
        """What `find` runs for each file: each -exec has its own words, so none is looked at twice."""
        runs: list[list[str]] = []
        running = False
        for word in words[at + 1 :]:
            if word in ("-exec", "-execdir", "-ok", "-okdir"):
                runs.append([])
                running = True
            elif word in (";", "+"):
                running = False
            elif running:
                runs[-1].append(word)
        for run in runs:
            entry = None if file_name(run[0] if run else "") == "find" else self.entry_run_by(Command(run), texts)
            if entry is not None:
                return entry
        return None
