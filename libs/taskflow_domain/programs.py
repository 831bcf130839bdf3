"""What programs make of their words: which options take a value, and which words are a command that they run."""

from dataclasses import dataclass, field
from typing import Final, Literal

from taskflow_domain.shell_text import Command

Rest = Literal["command", "shell", "text", "first"]

_SHELLS: Final = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh", "mksh"))


@dataclass(frozen=True, slots=True)
class Program:
    """How the words of a program are read."""

    valued: frozenset[str] = frozenset()  # options whose value may be the next word
    texts: frozenset[str] = frozenset()  # options that are followed by a shell text
    idle: frozenset[str] = frozenset()  # options with which nothing is run
    instead: frozenset[str] = frozenset()  # options in place of the operands; then the rest is a command
    operands: int = 0  # words before the rest
    rest: Rest = "command"  # what follows: a command, a shell's arguments, a shell text, or one in its first word
    alone: bool = False  # without a command it starts a shell
    _known: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_known", self.valued | self.texts | self.idle | self.instead)

    def option(self, word: str) -> tuple[str, str | None]:
        """The option in a word such as `--user=bob`, `-ubob` or `-nu`, and its value if the word has one."""
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            return name, value if equals else None
        for end, letter in enumerate(word[1:], 2):
            if "-" + letter in self._known:
                return "-" + letter, word[end:] or None
        return word, None

    def behind_option(self, words: list[str], at: int) -> int:
        """Where the option at `at` ends, with its value."""
        name, value = self.option(words[at])
        return at + 1 + (value is None and name in self.valued)


def _program(
    valued: str = "",
    texts: str = "",
    idle: str = "",
    instead: str = "",
    operands: int = 0,
    rest: Rest = "command",
    alone: bool = False,
) -> Program:
    return Program(
        valued=frozenset(f"{valued} {instead}".split()),
        texts=frozenset(texts.split()),
        idle=frozenset(idle.split()),
        instead=frozenset(instead.split()),
        operands=operands,
        rest=rest,
        alone=alone,
    )


_SU: Final = "-g -G -s -w --group --supp-group --shell --whitelist-environment"
_SU_TEXTS: Final = "-c --command --session-command"
_APT: Final = "-o -c -t --option --config-file --target-release"
_COMPOSE: Final = "-f -p --file --project-name --project-directory --profile --env-file --ansi --parallel"

_WRAPPERS: Final = {
    "builtin": _program(),
    "busybox": _program(),
    "cgexec": _program("-g"),
    "chroot": _program("-u -g -G --userspec --groups", operands=1, alone=True),
    "chrt": _program("-T -P -D --sched-runtime --sched-period --sched-deadline", operands=1),
    "command": _program(idle="-v -V"),
    "doas": _program("-u -a", idle="-C -L", alone=True),
    "dumb-init": _program("-r --rewrite"),
    "env": _program("-u -C -a -P --unset --chdir --argv0", texts="-S --split-string"),
    "eval": _program(rest="text"),
    "exec": _program("-a"),
    "fakeroot": _program("-l -s -i -b --lib --faked"),
    "flock": _program("-w -E --timeout --wait --conflict-exit-code", texts="-c --command", operands=1),
    "gosu": _program(operands=1),
    "ionice": _program("-c -n -p -P -u --class --classdata --pid --pgid --uid"),
    "ltrace": _program("-A -D -F -a -e -l -n -o -p -s -u -w -x --output"),
    "nice": _program("-n --adjustment"),
    "nohup": _program(),
    "nsenter": _program("-t -S -G -W -N --target --setuid --setgid --wdns --net-socket", alone=True),
    "numactl": _program(
        "-i -m -N -C -p -P -w --interleave --membind --cpunodebind --physcpubind --preferred --preferred-many"
    ),
    "parallel": _program(
        "-j -P -a -C -d -I -n -N -L -s -S --jobs --max-procs --arg-file --colsep --delimiter --max-args --max-chars"
        " --sshlogin --joblog --results --delay --timeout --retries --halt --nice --load --memfree --tmpdir --workdir"
        " --wd --tagstring --env --block",
        rest="text",
    ),
    "pkexec": _program("--user"),
    "prlimit": _program("-p -o --pid --output"),
    "runuser": _program(_SU, texts=_SU_TEXTS, instead="-u --user", operands=1, rest="shell"),
    "script": _program(
        "-I -O -B -T -m -E -o --log-in --log-out --log-io --log-timing --logging-format --echo --output-limit",
        texts="-c --command",
        operands=1,
        alone=True,
    ),
    "setpriv": _program(
        "--ambient-caps --inh-caps --bounding-set --ruid --euid --rgid --egid --reuid --regid --groups --securebits"
        " --pdeathsig --ptracer --selinux-label --apparmor-profile --landlock-access --landlock-rule --seccomp-filter",
        idle="-d --dump",
    ),
    "setsid": _program(),
    "stdbuf": _program("-i -o -e --input --output --error"),
    "strace": _program(
        "-o -e -E -u -s -a -p -P -S -I -O -b -X -U --output --env --user --string-limit --columns --attach"
        " --trace --trace-path --signal --status --summary-sort-by --summary-columns --interruptible --detach-on"
    ),
    "su": _program(_SU, texts=_SU_TEXTS, operands=1, rest="shell"),
    "su-exec": _program(operands=1),
    "sudo": _program(
        "-u -g -h -p -C -D -R -T -U -r -t --user --group --host --prompt --close-from --chdir --chroot"
        " --command-timeout --other-user --role --type",
        idle="-l --list -e --edit",
        alone=True,
    ),
    "systemd-run": _program(
        "-H -M -u -p -E --host --machine --unit --property --description --slice --service-type --uid --gid --nice"
        " --working-directory --setenv --path-property --socket-property --timer-property --on-active --on-boot"
        " --on-startup --on-unit-active --on-unit-inactive --on-calendar"
    ),
    "taskset": _program(operands=1),
    "time": _program("-o -f --output --format"),
    "timeout": _program("-s -k --signal --kill-after", operands=1),
    "tini": _program("-e -p"),
    "toybox": _program(),
    "trap": _program(idle="-l -p", rest="first"),
    "unbuffer": _program(),
    "unshare": _program(
        "-R -w -S -G --root --wd --setuid --setgid --map-user --map-group --map-users --map-groups --propagation"
        " --setgroups --monotonic --boottime",
        alone=True,
    ),
    "valgrind": _program(),
    "watch": _program("-n -q --interval --equexit", rest="text"),
    "xargs": _program(
        "-I -n -P -L -d -E -s -a -J -R --max-args --max-procs --delimiter --arg-file --max-chars --process-slot-var"
    ),
}

