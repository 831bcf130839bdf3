"""Which commands a shell text would run, as far as its words tell.

It finds a denied command that is written in the text.  What a shell works out only when it runs, nobody can see
beforehand: `$x`, a decoded base64, a script in a file, a program of another name that does the same.  So this is a
guard rail against accidents, and no sandbox.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

MOST_PASSES: Final = 16  # texts in texts (`eval`, `sh -c`) are read until that many times the whole has been read

_PLAIN: Final = re.compile(r"[^\s'\"\\$`|&;()<>#]+")
_QUOTED_PLAIN: Final = re.compile(r"[^'\"\\$`}]+")
_BACKTICKS: Final = re.compile(r"`((?:[^`\\]|\\.)*)`?", re.DOTALL)
_ANSI: Final = re.compile(r"\$'((?:[^'\\]|\\.)*)'?", re.DOTALL)
_ANSI_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|([0-7]{1,3})|(.))", re.DOTALL)
_REDIRECTION: Final = re.compile(r"<<<|<<-|<<|<>|<&|<|>>|>\||>&|>")
_SEPARATOR: Final = re.compile(r";;&|;;|;&|.", re.DOTALL)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")
_UNKNOWN: Final = "$"  # stands in a word for what only the running shell knows

_KEYWORDS: Final = frozenset(
    ("if", "then", "elif", "else", "fi", "while", "until", "do", "done", "esac", "!", "{", "}", "coproc")
)
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
    texts = [_Text(cmd)]
    for text in texts:  # grows
        budget -= len(text.text) + 1
        if budget < 0:
            return None
        scanner = _Scanner(text)
        scanner.scan()
        texts += scanner.texts
        for command in scanner.commands:
            entry = denied.entry_run_by(command, texts)
            if entry is not None:
                return entry
    return None


@dataclass(frozen=True, slots=True)
class _Text:
    """Something a shell will read: a script, or a here-document's body, in which only substitutions count."""

    text: str
    body: bool = False


@dataclass(slots=True)
class _Command:
    """A simple command's words without quotes and redirections, and what it is given to read."""

    words: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Frame:
    """What a bracket or a quote opened."""

    closer: str = ""
    bare: bool = True  # else: text in double quotes, in ${…}, or a here-document's
    array: bool = False  # a=(…): words, no commands
    arithmetic: bool = False  # ((…)): << shifts
    command: _Command = field(default_factory=_Command)
    parts: list[str] | None = None  # the word that is being read
    quoted: bool = False  # whether some of that word was
    redirection: str = ""  # the next word is this operator's
    cases: int = 0  # within so many case … esac
    pattern: bool = False  # where a case has its patterns


