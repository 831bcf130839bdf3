"""Denied commands are found wherever a shell text runs them, and only there."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskflow_domain import denied_command

DENYLIST = ["rm", "git push", "/sbin/halt", "shutdown -h now", "sudo"]
PIECES = [
    "rm", "echo", "sh", "-c", "eval", "env", "-S", "find", "-exec", "sudo", "-u", "case", "in", "esac", "for", "a=",
    "$", "$(", "((", "(", ")", "{", "}", "`", "'", '"', "\\", "|", "&", ";", ";;", "<", "<<", "<<-", "<<<", ">", "#",
    "\n", " ", "\t", "EOF", "\0", "é", "$'", "${",
]  # fmt: skip


@pytest.mark.parametrize(
    "cmd",
    [
        "rm",
        "rm -rf x",
        "  rm x",
        "/bin/rm x",
        "./rm",
        "echo a | rm",
        "echo a|rm",
        "a; rm b",
        "a;rm b",
        "a && rm b",
        "a||rm",
        "a & rm",
        "a\nrm b",
        "a \\\n && rm",
        "r\\\nm x",
        "echo $(rm x)",
        'echo "$(rm x)"',
        'echo "a $(echo "$(rm)")"',
        "echo `rm x`",
        'echo "`rm x`"',
        "echo `echo \\`rm\\``",
        "(rm x)",
        "( cd a && rm x )",
        "((1 << 2)); rm",
        "echo $((1 << 2))\nrm",
        "{ rm; }",
        '"rm" x',
        "'r'm x",
        'r"m" x',
        "\\rm x",
        "$'rm' x",
        "$'\\x72m' x",
        "A=1 rm",
        "A=1 B='2 3' rm",
        "a=(1 2); rm",
        "a=$(rm)",
        "a=( case a in a) rm",
        ">out rm x",
        "2>&1 rm x",
        "2>/dev/null </dev/null rm",
        "<<< hi rm",
        "cat <(rm x)",
        "env rm",
        "env -i rm",
        "time -o log rm",
        "env -u B A=1 rm",
        "env -S 'rm x'",
        "exec rm",
        "exec -a name rm",
        "nohup rm &",
        "nice rm",
        "nice -n 5 rm",
        "nice -10 rm",
        "time rm",
        "time -p rm",
        "timeout 5 rm",
        "timeout -s KILL -k 3 5s rm",
        "timeout -sKILL 5 rm",
        "find . | xargs rm",
        "xargs -0 -n 1 -I{} rm {}",
        "xargs -I {} rm {}",
        "command rm",
        "command -p rm",
        "builtin rm",
        "busybox rm",
        "busybox sh -c rm",
        "sh -c 'rm x'",
        "sh -c 'echo; rm x' name",
        "bash -ec 'rm x'",
        "bash -euo pipefail -c 'rm x'",
        "bash -c -e 'rm x'",
        "/bin/bash --norc -c \"sh -c 'rm x'\"",
        "eval rm x",
        'eval "rm x"',
        "eval eval rm",
        "trap 'rm x' EXIT",
        "flock /tmp/lock rm",
        "flock /tmp/lock -c 'rm x'",
        "su root -c 'rm x'",
        "find . -name a -exec rm {} \\;",
        "find . -exec echo {} \\; -exec sh -c 'rm {}' \\;",
        "if rm; then a; fi",
        "if a; then rm; fi",
        "if a; then b; elif rm; then c; fi",
        "if a; then b; else rm; fi",
        "while rm; do a; done",
        "for i in 1 2; do rm $i; done",
        "for ((i = 0; i < 3; i++)) do rm; done",
        "until a; do ! rm; done",
        "! rm",
        "f() { rm; }; f",
        "function f { rm; }; f",
        "case x in a) b;; *) rm;; esac",
        "echo $(case x in (a) b;; *) rm;; esac)",
        "case x in a) b;; esac; rm",
        "case x in\nesac\nrm",
        "echo case x in; rm",
        "cat <<EOF\nhello\nEOF\nrm x",
        "cat <<EOF\n$(rm x)\nEOF",
        "cat <<EOF | rm\nhello\nEOF",
        "bash <<'EOF'\nrm x\nEOF",
        "bash -s <<EOF\nrm x\nEOF",
        "bash <<< 'rm x'",
        "echo ${x:-$(rm)}",
        'echo "${x:-"$(rm)"}"',
        "echo ${#x}; rm",
        "echo $# ; rm",
        "echo a#b; rm",
        "# a comment\nrm",
        "echo 'it'\\''s'; rm",
        "[ -f x ] && rm x",
    ],
)
def test_a_denied_command_is_seen_wherever_it_runs(cmd: str) -> None:
    """Behind separators, in substitutions, quotes, control structures, here-documents and wrappers."""
    assert denied_command(cmd, ["rm"]) == "rm"


@pytest.mark.parametrize(
    "cmd",
    [
        "",
        " ",
        "echo rm",
        "echo 'a; rm b'",
        'echo "a && rm"',
        "echo a\\;rm",
        "echo \\\nrm",
        "rmdir x",
        "/bin/rm/x",
        "ls # ; rm",
        "ls > rm",
        "ls >rm",
        "ls 2>>rm",
        "rm=1 ls",
        "command -v rm",
        "sudo -u rm ls",
        "sudo -urm ls",
        "timeout 5 ls rm",
        "xargs -I rm echo rm",
        "cat <<EOF\nrm x\nEOF",
        "cat <<-EOF\n\trm x\n\tEOF\n",
        "cat <<'EOF'\n$(rm x)\nEOF",
        "bash script <<EOF\nrm x\nEOF",
        "cat <<< rm",
        "case x in rm) ls;; a|rm) ls;; (rm) ls;; esac",
        "case rm in *) ls;; esac",
        "for rm in 1 2; do ls; done",
        "a=(rm x); ls",
        "find . -name rm",
        "find rm -exec ls {} \\;",
        "sh -c ls rm",
        "sh rm",
        "echo ${x:-; rm}",
        "grep -r 'rm -rf' .",
        "git commit -m 'rm the old code; rm it'",
        "$x rm",
    ],
)
def test_a_word_that_is_not_run_is_not_denied(cmd: str) -> None:
    """Arguments, quoted texts, comments, file names, patterns and here-documents are no commands."""
    assert denied_command(cmd, ["rm"]) is None


@pytest.mark.parametrize(
    ("cmd", "entry"),
    [
        ("git push origin main", "git push"),
        ("/usr/bin/git push", "git push"),
        ("git pull && git push", "git push"),
        ("git status", None),
        ("git", None),
        ("echo git push", None),
        ("shutdown -h now", "shutdown -h now"),
        ("shutdown -h", None),
        ("/sbin/halt", "/sbin/halt"),
        ("/usr/sbin/halt", None),
        ("halt", None),
        ("sudo rm", "sudo"),
        ("ls; /bin/rm; sudo ls", "rm"),
    ],
)
def test_an_entry_is_a_name_a_path_or_several_words(cmd: str, entry: str | None) -> None:
    """A name matches in any directory, a path only itself, several words the words a command begins with."""
    assert denied_command(cmd, DENYLIST) == entry


def test_without_entries_nothing_is_denied() -> None:
    """No list, or one of blanks, denies nothing."""
    assert denied_command("rm -rf /", []) is None
    assert denied_command("rm -rf /", ["", "  "]) is None


@given(
    st.one_of(
        st.text(), st.lists(st.sampled_from(PIECES)).map("".join), st.lists(st.sampled_from(PIECES)).map(" ".join)
    )
)
def test_any_text_is_answered(cmd: str) -> None:
    """Whatever the text is, the answer is an entry or None, never an exception."""
    assert denied_command(cmd, DENYLIST) in (None, *DENYLIST)


@given(st.lists(st.sampled_from(PIECES)).map(" ".join))
def test_what_comes_first_hides_nothing_on_lines_before_it(cmd: str) -> None:
    """A denied command on the first line is found, whatever follows."""
    assert denied_command(f"rm x\n{cmd}", ["rm"]) == "rm"


@pytest.mark.parametrize(
    "piece",
    [
        "(", "$(", "`", "'", '"', "\\", "${", "a=(", "eval ", "sudo ", "sh -c ", "find -exec ", "env -S ", "case x in ",
        "<<E\n", "sh <<E\n$(",
        "a ", "a=", ";", "\\\\`", "\"$(", "-", "if ", "$((", "<<<a ", "time ",
        "echo case x in ", "nice -n 1 ", "$'", "1<",
    ],
)  # fmt: skip
def test_a_long_text_takes_time_in_proportion(piece: str) -> None:
    """64 KiB of any one thing are read in a second or so: nothing grows faster than the text."""
    began = time.process_time()

    denied_command((piece * 65_536)[:65_536], DENYLIST[:-1])

    assert time.process_time() - began < 5
