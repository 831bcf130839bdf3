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
    "\n", " ", "\t", "EOF", "\0", "é", "$'", "${", "[[", "]]", "coproc", "function", "()", "))", "$((", "watch", "su",
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
        "[[ -f x ]] && rm x",
        "[[ -f x ]]&& rm x",
        "if [[ a || b ]]; then rm; fi",
        "$([[ a ]])rm; rm",
        "[[ a == $(rm) ]]",
        "echo $(( $(rm) + 1 ))",
        "echo $((1 + `rm`))",
        "echo $((1 + 2)) $(rm)",
        "(( i++ )); rm",
        "(( i++ )) && rm",
        "((rm x); ls)",
        "((rm x))",
        "((ls; rm -rf /tmp/x))",
        "((rm /tmp/x))",
        "((rm x) )",
        "echo $((rm x); ls)",
        "((ls); (rm))",
        "( (rm x) )",
        "rm() { rm x; }",
        "f() { ls; }; rm",
        "f () ( rm )",
        "function f() { rm; }",
        "rm() { ls; }; rm x",
        "coproc rm x",
        "coproc c { rm; }",
        "coproc c (rm)",
        "coproc { rm; }",
        "trap -- 'rm x' EXIT",
        "bash -c 'watch -n 1 rm'",
    ],
)
def test_a_denied_command_is_seen_wherever_it_runs(cmd: str) -> None:
    """Behind separators, in substitutions, quotes, control structures, here-documents and wrappers."""
    assert denied_command(cmd, ["rm"]) == "rm"


@pytest.mark.parametrize(
    "cmd",
    [
        "cgexec -g cpu:jobs rm x",
        "chroot --userspec bob /mnt rm x",
        "chroot /mnt <<EOF\nrm x\nEOF",
        "chrt -f 50 rm x",
        "chrt -d --sched-runtime 500 --sched-period 900 0 rm x",
        "doas -u bob rm x",
        "doas -nu bob rm x",
        "env --chdir /x -u A rm x",
        "fakeroot -- rm x",
        "flock -w 5 -E 3 /tmp/lock rm x",
        "flock -n 9 -c 'rm x'",
        "gosu bob rm x",
        "ionice -c 2 -n 7 rm x",
        "ionice -c3 rm x",
        "ltrace -f -o log rm x",
        "nice -n -5 rm x",
        "nice --adjustment 5 rm x",
        "nsenter -t 1 -m -u rm x",
        "nsenter --target 1 --mount -- rm x",
        "numactl -N 0 -m 0 rm x",
        "parallel -j 4 rm ::: a b",
        "parallel --joblog log 'rm {}' ::: a b",
        "pkexec --user bob rm x",
        "prlimit --nofile=10 --cpu=5 rm x",
        "runuser -u bob -- rm x",
        "runuser -u bob rm x",
        "runuser --user=bob rm x",
        "runuser - bob -c 'rm x'",
        "runuser -s /bin/sh -l bob -c 'rm x'",
        "script -qc 'rm x' /dev/null",
        "setpriv --reuid=1 rm x",
        "setpriv --reuid 1 --clear-groups --groups 2,3 -- rm x",
        "setsid -w rm x",
        "stdbuf -o L -eL rm x",
        "strace -f -o log -e trace=file rm x",
        "strace -fo log --signal none rm x",
        "su -c 'rm x'",
        "su - bob -c 'rm x'",
        "su -s /bin/sh -w A,B bob -c 'rm x'",
        "su bob -- -c 'rm x'",
        "su - bob <<EOF\nrm x\nEOF",
        "sudo -n -u bob -- rm x",
        "sudo -s <<EOF\nrm x\nEOF",
        "systemd-run --scope -p MemoryMax=1G --slice jobs rm x",
        "taskset -c 0,1 rm x",
        "taskset 0x3 rm x",
        "timeout --signal KILL --kill-after 3 5 rm x",
        "unshare -r --map-user 3 -w /x rm x",
        "watch -n 5 rm x",
        "watch -n5 -d rm x",
        "watch --interval 5 'ls; rm x'",
        "xargs --replace rm {}",
        "xargs --max-lines rm",
        "xargs -I {} -P 4 --process-slot-var A rm {}",
        "nice -n 5 ionice -c 3 timeout -k 1 5 env -u A rm x",
    ],
)
def test_a_denied_command_is_seen_behind_a_wrapper_and_the_values_of_its_options(cmd: str) -> None:
    """A value is not taken for the command, nor the command for a value."""
    assert denied_command(cmd, ["rm"]) == "rm"


