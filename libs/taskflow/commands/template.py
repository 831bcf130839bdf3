"""What a schedule runs: from words of the command line to the api's `job`, and back to words.

A job has one of two forms: flat, as POST /jobs takes it (commands and Python functions), or named, as
POST /api/v1/jobs does (handlers of `@task`).  Both have priorities and retries, and count them differently.
"""

import json
import os
import shlex
from collections.abc import Mapping
from typing import Any, Final

import typer

from taskflow.commands.options import assignment, json_or_text, json_value, variable

MOST_URGENT: Final = 10
QUEUE: Final = "general"
QUEUE_OF_TASKS: Final = "default"  # as `@task` has it
_ALIKE: Final = ("queue", "timeout_s", "ttl_s", "delay_s", "owner")  # fields that both forms have
_RULES: Final = (*_ALIKE, "priority", "retries_max", "retry_policy")
_TARGET: Final = ("type", "cmd", "callable", "args", "kwargs", "name", "task", "payload")


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
    for wanted, options, sentence in (
        (command, (env, cwd), "--env and --cwd go with a command"),
        (python, (arg, kwarg), "--arg and --kwarg go with --python"),
        (task, (payload,), "--payload goes with --task"),
    ):
        if not wanted and any(each not in (None, []) for each in options):
            raise typer.BadParameter(sentence)
    if command:
        return command_job(command, env, cwd)
    if python:
        return function_job(python, arg, kwarg)
    if task:
        return {"name": task, "task": task} | ({} if payload is None else {"payload": json_value(payload)})
    return {}


def command_job(command: list[str], env: list[str] | None, cwd: str | None) -> dict[str, Any]:
    """A command: arguments that stay apart, or one text for the shell."""
    made: dict[str, Any] = {"type": "shell", "cmd": command[0] if len(command) == 1 else shlex.join(command)}
    if env:
        made["env"] = dict(map(variable, env))
    if cwd:
        made["cwd"] = os.path.abspath(cwd)
    return made


def function_job(function: str, arg: list[str] | None, kwarg: list[str] | None) -> dict[str, Any]:
    """A Python function, and what to call it with."""
    named = dict(assignment(each, "argument") for each in kwarg or ())
    return {
        "type": "python",
        "callable": function,
        "args": [json_or_text(each) for each in arg or ()],
        "kwargs": {name: json_or_text(value) for name, value in named.items()},
    }


def is_named(job: Mapping[str, Any]) -> bool:
    """Whether a job has the form of POST /api/v1/jobs."""
    return "name" in job or job.get("type") in (None, "task")


def with_rules(job: Mapping[str, Any], rules: Mapping[str, Any]) -> dict[str, Any]:
    """The job with these rules, as its form tells them: `priority` (0 is the most urgent of a task's), `retries`, and
    others by the names that both forms have for them.  A None takes a rule back.
    """
    if not is_named(job):
        return _changed(job, {"retries_max" if name == "retries" else name: value for name, value in rules.items()})
    changes = {name: value for name, value in rules.items() if name in _ALIKE}
    if "priority" in rules:
        changes["priority"] = None if rules["priority"] is None else _urgency(rules["priority"])
    if "retries" in rules:
        attempts = None if rules["retries"] is None else rules["retries"] + 1
        changes["retry_policy"] = _changed(job.get("retry_policy") or {}, {"max_attempts": attempts}) or None
    return {"queue": QUEUE_OF_TASKS, **_changed(job, changes)}


def _changed(fields: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in fields.items() if name not in changes}
    return {**kept, **{name: value for name, value in changes.items() if value is not None}}


def aimed(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """A job that runs something else by the rules it had, as far as the other form can tell them."""
    if is_named(old) == is_named(new):
        return {**new, **{name: old[name] for name in _RULES if name in old}}
    rules = {name: old[name] for name in _ALIKE if name in old}
    if is_named(old):
        attempts = (old.get("retry_policy") or {}).get("max_attempts")
        rules["retries"] = None if attempts is None else attempts - 1
        rules["priority"] = None if old.get("priority") is None else MOST_URGENT - old["priority"]
    else:
        order = old.get("priority")
        rules["retries"] = old.get("retries_max")
        rules["priority"] = None if order is None else min(max(order, 0), MOST_URGENT - 1)
    return with_rules(new, rules)


def _urgency(priority: int) -> int:
    if not 0 <= priority < MOST_URGENT:
        raise typer.BadParameter(f"a task's --priority is from 0, the most urgent, to {MOST_URGENT - 1}")
    return MOST_URGENT - priority


def told(job: Mapping[str, Any]) -> tuple[str, str | None]:
    """What a job does, as one would write it; and the rest of what was said about it."""
    runs_other = is_named(job) and job.get("type") not in (None, "task")
    fields = job.get("payload") if runs_other else job
    fields = fields if isinstance(fields, Mapping) else {}
    words = _words(job.get("type"), fields)
    beside = {**fields, **job} if words else job
    if not words:
        words = str(job.get("task") or job.get("name") or job.get("type"))
        if job.get("payload") not in (None, {}):
            words += f" {_value(job['payload'])}"
    shown = (*_TARGET, "queue", "priority") if is_named(job) else (*_TARGET, "queue")
    unsaid = [f"{name} {_value(value)}" for name, value in beside.items() if name not in shown and value is not None]
    if is_named(job) and job.get("priority") is not None:
        unsaid.append(f"-p {MOST_URGENT - job['priority']}")  # which counts from the other end
    return words, ", ".join(unsaid) or None


def _words(kind: object, fields: Mapping[str, Any]) -> str | None:
    if kind == "shell":
        return str(fields.get("cmd"))
    if kind == "python":
        given = [_value(each) for each in fields.get("args") or ()]
        given += [f"{name}={_value(each)}" for name, each in (fields.get("kwargs") or {}).items()]
        return f"{fields.get('callable')}({', '.join(given)})"
    return None


def _value(value: object) -> str:
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    return json.dumps(value, ensure_ascii=False)
