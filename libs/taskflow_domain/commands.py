"""Which commands a shell text would run, as far as its words tell.

It finds a denied command that is written in the text.  What a shell works out only when it runs, nobody can see
beforehand: `$x`, a decoded base64, a script in a file, a program of another name that does the same.  So this is a
guard rail against accidents, and no sandbox.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from taskflow_domain.shell_text import KEYWORDS, Command, Scanner, Text

MOST_PASSES: Final = 16  # texts in texts (`eval`, `sh -c`) are read until that many times the whole has been read

_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")
_SHELLS: Final = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh", "mksh"))


@dataclass(frozen=True, slots=True)
class _Wrapper:
    """A command that runs the command in its arguments."""

    valued: frozenset[str] = frozenset()  # options whose value may be the next word
    texts: frozenset[str] = frozenset()  # options that are followed by a shell text
    operands: int = 0  # words before the command


def _wrapper(valued: str = "", texts: str = "", operands: int = 0) -> _Wrapper:
    return _Wrapper(frozenset(valued.split()), frozenset(texts.split()), operands)


_WRAPPERS: Final = {
    "sudo": _wrapper(
        "-u -g -h -p -C -D -R -T -U -r -t --user --group --host --prompt --close-from --chdir --chroot"
        " --command-timeout --other-user --role --type"
    ),
    "doas": _wrapper("-u -C"),
    "env": _wrapper("-u -C --unset --chdir", texts="-S --split-string"),
    "exec": _wrapper("-a"),
    "nohup": _wrapper(),
    "setsid": _wrapper(),
    "nice": _wrapper("-n --adjustment"),
    "ionice": _wrapper("-c -n --class --classdata"),
    "chrt": _wrapper("-T -P -D", operands=1),
    "taskset": _wrapper(operands=1),
    "chroot": _wrapper(operands=1),
    "time": _wrapper("-o -f --output --format"),
    "timeout": _wrapper("-s -k --signal --kill-after", operands=1),
    "stdbuf": _wrapper("-i -o -e --input --output --error"),
    "strace": _wrapper("-o -e -E -u -s -a"),
    "xargs": _wrapper(
        "-I -n -P -L -d -E -s -a --max-args --max-procs --max-lines --delimiter --arg-file --max-chars --replace"
    ),
    "command": _wrapper(),
    "builtin": _wrapper(),
    "busybox": _wrapper(),
    "toybox": _wrapper(),
    "flock": _wrapper("-w -E --timeout --conflict-exit-code", texts="-c --command", operands=1),
    "su": _wrapper("-g -G -s --group --supp-group --shell", texts="-c --command", operands=1),
}


def denied_command(cmd: str, denylist: Sequence[str]) -> str | None:
    """The first entry of `denylist` that the shell text `cmd` would run, or None.

    An entry is a command (`rm`, which `/bin/rm` is, too), a path (`/sbin/halt`: that file only), or a command with
    its first arguments (`git push`, `rm -rf /`: word by word).  Commands are seen behind pipes, `;`, `&&`, `||`, `&`
    and newlines, in `$(…)`, backticks, subshells, braces, control structures and functions, after assignments,
    redirections and wrappers (`sudo`, `env`, `xargs`, `find -exec`, …), in quotes, and in texts for `sh -c` and `eval`.

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


class _Denied:
    """The denylist, by the first word of its entries."""

    def __init__(self, denylist: Sequence[str]) -> None:
        self.entries: dict[str, list[tuple[list[str], str]]] = {}
        for entry in denylist:
            words = entry.split()
            if words:
                self.entries.setdefault(words[0], []).append((words[1:], entry))

    def entry_run_by(self, command: Command, texts: list[Text]) -> str | None:
        """The entry that the command runs, seen through wrappers.  Texts it runs are added to `texts`."""
        words, at = command.words, 0
        while at < len(words):
            word = words[at]
            if word in KEYWORDS or _ASSIGNMENT.match(word):
                at += 1
                continue
            if word == "function":
                at += 2
                continue
            if word in ("for", "select", "case"):
                return None
            entry = self._entry(words, at)
            if entry is not None:
                return entry
            name = _name(word)
            if name == "find":
                return self._found(words, at, texts)
            if name in _SHELLS:
                texts += _shell_texts(command, at)
                return None
            if name in ("eval", "watch", "trap"):
                texts.append(Text(" ".join(words[at + 1 : at + 2] if name == "trap" else _operands(words, at + 1))))
                return None
            wrapper = _WRAPPERS.get(name)
            if wrapper is None:
                return None
            if name == "command" and re.match(r"-p?[vV]", "".join(words[at + 1 : at + 2])):
                return None  # only says where a command is
            at = _behind(wrapper, words, at + 1, texts)
        return None

    def _entry(self, words: list[str], at: int) -> str | None:
        word = words[at]
        candidates = self.entries.get(word, [])
        name = _name(word)
        if name != word:
            candidates = candidates + self.entries.get(name, [])
        for arguments, entry in candidates:
            if words[at + 1 : at + 1 + len(arguments)] == arguments:
                return entry
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
            entry = None if _name(run[0] if run else "") == "find" else self.entry_run_by(Command(run), texts)
            if entry is not None:
                return entry
        return None


def _name(word: str) -> str:
    return word.rpartition("/")[2]


def _operands(words: list[str], at: int) -> list[str]:
    """The words from `at`, without leading options."""
    while at < len(words) and words[at].startswith("-"):
        at += 1
    return words[at:]


def _shell_texts(command: Command, at: int) -> list[Text]:
    """What `sh -c text` runs, or `sh` with a here-document."""
    words, at = command.words, at + 1
    text_follows = from_input = False
    while at < len(words) and len(words[at]) > 1 and words[at][0] in "-+":
        option = words[at]
        at += 1
        if option == "--":
            break
        if option.startswith("--"):
            at += option in ("--rcfile", "--init-file")
            continue
        text_follows = text_follows or "c" in option
        from_input = from_input or "s" in option
        at += ("o" in option) + ("O" in option)
    if text_follows:
        return [Text(text) for text in words[at : at + 1]]
    if from_input or words[at : at + 1] in ([], ["-"], ["/dev/stdin"]):
        return [Text(text) for text in command.inputs]
    return []


def _behind(wrapper: _Wrapper, words: list[str], at: int, texts: list[Text]) -> int:
    """Where the wrapped command begins."""
    at = _behind_options(wrapper, words, at, texts)
    if wrapper.operands:
        at = _behind_options(wrapper, words, at + wrapper.operands, texts)
    return at


def _behind_options(wrapper: _Wrapper, words: list[str], at: int, texts: list[Text]) -> int:
    while at < len(words) and words[at].startswith("-"):
        option = words[at]
        at += 1
        if option == "--":
            break
        if option.startswith("--"):
            name, equals, value = option.partition("=")
            shown = name
        else:
            cluster = option[1:]
            place = next((i for i, each in enumerate(cluster) if "-" + each in wrapper.valued | wrapper.texts), None)
            if place is None:
                continue
            shown, equals, value = "-" + cluster[place], cluster[place + 1 :], cluster[place + 1 :]
        if shown in wrapper.texts:
            texts.append(Text(" ".join([*([value] if equals else []), *words[at:]])))
            return len(words)
        if shown in wrapper.valued and not equals:
            at += 1
    return at