@pytest.mark.parametrize(
    "cmd",
    [
        "sudo -l rm",
        "sudo -nl rm",
        "sudo --list -U bob rm",
        "sudo -e rm",
        "doas -C /etc/doas.conf rm",
        "setpriv --dump rm",
        "trap -p rm",
        "su bob rm",
        "su rm",
        "runuser -u rm -- ls",
        "runuser -u rm ls",
        "setpriv --reuid rm ls",
        "watch -n rm ls",
        "nsenter -t rm ls",
        "ionice -c rm ls",
        "strace -o rm ls",
        "unshare -w rm ls",
        "flock rm ls",
        "flock -w rm lock ls",
        "watch ls rm",
        "chroot /mnt cat <<EOF\nrm x\nEOF",
    ],
)
def test_a_wrapper_that_runs_something_else_or_nothing_is_not_denied(cmd: str) -> None:
    """Options that only list, names of users and files, and arguments of what it does run."""
    assert denied_command(cmd, ["rm"]) is None


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
        "echo $((rm + 1))",
        'echo "$((rm + 1))"',
        "echo $(( (rm + 1) * 2 ))",
        "echo $((a <(rm) ))",
        "(( rm = 3 ))",
        "((rm++))",
        "(( rm - 1 ))",
        "(( rm /2 ))",
        "((rm=(rm+1)*2)); ls",
        "(( a || rm )) && ls",
        "((\nrm++\n))",
        "while (( rm < 3 )); do ls; done",
        "for ((rm = 0; rm < 3; rm++)); do ls; done",
        "rm() { ls; }",
        "rm () { ls; }",
        "rm()\n{\nls\n}",
        "rm() ( ls )",
        "function rm { ls; }",
        "function rm() { ls; }",
        "ls; rm() { ls; }; ls",
        "if a; then rm() { ls; }; fi",
        "coproc rm { ls; }",
        "coproc rm (ls)",
        "coproc rm while ls; do ls; done",
        "[[ a && rm -nt b ]]",
        "[[ $x =~ ^(rm|mv)$ ]]",
        "if ! [[ (rm == $x) || (b == $x) ]]; then ls; fi",
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
        ("git -C /r push", "git push"),
        ("git -C/r -c a=b --no-pager push origin", "git push"),
        ("git --git-dir /r/.git --work-tree=/r push", "git push"),
        ("git -C push status", None),
        ("git --no-pager log push", None),
        ("git stash push", None),
        ("git -C /r", None),
        ("docker compose -f a.yml -p x down", "docker compose down"),
        ("docker --context x compose down", "docker compose down"),
        ("docker compose -f down up", None),
        ("docker compose", None),
        ("kubectl -n prod delete pod x", "kubectl delete"),
        ("kubectl -n delete get pods", None),
        ("tool -v wipe", "tool wipe"),
        ("tool list wipe", None),
        ("dd -x if=a -y of=b", "dd if=a of=b"),
        ("echo git push", None),
        ("shutdown -h now", "shutdown -h now"),
        ("shutdown -h", None),
        ("shutdown --no-wall -h now", "shutdown -h now"),
        ("/sbin/halt", "/sbin/halt"),
        ("/usr/sbin/halt", None),
        ("halt", None),
        ("sudo rm", "sudo"),
        ("ls; /bin/rm; sudo ls", "rm"),
    ],
)
def test_an_entry_is_a_name_a_path_or_several_words(cmd: str, entry: str | None) -> None:
    """A name matches in any directory, a path only itself, several words also with options between them."""
    denylist = [*DENYLIST, "docker compose down", "kubectl delete", "tool wipe", "dd if=a of=b"]

    assert denied_command(cmd, denylist) == entry


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
        "((", "((a) ", "(( a )) ", "f() ", "( ", "[[ ", "[[ (", "coproc ", "coproc a {", "watch -n 1 ", "su a -c ",
        "git -C ", "shutdown -h ", "parallel ",
    ],
)  # fmt: skip
def test_a_long_text_takes_time_in_proportion(piece: str) -> None:
    """64 KiB of any one thing are read in a second or so: nothing grows faster than the text."""
    began = time.process_time()

    denied_command((piece * 65_536)[:65_536], DENYLIST[:-1])

    assert time.process_time() - began < 5