class _Scanner:
    """Cuts a text into commands in one pass, with a stack in place of recursion."""

    def __init__(self, text: _Text) -> None:
        self.commands: list[_Command] = []
        self.texts: list[_Text] = []
        self._text = text.text
        self._stack = [_Frame()]
        self._words = self._stack[:]  # the bare frames: where words are put together
        self._heredocs: list[tuple[str, bool, bool, _Command]] = []
        if text.body:
            self._stack.append(_Frame(bare=False))

    def scan(self) -> None:
        """Fill `commands` and `texts`."""
        at = 0
        while at < len(self._text):
            at = self._bare(at) if self._stack[-1].bare else self._quoted(at)
        for frame in reversed(self._words):
            self._end_command(frame)

    def _bare(self, at: int) -> int:
        plain = _PLAIN.match(self._text, at)
        if plain:
            self._add(plain[0])
            return plain.end()
        frame, char = self._words[-1], self._text[at]
        match char:
            case " " | "\t":
                self._end_word(frame)
            case "\n":
                self._end_command(frame)
                return self._bodies(at + 1)
            case "#" if frame.parts is None:
                newline = self._text.find("\n", at)
                return len(self._text) if newline < 0 else newline
            case "'":
                return self._single(at)
            case '"':
                self._open(_Frame('"', bare=False))
            case "\\":
                if self._text[at + 1 : at + 2] != "\n":
                    self._add(self._text[at + 1 : at + 2], quoted=True)
                return at + 2
            case "$":
                return self._dollar(at)
            case "`":
                return self._backticks(at)
            case ";" | "&" | "|":
                return self._separator(at)
            case "(":
                self._bracket(at)
            case ")":
                self._close_bracket()
            case "<" | ">":
                return self._redirection(at)
            case _:
                self._add(char)
        return at + 1

    def _quoted(self, at: int) -> int:
        plain = _QUOTED_PLAIN.match(self._text, at)
        if plain:
            self._add(plain[0], quoted=True)
            return plain.end()
        frame, char = self._stack[-1], self._text[at]
        if char == frame.closer:
            self._stack.pop()
            return at + 1
        match char:
            case "$":
                return self._dollar(at)
            case "`":
                return self._backticks(at)
            case "\\":
                after = self._text[at + 1 : at + 2]
                if after != "\n":
                    self._add(after if after in '$`"\\' else char + after, quoted=True)
                return at + 2
            case '"' if frame.closer == "}":
                self._open(_Frame('"', bare=False))
            case "'" if frame.closer == "}" and self._stack[-2].bare:
                return self._single(at)
            case _:
                self._add(char, quoted=True)
        return at + 1

    def _add(self, text: str, quoted: bool = False) -> None:
        frame = self._words[-1]
        if frame.parts is None:
            frame.parts = []
        frame.parts.append(text)
        frame.quoted = frame.quoted or quoted

    def _open(self, frame: _Frame) -> None:
        if frame.bare:
            self._words.append(frame)
        else:
            self._add("", quoted=frame.closer == '"')
        self._stack.append(frame)

    def _single(self, at: int) -> int:
        end = self._text.find("'", at + 1)
        end = len(self._text) if end < 0 else end
        self._add(self._text[at + 1 : end], quoted=True)
        return end + 1

    def _dollar(self, at: int) -> int:
        bare, after = self._stack[-1].bare, self._text[at + 1 : at + 2]
        if after == "'" and bare:
            ansi = _ANSI.match(self._text, at)
            if ansi:
                self._add(_ANSI_ESCAPE.sub(_decoded, ansi[1]), quoted=True)
                return ansi.end()
        if after == '"' and bare:
            return at + 1  # a text to translate: "…" follows
        self._add(_UNKNOWN)
        if after == "(":
            self._open(_Frame(")", arithmetic=self._text.startswith("((", at + 1)))
            return at + 2
        if after == "{":
            self._open(_Frame("}", bare=False))
            return at + 2
        return at + 1

    def _backticks(self, at: int) -> int:
        found = _BACKTICKS.match(self._text, at)
        if found is None:
            return at + 1
        self._add(_UNKNOWN)
        self.texts.append(_Text(re.sub(r"\\([\\`$])", r"\1", found[1])))
        return found.end()

    def _separator(self, at: int) -> int:
        frame = self._words[-1]
        self._end_command(frame)
        found = _SEPARATOR.match(self._text, at)
        if found is None or len(found[0]) == 1:
            return at + 1
        frame.pattern = frame.cases > 0
        return found.end()

    def _bracket(self, at: int) -> None:
        frame = self._words[-1]
        if frame.pattern:
            return
        if frame.parts and frame.parts[-1].endswith("="):
            self._open(_Frame(")", array=True))
            return
        self._end_command(frame)
        self._open(_Frame(")", arithmetic=frame.arithmetic or self._text.startswith("((", at)))

    def _close_bracket(self) -> None:
        frame = self._words[-1]
        self._end_command(frame)
        if frame.pattern:
            frame.pattern = False
        elif len(self._words) > 1:
            self._words.pop()
            self._stack.pop()

    def _redirection(self, at: int) -> int:
        frame, found = self._words[-1], _REDIRECTION.match(self._text, at)
        if self._text[at + 1 : at + 2] == "(":
            self._add(_UNKNOWN)
            self._open(_Frame(")"))
            return at + 2
        if frame.parts is not None and not frame.quoted and "".join(frame.parts).isdigit():
            frame.parts = None  # 2>: a descriptor, no word
        self._end_word(frame)
        if found is None:
            return at + 1
        if not frame.arithmetic:
            frame.redirection = found[0]
        return found.end()

    def _end_word(self, frame: _Frame) -> None:
        if frame.parts is None:
            return
        word, quoted, operator = "".join(frame.parts), frame.quoted, frame.redirection
        frame.parts, frame.quoted, frame.redirection = None, False, ""
        if operator:
            if operator in ("<<", "<<-"):
                self._heredocs.append((word, quoted, operator == "<<-", frame.command))
            elif operator == "<<<":
                frame.command.inputs.append(word)
            return
        words = frame.command.words
        if frame.pattern:
            if word == "esac" and not quoted:
                frame.cases, frame.pattern = frame.cases - 1, False
            return
        words.append(word)
        if quoted or frame.array:
            return
        if word == "esac" and len(words) == 1 and frame.cases:
            frame.cases -= 1
        if word == "in" and words[-3:-2] == ["case"] and all(each in _KEYWORDS for each in words[:-3]):
            frame.command = _Command()
            frame.cases, frame.pattern = frame.cases + 1, True

    def _end_command(self, frame: _Frame) -> None:
        self._end_word(frame)
        frame.redirection = ""
        if frame.command.words and not frame.array:
            self.commands.append(frame.command)
        frame.command = _Command()

    def _bodies(self, at: int) -> int:
        """Read the here-documents that were announced on the line that ends before `at`."""
        for delimiter, quoted, tabs, command in self._heredocs:
            lines: list[str] = []
            while at < len(self._text):
                newline = self._text.find("\n", at)
                end = len(self._text) if newline < 0 else newline
                line = self._text[at:end]
                at = end + 1
                if (line.lstrip("\t") if tabs else line) == delimiter:
                    break
                lines.append(line)
            body = "\n".join(lines)
            command.inputs.append(body)
            if not quoted:
                self.texts.append(_Text(body, body=True))
        self._heredocs.clear()
        return at


