"""From a body to the definition of a schedule, with everything that is wrong told at once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError

from taskflow_api.build import work_of
from taskflow_api.errors import Detail, Invalid
from taskflow_api.faults import faults
from taskflow_api.fields import ms
from taskflow_api.parse import printable
from taskflow_api.present import compact
from taskflow_api.s2_build import flat_work, pack_fields, read_flat
from taskflow_api.schedule_bodies import FLAT, NOT_IN_TEMPLATE, TIMING, CreateSchedule, ScheduledJob, ScheduledOther
from taskflow_api.settings import ApiSettings
from taskflow_domain import Schedule
from taskflow_streams import Definition, NewJob

PLACE: Final = "job"
NOT_SAID: Final = ("paused", "reason", "name")  # they are not part of the definition


def read_schedule(
    raw: Mapping[str, Any], settings: ApiSettings, kept: NewJob | None = None
) -> tuple[CreateSchedule, NewJob]:
    """The body and the job it makes again and again; `Invalid` with everything that is wrong.

    `kept` is the job if it was read before: it stays what it is, whatever the rules for new ones are by now.
    """
    found: list[Detail] = []
    body: CreateSchedule | None = None
    template = kept
    try:
        body = CreateSchedule.model_validate(raw)
    except ValidationError as error:
        found += faults(error)
    if all(raw.get(name) is None for name in TIMING):
        found.append(Detail("cron", "give a cron expression, or interval_s"))
    if "job" in raw and kept is None:
        try:
            template = read_template(raw["job"], settings)
        except Invalid as error:
            found += error.details or [Detail(PLACE, error.message)]
    if body is None or template is None or found:
        raise Invalid.of(found)
    return body, replace(template, owner=raw["job"].get("owner") or body.owner)


def define(body: CreateSchedule, raw: Mapping[str, Any], template: NewJob, old: Schedule) -> Definition:
    """The definition; `old` gives what stays for ever: id, anchor, partition.  `raw` is kept to be shown."""
    schedule = Schedule(
        id=old.id,
        anchor_ms=old.anchor_ms,
        partition=old.partition,
        cron=body.cron,
        interval_ms=ms(body.interval_s),
        zone=body.timezone,
        start_ms=body.start_at,
        end_ms=body.end_at,
        jitter_ms=ms(body.jitter_s) or 0,
        overlap=body.overlap,
        catchup_limit=body.catchup_limit,
        catchup_window_ms=ms(body.catchup_window_s),
        max_runs=body.max_runs,
    )
    said = {name: value for name, value in raw.items() if name not in NOT_SAID and value is not None}
    return Definition(schedule, template, compact(said), body.owner)


def refuse_without_times(schedule: Schedule, after_ms: int) -> None:
    """A schedule that could never fire is a mistake."""
    if schedule.rhythm.next_after_ms(after_ms) is None:
        timing = "interval_s" if schedule.cron is None else "cron"
        field = "end_at" if schedule.end_ms is not None else timing
        raise Invalid.field(
            field, "there is no time left at which it would fire; choose other times, or a later end_at"
        )


def read_template(raw: object, settings: ApiSettings) -> NewJob:
    """A job without an id and times; `Invalid` with everything that is wrong."""
    if not isinstance(raw, dict):
        raise Invalid.field(PLACE, 'must be an object, such as {"type": "shell", "cmd": "echo hello"}')
    unfit = [
        Detail(f"{PLACE}.{name}", "a schedule says that for each of its runs; leave it out")
        for name in NOT_IN_TEMPLATE
        if raw.get(name) not in (None, [])
    ]
    rest = {name: value for name, value in raw.items() if name not in NOT_IN_TEMPLATE}
    try:
        template = _flat(rest, settings) if _is_flat(raw) else _named(rest, settings.denylist_cmds)
    except Invalid as error:
        raise Invalid.of([*unfit, *(error.details or [Detail(PLACE, error.message)])]) from None
    if unfit:
        raise Invalid.of(unfit)
    return template


def _is_flat(raw: Mapping[str, Any]) -> bool:
    return "name" not in raw and raw.get("type") not in (None, "task")


def _named(raw: Mapping[str, Any], denylist: Sequence[str]) -> NewJob:
    try:
        body = ScheduledJob.model_validate(raw)
    except ValidationError as error:
        raise Invalid.of(faults(error, (PLACE,))) from None
    work = work_of(body, body.name, denylist, (PLACE,))
    return NewJob(id="", queue=body.queue, delay_ms=ms(body.delay_s), ttl_ms=ms(body.ttl_s), **work)


def _flat(raw: Mapping[str, Any], settings: ApiSettings) -> NewJob:
    try:
        body, type_, fields = read_flat(raw, settings.denylist_cmds, FLAT, ScheduledOther)
        payload = pack_fields(fields)
    except Invalid as error:
        found = [Detail(f"{PLACE}.{printable(one.field)}", one.message) for one in error.details]
        raise Invalid.of(found or [Detail(PLACE, error.message)]) from None
    delay_s: float | None = getattr(body, "delay_s", None)
    ttl_s: float | None = getattr(body, "ttl_s", None)
    work = flat_work(body, type_, fields, payload, settings.retry_max_default)
    return NewJob(id="", delay_ms=ms(delay_s), ttl_ms=ms(ttl_s), **work)
