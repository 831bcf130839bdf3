"""The fields of shell and Python jobs: S2 §4."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskflow_domain import CMD_MAX_BYTES, MAX_TIMEOUT_S, executor_faults

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
FIELDS = ["type", "cmd", "env", "cwd", "timeout_s", "callable", "args", "kwargs"]


@pytest.mark.parametrize(
    ("type_", "payload"),
    [
        ("shell", {"cmd": "echo hi"}),
        ("shell", {"cmd": "x" * CMD_MAX_BYTES}),
        ("shell", {"type": "shell", "cmd": "echo é", "env": {"A": "", "_b1": "é"}, "cwd": "/tmp", "timeout_s": 0.5}),
        ("shell", {"cmd": "ls", "env": {}, "timeout_s": MAX_TIMEOUT_S}),
        ("python", {"callable": "mod:fn"}),
        ("python", {"callable": "a.b.c:Class.method", "args": [1, None], "kwargs": {"x": [1]}, "timeout_s": 3}),
        ("task", {"cmd": 1}),
        ("http", None),
    ],
)
def test_what_is_right_has_no_faults(type_: str, payload: object) -> None:
    """Everything within the limits passes, and executors that are not built in check for themselves."""
    assert executor_faults(type_, payload) == []


@pytest.mark.parametrize(
    ("payload", "field", "says"),
    [
        (None, "", "must be an object with the field cmd"),
        ([], "", "must be an object"),
        ({}, "cmd", "is required"),
        ({"cmd": ""}, "cmd", "must be a command"),
        ({"cmd": " \n"}, "cmd", "must be a command"),
        ({"cmd": ["ls"]}, "cmd", "must be a command"),
        ({"cmd": "a\0b"}, "cmd", "NUL"),
        ({"cmd": "\ud800"}, "cmd", "surrogate"),
        ({"cmd": "x" * (CMD_MAX_BYTES + 1)}, "cmd", "65,536 bytes"),
        ({"cmd": "é" * (CMD_MAX_BYTES // 2 + 1)}, "cmd", "65,536 bytes"),
        ({"env": []}, "env", "must be an object"),
        ({"env": None}, "env", "be left out"),
        ({"env": {"1A": "x"}}, "env.1A", "no variable's name"),
        ({"env": {"": "x"}}, "env.", "no variable's name"),
        ({"env": {"A-B": "x"}}, "env.A-B", "no variable's name"),
        ({"env": {"A\n": "x"}}, "env.A\n", "no variable's name"),
        ({"env": {"A": 3}}, "env.A", 'write "3", in quotes'),
        ({"env": {"A": 1.5}}, "env.A", 'write "1.5", in quotes'),
        ({"env": {"A": True}}, "env.A", 'write "true", in quotes'),
        ({"env": {"A": None}}, "env.A", "must be a text"),
        ({"env": {"A": "\0"}}, "env.A", "NUL"),
        ({"env": {"A": "é" * 50_001}}, "env.A", "100,000 bytes"),
        ({"env": {"A": "\udfff"}}, "env.A", "surrogate"),
        ({"env": {"TASKFLOW_JOB_ID": "x"}}, "env.TASKFLOW_JOB_ID", "set by TaskFlow itself"),
        ({"cwd": "tmp"}, "cwd", "absolute path"),
        ({"cwd": ""}, "cwd", "absolute path"),
        ({"cwd": 1}, "cwd", "absolute path"),
        ({"cwd": "/a\0"}, "cwd", "NUL"),
        ({"timeout_s": 0}, "timeout_s", "above 0"),
        ({"timeout_s": -1}, "timeout_s", "above 0"),
        ({"timeout_s": True}, "timeout_s", "number of seconds"),
        ({"timeout_s": "5"}, "timeout_s", "number of seconds"),
        ({"timeout_s": None}, "timeout_s", "be left out"),
        ({"timeout_s": float("nan")}, "timeout_s", "number of seconds"),
        ({"timeout_s": float("inf")}, "timeout_s", "at most 31,536,000"),
        ({"timeout_s": MAX_TIMEOUT_S + 1}, "timeout_s", "at most 31,536,000"),
        ({"command": "ls"}, "command", "there is no such field: there are cmd, env, cwd, timeout_s"),
        ({"type": "python"}, "type", "there is no such field"),
    ],
)
def test_a_fault_of_a_shell_job_names_its_field(payload: Any, field: str, says: str) -> None:
    """One fault, where it is, with what to do about it."""
    whole = {"cmd": "ls", **payload} if payload else payload

    ((found, sentence),) = executor_faults("shell", whole)

    assert found == field
    assert says in sentence


@pytest.mark.parametrize(
    ("payload", "field", "says"),
    [
        ("mod:fn", "", "must be an object with the field callable"),
        ({}, "callable", "is required"),
        *(
            ({"callable": bad}, "callable", "package.module:function")
            for bad in ("", "mod", "mod.fn", ":fn", "mod:", "mod:fn()", "a..b:c", "a:b.", "a:b:c", "../a:b", "a b:c", 3)
        ),
        ({"args": {}}, "args", "must be an array"),
        ({"args": "ab"}, "args", "must be an array"),
        ({"kwargs": []}, "kwargs", "must be an object"),
        ({"kwargs": {"a-b": 1}}, "kwargs.a-b", "no argument's name"),
        ({"timeout_s": 0}, "timeout_s", "above 0"),
        ({"cmd": "ls"}, "cmd", "there is no such field: there are callable, args, kwargs, timeout_s"),
    ],
)
def test_a_fault_of_a_python_job_names_its_field(payload: Any, field: str, says: str) -> None:
    """One fault, where it is, with what to do about it."""
    whole = {"callable": "mod:fn", **payload} if payload and isinstance(payload, dict) else payload

    ((found, sentence),) = executor_faults("python", whole)

    assert found == field
    assert says in sentence


def test_all_faults_are_told_at_once() -> None:
    """Who sends a job need not find its faults one by one."""
    faults = executor_faults("shell", {"env": {"A": 1, "B": 2}, "cwd": "x", "y": 1})

    assert [field for field, _ in faults] == ["cmd", "env.A", "env.B", "cwd", "y"]


def test_a_denied_command_is_a_fault_of_cmd() -> None:
    """The sentence names the command and the setting."""
    ((field, sentence),) = executor_faults("shell", {"cmd": "echo a | sudo rm -rf /"}, ["rm"])

    assert field == "cmd"
    assert "uses rm, which DENYLIST_CMDS forbids" in sentence
    assert executor_faults("shell", {"cmd": "echo rm"}, ["rm"]) == []


@given(
    st.sampled_from(["shell", "python"]),
    ANYTHING | st.dictionaries(st.sampled_from(FIELDS), ANYTHING | st.dictionaries(st.text(), ANYTHING)),
)
def test_anything_is_answered(type_: str, payload: object) -> None:
    """Whatever the payload is, the answer is a list of faults, never an exception."""
    for field, sentence in executor_faults(type_, payload, ["rm"]):
        assert isinstance(field, str)
        assert sentence