def _decoded(escape: re.Match[str]) -> str:
    two, four, octal, char = escape.groups()
    if char is not None:
        return {"n": "\n", "t": "\t", "r": "\r"}.get(char, char)
    return chr(int(two or four, 16)) if two or four else chr(int(octal, 8))


class _Denied:
    """The denylist, by the first word of its entries."""

    def __init__(self, denylist: Sequence[str]) -> None:
        self.entries: dict[str, list[tuple[list[str], str]]] = {}
        for entry in denylist:
            words = entry.split()
            if words:
                self.entries.setdefault(words[0], []).append((words[1:], entry))

    def entry_run_by(self, command: _Command, texts: list[_Text]) -> str | None:
        """The entry that the command runs, seen through wrappers.  Texts it runs are added to `texts`."""
        words, at = command.words, 0
        while at < len(words):
            word = words[at]
            if word in _KEYWORDS or _ASSIGNMENT.match(word):
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
                texts.append(_Text(" ".join(words[at + 1 : at + 2] if name == "trap" else _operands(words, at + 1))))
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

    def _found(self, words: list[str], at: int, texts: list[_Text]) -> str | None:
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
            entry = None if _name(run[0] if run else "") == "find" else self.entry_run_by(_Command(run), texts)
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


def _shell_texts(command: _Command, at: int) -> list[_Text]:
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
        return [_Text(text) for text in words[at : at + 1]]
    if from_input or words[at : at + 1] in ([], ["-"], ["/dev/stdin"]):
        return [_Text(text) for text in command.inputs]
    return []


def _behind(wrapper: _Wrapper, words: list[str], at: int, texts: list[_Text]) -> int:
    """Where the wrapped command begins."""
    at = _behind_options(wrapper, words, at, texts)
    if wrapper.operands:
        at = _behind_options(wrapper, words, at + wrapper.operands, texts)
    return at


def _behind_options(wrapper: _Wrapper, words: list[str], at: int, texts: list[_Text]) -> int:
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
            texts.append(_Text(" ".join([*([value] if equals else []), *words[at:]])))
            return len(words)
        if shown in wrapper.valued and not equals:
            at += 1
    return at