# Programs with commands of their own: what is known of the options before these, as in `docker compose -f x down`.
_COMMANDED: Final = {
    "apt": _program(_APT),
    "apt-get": _program(_APT),
    "aws": _program("--profile --region --output --endpoint-url --query --color --ca-bundle"),
    "docker": _program("-c -H -l --config --context --host --log-level --tlscacert --tlscert --tlskey"),
    "docker compose": _program(_COMPOSE),
    "docker-compose": _program(_COMPOSE),
    "git": _program("-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source"),
    "helm": _program("-n --namespace --kube-context --kubeconfig"),
    "kubectl": _program("-n -s --namespace --server --context --cluster --kubeconfig --user --token --as --as-group"),
    "make": _program("-C -f -I -o -W --directory --file --makefile --include-dir --old-file --what-if"),
    "npm": _program("-C -w --prefix --workspace --registry"),
    "podman": _program("-c --connection --url --identity --root --runroot --log-level --storage-driver"),
    "redis-cli": _program("-h -p -s -a -u -n -r -i -d --user --pass --cert --key --cacert"),
    "systemctl": _program("-H -M -t -p -s -n -o --host --machine --type --property --signal --lines --output --root"),
}
_UNHEARD_OF: Final = Program()


def named(name: str) -> Program:
    """The program of this name; of one that nobody told of, no option takes a value."""
    return _WRAPPERS.get(name) or _COMMANDED.get(name, _UNHEARD_OF)


def file_name(word: str) -> str:
    """A command without its directory."""
    return word.rpartition("/")[2]


def unwrapped(command: Command, at: int) -> tuple[int, list[str]]:
    """Where the command begins that the one at `at` runs, if any, and texts that it has a shell run."""
    words, name = command.words, file_name(command.words[at])
    if name in _SHELLS:
        return len(words), _shell_texts(command, at + 1)
    wrapper = _WRAPPERS.get(name)
    if wrapper is None:
        return len(words), []
    reading = _Reading(wrapper, words, at + 1)
    reading.pass_options()
    direct = not reading.given.isdisjoint(wrapper.instead)
    if wrapper.operands and not direct:
        reading.at += wrapper.operands
        reading.pass_options()
    at, rest = reading.at, "command" if direct else wrapper.rest
    if reading.texts or not reading.given.isdisjoint(wrapper.idle):
        return len(words), reading.texts
    if rest == "command":
        return at, command.inputs if wrapper.alone and at >= len(words) else []
    if rest == "shell":
        return len(words), _shell_texts(command, at)
    return len(words), [" ".join(words[at:])] if rest == "text" else words[at : at + 1]


@dataclass(slots=True)
class _Reading:
    """How far a program's words have been read, and what they were."""

    program: Program
    words: list[str]
    at: int
    given: set[str] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)

    def pass_options(self) -> None:
        """Go on to the first word that is no option, or to the end if there is a text."""
        while self.at < len(self.words) and self.words[self.at].startswith("-"):
            word = self.words[self.at]
            name, value = self.program.option(word)
            self.given.add(name)
            if name in self.program.texts:
                self.texts.append(" ".join([*([] if value is None else [value]), *self.words[self.at + 1 :]]))
                self.at = len(self.words)
                return
            self.at = self.program.behind_option(self.words, self.at)
            if word == "--":
                return


def _shell_texts(command: Command, at: int) -> list[str]:
    """What a shell runs whose arguments begin at `at`: `-c text`, or a here-document."""
    words = command.words
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
        return words[at : at + 1]
    return command.inputs if from_input or words[at : at + 1] in ([], ["-"], ["/dev/stdin"]) else []
