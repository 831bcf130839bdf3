"""Logs: one JSON object a line, with the same fields everywhere, and nothing that stops the caller."""

import io
import logging
import re
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from taskflow_runtime import logs
from taskflow_runtime.masking import mask
from taskflow_runtime.slim_structlog import structlog


@pytest.fixture
def out() -> Iterator[io.BytesIO]:
    """Where the lines go; logging is as before afterwards."""
    root, before = logging.getLogger(), logging.getLogger().handlers[:]
    level = root.level
    yield io.BytesIO()
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def lines(out: io.BytesIO) -> list[dict[str, Any]]:
    """What was logged."""
    return [orjson.loads(line) for line in out.getvalue().splitlines()]


def test_a_line_has_the_agreed_fields_in_order(out: io.BytesIO) -> None:
    """ts, level, component and event, then what the call added."""
    logs.configure("reaper", out=out)

    logs.get_log().info("job.reclaimed", attempt=2)

    (line,) = lines(out)
    assert list(line) == ["ts", "level", "component", "event", "attempt"]
    assert line | {"ts": ""} == {
        "ts": "",
        "level": "info",
        "component": "reaper",
        "event": "job.reclaimed",
        "attempt": 2,
    }


def test_time_is_utc_in_milliseconds_at_fixed_width() -> None:
    """As everywhere else in TaskFlow."""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", logs.now())


def test_job_and_worker_are_there_when_they_are_bound(out: io.BytesIO) -> None:
    """Who works for a job binds it once; every line below tells it, the standard library's too."""
    logs.configure("worker", out=out)
    logs.bind(worker_id="w1")

    logs.get_log(job_id="j1").info("job.started")
    logging.getLogger("somebody.else").warning("hello %s", "there")

    ours, theirs = lines(out)
    assert list(ours) == ["ts", "level", "component", "job_id", "worker_id", "event"]
    assert theirs["event"] == "hello there"
    assert theirs["logger"] == "somebody.else"
    assert theirs["worker_id"] == "w1"


def test_an_exception_is_one_field(out: io.BytesIO) -> None:
    """A traceback never spreads over lines that no machine can put together again."""
    logs.configure("api", out=out)

    try:
        raise ValueError("broken")
    except ValueError:
        logs.get_log().exception("step.failed")
        logging.getLogger("theirs").exception("also failed")

    for line in lines(out):
        assert line["exception"]["type"] == "ValueError"
        assert line["exception"]["message"] == "broken"
        assert "test_runtime_logs.py" in line["exception"]["stack"]


def test_levels_below_the_wanted_one_are_silent(out: io.BytesIO) -> None:
    """For ours and for the standard library's; uvicorn's chatter counts as debug."""
    logs.configure("api", level="info", out=out)

    logs.get_log().debug("a")
    logging.getLogger("any").debug("b")
    logging.getLogger("uvicorn.error").info("Started server process")
    logging.getLogger("uvicorn.error").warning("c")

    assert [line["event"] for line in lines(out)] == ["c"]


@pytest.mark.parametrize("value", [2**80, "\ud800", {1, 2}, object, float("nan"), {1: "one", b"x": 2}])
def test_any_value_can_be_logged(out: io.BytesIO, value: object) -> None:
    """A log line about a strange value must not become a failure of its own."""
    logs.configure("api", out=out)

    logs.get_log().info("odd", value=value)

    assert lines(out)[0]["event"] == "odd"


def test_a_reader_that_went_away_stops_nobody() -> None:
    """A closed pipe loses the line, not the service."""

    class Closed(io.BytesIO):
        def write(self, _data: object) -> int:
            raise BrokenPipeError

    logs.configure("api", out=Closed())
    try:
        logs.get_log().info("lost")
    finally:
        structlog.reset_defaults()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://:pw@host:6379/0", "redis://:***@host:6379/0"),
        ("at rediss://me:p@ss/w@host, then", "at rediss://me:***@host, then"),
        ("unix:///run/redis.sock?password=pw&db=1", "unix:///run/redis.sock?password=***&db=1"),
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("http://127.0.0.1:8000/a@b", "http://127.0.0.1:8000/a@b"),
        ("no url, a@b.c", "no url, a@b.c"),
    ],
)
def test_passwords_in_urls_are_masked(out: io.BytesIO, text: str, shown: str) -> None:
    """Wherever in a line they stand."""
    assert mask(text) == shown

    logs.configure("api", out=out)
    logs.get_log().info(text, url=text)

    assert (lines(out)[0]["event"], lines(out)[0]["url"]) == (shown, shown)


def test_people_get_lines_for_people(out: io.BytesIO, monkeypatch: pytest.MonkeyPatch) -> None:
    """pretty, or a terminal: no JSON; in colour only where colour is understood."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    logs.configure("api", log_format="pretty", out=out)
    logs.get_log().info("service.started", broker="redis://:pw@h/0")
    assert b"service.started" in out.getvalue()
    assert b"component=api" in out.getvalue()
    assert b":***@h" in out.getvalue()
    assert b"\x1b[" not in out.getvalue()

    out.isatty = lambda: True  # type: ignore[method-assign]
    logs.configure("api", out=out)
    logs.get_log().info("in.colour")
    assert b"\x1b[" in out.getvalue()
