"""What a schedule runs: from words of the command line to the api's `job`, and back to words.

A job has one of two forms: flat, as POST /jobs takes it (commands and Python functions), or named, as
POST /api/v1/jobs does (handlers of `@task`).  Both have priorities and retries, and count them differently.
"""

import json
import os
import shlex
from typing import Any, Final

import typer

from taskflow.commands.options import assignment, json_or_text, json_value, variable

MOST_URGENT: Final = 10
DEFAULT_QUEUE: Final = "general"
_SHARED: Final = ("queue", "timeout_s", "ttl_s", "delay_s", "owner")  # fields that both forms have
_TARGET: Final = ("type", "cmd", "env", "cwd", "callable", "args", "kwargs", "name", "task", "payload")


def target(
    command: list[str] | None,
    env: list[str] | None,
    cwd: str | None,
    python: str | None,
    arg: list[str] | None,
    kwarg: list[str] | None,
    task: str | None,
    payload: str | None,
) -> dict[str, Any]:
    """What to run; nothing, if nothing was said about it."""
    if sum(map(bool, (command, python, task))) > 1:
        raise typer.BadParameter("give a command, --python or --task, and one of them only")
    for wanted, options, name in (
        (python, (arg, kwarg), "--arg and --kwarg go with --python"),
        (task, (payload,), "--payload goes with --task"),
        (command, (env, cwd), "--env and --cwd go with a command"),
    ):
        if not wanted and any(each is not None and each != [] for each in options):
            raise typer.BadParameter(name)
    if command:
        return _command(command, env, cwd)
    if python:
        return _function(python, arg, kwarg)
    if task:
        return {"name": task, "task": task} | ({} if payload is None else {"payload": json_value(payload)})
    return {}


def _command(command: list[str], env: list[str] | None, cwd: str | None) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "shell", "cmd": command[0] if len(command) == 1 else shlex.join(command)}
    if env:
        made["env"] = dict(map(variable, env))
    if cwd:
        made["cwd"] = os.path.abspath(cwd)
    return made


def _function(function: str, arg: list[str] | None, kwarg: list[str] | None) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "python", "callable": function}
    if arg:
        made["args"] = [json_or_text(each) for each in arg]
    if kwarg:
        named = dict(assignment(each, "argument") for each in kwarg)
        made["kwargs"] = {name: json_or_text(value) for name, value in named.items()}
    return made


def is_named(job: dict[str, Any]) -> bool:
    """Whether a job has the form of POST /api/v1/jobs."""
    return "name" in job or job.get("type") in (None, "task")


def with_rules(
    job: dict[str, Any], priority: int | None = None, retries: int | None = None, **shared: Any
) -> dict[str, Any]:
    """The job with these rules, told as its form tells them; a rule that is None is left as it is."""
    made = job | {name: value for name, value in shared.items() if value is not None}
    if not is_named(job):
        return made | {
            name: value for name, value in (("priority", priority), ("retries_max", retries)) if value is not None
        }
    made.setdefault("queue", DEFAULT_QUEUE)
    if priority is not None:
        made["priority"] = _urgency(priority)
    if retries is not None:
        made["retry_policy"] = (job.get("retry_policy") or {}) | {"max_attempts": retries + 1}
    return made


def aimed(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """A job that runs something else by the rules it had."""
    if is_named(old) == is_named(new):
        return {name: value for name, value in old.items() if name not in _TARGET} | new
    shared = {name: old.get(name) for name in _SHARED}
    if is_named(old):
        attempts = (old.get("retry_policy") or {}).get("max_attempts")
        priority = None if old.get("priority") is None else MOST_URGENT - old["priority"]
        return with_rules(new, priority, None if attempts is None else attempts - 1, **shared)
    order = old.get("priority")
    nearest = None if order is None else min(max(order, 0), MOST_URGENT - 1)
    return with_rules(new, nearest, old.get("retries_max"), **shared)


def _urgency(priority: int) -> int:
    if not 0 <= priority < MOST_URGENT:
        raise typer.BadParameter(f"a task's --priority is from 0, the most urgent, to {MOST_URGENT - 1}")
    return MOST_URGENT - priority


def told(job: dict[str, Any]) -> tuple[str, str | None]:
    """What a job does, as one would write it; and the rest of what was said about it."""
    named = is_named(job)
    fields = job.get("payload") if named and job.get("type") not in (None, "task") else job
    words = _words(job.get("type"), fields if isinstance(fields, dict) else {})
    if not words:
        words = str(job.get("task") or job.get("name") or job.get("type"))
        if job.get("payload") not in (None, {}):
            words += f" {json.dumps(job['payload'], ensure_ascii=False)}"
    shown = {*_TARGET, "queue"} - {"env", "cwd"} | ({"env", "cwd"} if named else set())
    rest = [f"{name} {_value(value)}" for name, value in job.items() if name not in shown and value is not None]
    return words, ", ".join(rest) or None


def _words(kind: object, fields: dict[str, Any]) -> str | None:
    if kind == "shell":
        return str(fields.get("cmd"))
    if kind == "python":
        given = [_value(each) for each in fields.get("args") or ()]
        given += [f"{name}={_value(each)}" for name, each in (fields.get("kwargs") or {}).items()]
        return f"{fields.get('callable')}({', '.join(given)})"
    return None


def _value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
