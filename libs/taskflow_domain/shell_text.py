"""Cuts what a shell will read into commands, without running anything.

Quotes, substitutions, control structures and here-documents are followed as far as the text tells.  Any text is
accepted, in one pass and without recursion; what no shell would accept is read somehow.
"""

import re
from dataclasses import dataclass, field
from typing import Final

KEYWORDS: Final = frozenset(("if", "then", "elif", "else", "fi", "while", "until", "do", "done", "esac", "!", "{", "}"))

_PLAIN: Final = re.compile(r"[^\s'\"\\$`|&;()<>#]+")
_QUOTED_PLAIN: Final = re.compile(r"[^'\"\\$`}]+")
_BACKTICKS: Final = re.compile(r"`((?:[^`\\]|\\.)*)`?", re.DOTALL)
_ANSI: Final = re.compile(r"\$'((?:[^'\\]|\\.)*)'?", re.DOTALL)
_ANSI_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|([0-7]{1,3})|(.))", re.DOTALL)
_REDIRECTION: Final = re.compile(r"<<<|<<-|<<|<>|<&|<|>>|>\||>&|>")
_SEPARATOR: Final = re.compile(r";;&|;;|;&|.", re.DOTALL)
_EMPTY_BRACKETS: Final = re.compile(r"\([ \t]*\)")
_ARGUMENT: Final = re.compile(r"[\w.~$]|[-/][A-Za-z]")  # and nothing that goes on with a sum
_UNKNOWN: Final = "$"  # stands in a word for what only the running shell knows


@dataclass(frozen=True, slots=True)
class Text:
    """Something a shell will read: a script, or a here-document's body, in which only substitutions count."""

    text: str
    body: bool = False


@dataclass(slots=True)
class Command:
    """A simple command's words without quotes and redirections, and what it is given to read."""

    words: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Frame:
    """What a bracket or a quote opened."""

    closer: str = ""
    bare: bool = True  # else: text in double quotes, in ${…}, or a here-document's
    array: bool = False  # a=(…): words, no commands
    doubtful: list[Command] | None = None  # within ((…)): no commands, unless the brackets end apart
    second: bool = False  # the inner one of these two brackets
    valued: bool = False  # $((…))
    test: bool = False  # within [[ … ]]: words, no commands
    command: Command = field(default_factory=Command)
    parts: list[str] | None = None  # the word that is being read
    quoted: bool = False  # whether some of that word was
    redirection: str = ""  # the next word is this operator's
    cases: int = 0  # within so many case … esac
    pattern: bool = False  # where a case has its patterns


class Scanner:
    """Cuts a text into commands in one pass, with a stack in place of recursion."""

    def __init__(self, text: Text) -> None:
        self.commands: list[Command] = []
        self.texts: list[Text] = []
        self._text = text.text
        self._stack = [_Frame()]
        self._words = self._stack[:]  # the bare frames: where words are put together
        self._heredocs: list[tuple[str, bool, bool, Command]] = []
        if text.body:
            self._stack.append(_Frame(bare=False))

    def scan(self) -> None:
        """Fill `commands` and `texts`."""
        at = 0
        while at < len(self._text):
            at = self._bare(at) if self._stack[-1].bare else self._quoted(at)
        for frame in reversed(self._words):
            self._end_command(frame)
            if frame.second:
                self.commands += frame.doubtful or ()

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
            case "#" if frame.parts is None and frame.doubtful is None:
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
            case "&" | "|" | "(" | ")" if frame.test and frame.parts != ["]]"]:
                self._add(char)
            case ";" | "&" | "|":
                return self._separator(at)
            case "(":
                return self._bracket(at)
            case ")":
                self._close_bracket(at)
            case "<" | ">" if frame.doubtful is None:
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
            return self._open_brackets(at + 1, valued=True)
        if after == "{":
            self._open(_Frame("}", bare=False))
            return at + 2
        return at + 1

    def _backticks(self, at: int) -> int:
        found = _BACKTICKS.match(self._text, at)
        if found is None:
            return at + 1
        self._add(_UNKNOWN)
        self.texts.append(Text(re.sub(r"\\([\\`$])", r"\1", found[1])))
        return found.end()

    def _separator(self, at: int) -> int:
        frame = self._words[-1]
        self._end_command(frame)
        found = _SEPARATOR.match(self._text, at)
        if found is None or len(found[0]) == 1:
            return at + 1
        frame.pattern = frame.cases > 0
        return found.end()

    def _bracket(self, at: int) -> int:
        frame = self._words[-1]
        if frame.pattern:
            return at + 1
        if frame.doubtful is not None:
            self._end_command(frame)
            self._open(_Frame(")", doubtful=frame.doubtful))
            return at + 1
        if frame.parts and frame.parts[-1].endswith("="):
            self._open(_Frame(")", array=True))
            return at + 1
        self._end_word(frame)
        words, empty = frame.command.words, _EMPTY_BRACKETS.match(self._text, at)
        if empty:  # name(): being defined is not being run
            del words[-2 if words[-2:-1] == ["function"] else -1 :]
            return empty.end()
        if words[-2:-1] == ["coproc"]:  # coproc name (…)
            del words[-2:]
        self._end_command(frame)
        return self._open_brackets(at)

    def _open_brackets(self, at: int, valued: bool = False) -> int:
        self._open(_Frame(")"))
        if not self._text.startswith("((", at):
            return at + 1
        self._open(_Frame(")", doubtful=[], second=True, valued=valued))
        return at + 2

    def _close_bracket(self, at: int) -> None:
        frame = self._words[-1]
        self._end_command(frame)
        if frame.pattern:
            frame.pattern = False
        elif len(self._words) > 1:
            if frame.second:
                self.commands += self._no_sums(frame, at)
            self._words.pop()
            self._stack.pop()

    def _no_sums(self, frame: _Frame, at: int) -> list[Command]:
        """What ((…)) that ends at `at` runs: brackets that end apart are subshells, and to dash all but $((…)) are."""
        doubtful = frame.doubtful or []
        if not self._text.startswith("))", at):
            return doubtful
        return [] if frame.valued else [each for each in doubtful if _ARGUMENT.match("".join(each.words[1:2]))]

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
        if word in ("[[", "]]"):
            frame.test = word == "[[" and (frame.test or all(each in KEYWORDS for each in words[:-1]))
        if word == "in" and words[-3:-2] == ["case"] and all(each in KEYWORDS for each in words[:-3]):
            frame.command = Command()
            frame.cases, frame.pattern = frame.cases + 1, True

    def _end_command(self, frame: _Frame) -> None:
        self._end_word(frame)
        frame.redirection, frame.test = "", False
        if frame.command.words and not frame.array:
            (self.commands if frame.doubtful is None else frame.doubtful).append(frame.command)
        frame.command = Command()

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
                self.texts.append(Text(body, body=True))
        self._heredocs.clear()
        return at


def _decoded(escape: re.Match[str]) -> str:
    two, four, octal, char = escape.groups()
    if char is not None:
        return {"n": "\n", "t": "\t", "r": "\r"}.get(char, char)
    return chr(int(two or four, 16)) if two or four else chr(int(octal, 8))
