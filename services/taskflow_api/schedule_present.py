"""Schedules as the api shows them: what was said, how far they are, and sentences that explain it."""

import json
from contextlib import suppress
from typing import Any, Final
from zoneinfo import ZoneInfo

import orjson
from starlette.responses import Response

from taskflow_api.paths import PREFIX
from taskflow_api.present import answer, compact, iso
from taskflow_domain import Note, Origin, Over, Overlap, Schedule, What, Why, datetime_of_ms, iso_of_ms
from taskflow_streams import Line, ScheduleRecord

_WHY: Final[dict[str, str]] = {
    Why.CATCHUP_LIMIT: "more were missed than `catchup_limit` makes up for",
    Why.CATCHUP_WINDOW: "missed longer ago than `catchup_window_s`",
    Why.PAUSED: "the schedule was paused",
    Why.UPDATED: "the schedule was changed before it was fired",
    Why.OVERLAP: "a run was still active",
    Why.BUFFER_FULL: "a run was still active, and enough others waited for its end",
    Why.SUPERSEDED: "a later one took its place",
    Why.CANCELED: "the schedule was cancelled",
    Why.RAN_BEFORE: "this time has run before",
}
_OVER: Final[dict[str, str]] = {
    Over.END: "there is no further time at which it would fire",
    Over.MAX_RUNS: "it has had all its runs",
    Over.CANCELED: "it was cancelled",
}


STATUSES: Final = ("active", "paused", "ended")


def status_of(record: ScheduleRecord) -> str:
    """In one word."""
    if record.progress.is_done:
        return "ended"
    return "paused" if record.progress.pause is not None else "active"


def schedule_fields(record: ScheduleRecord) -> dict[str, Any]:
    """All that is shown of a schedule."""
    schedule, progress = record.schedule, record.progress
    return {
        "id": record.id,
        "name": record.name,
        "cron": schedule.cron,
        "interval_s": _seconds(schedule.interval_ms),
        "timezone": schedule.zone,
        "start_at": iso(schedule.start_ms),
        "end_at": iso(schedule.end_ms),
        "jitter_s": schedule.jitter_ms / 1000,
        "overlap": schedule.overlap,
        "catchup_limit": schedule.catchup_limit,
        "catchup_window_s": _seconds(schedule.catchup_window_ms),
        "max_runs": schedule.max_runs,
        "owner": record.definition.owner,
        "job": orjson.Fragment(compact(json.loads(record.definition.body).get("job"))),
        "status": status_of(record),
        "message": explain(record),
        "paused": progress.pause is not None,
        "reason": progress.pause.reason if progress.pause else None,
        "next_at": iso(next_ms(record)),
        "next_local": local(schedule, next_ms(record)),
        "last_at": iso(progress.last_ms),
        "last_job_id": progress.last_run,
        "runs": progress.runs,
        "waiting": len(progress.waiting),
        "created_at": iso_of_ms(record.created_ms),
        "updated_at": iso_of_ms(record.updated_ms),
    }


def show_schedule(record: ScheduleRecord, status: int = 200) -> Response:
    """The response that is one schedule; a new one says where it is found."""
    return answer(schedule_fields(record), status, schedule_place(record.id) if status == 201 else None)


def schedule_place(schedule_id: str) -> dict[str, str]:
    """The header that says where a schedule is found."""
    return {"Location": f"{PREFIX}/schedules/{schedule_id}"}


def next_ms(record: ScheduleRecord) -> int | None:
    """When it fires next; None while it rests."""
    return None if record.progress.pause is not None else record.progress.next_ms


def explain(record: ScheduleRecord) -> str:
    """Why it is as it is, and what comes next."""
    progress = record.progress
    if progress.is_done and progress.over is not None:
        return f"It fires no more: {_OVER[progress.over]}."
    waiting = f"  {_count(len(progress.waiting), 'fire')} for a run to end." if progress.waiting else ""
    if progress.backfills:
        waiting += "  A backfill is under way."
    if progress.pause is not None:
        why = f": {progress.pause.reason}" if progress.pause.reason else ""
        return f"Paused since {iso_of_ms(progress.pause.since_ms)}{why}.{waiting}"
    if progress.next_ms is None:
        return f"It has no further time of its own.{waiting}"
    later = progress.due_ms is not None and progress.due_ms != progress.next_ms
    jitter = f", with its jitter at {local(record.schedule, progress.due_ms)}" if later else ""
    return f"It fires next at {local(record.schedule, progress.next_ms)}{jitter}.{waiting}"


def local(schedule: Schedule, ms: int | None) -> str | None:
    """A time on the clocks of the schedule's zone, with their offset."""
    if ms is None:
        return None
    try:
        zone = ZoneInfo(schedule.zone)
    except (ValueError, OSError, LookupError):  # it was abolished since
        zone = ZoneInfo("UTC")
    moment = datetime_of_ms(ms)
    with suppress(OverflowError):  # there it is the year 10000 already
        moment = moment.astimezone(zone)
    return moment.isoformat(timespec="milliseconds")


def line_fields(line: Line) -> dict[str, Any]:
    """A line of a schedule's history."""
    note = line.note
    return {
        "id": line.id,
        "at": iso_of_ms(line.at_ms),
        "what": note.what,
        "fire_at": iso(note.fire_ms),
        "origin": note.origin,
        "why": note.why,
        "job_id": note.run,
        "until": iso(note.last_ms),
        "count": note.count if note.fire_ms is not None else None,
        "message": tell(note, line.at_ms),
    }


def tell(note: Note, at_ms: int) -> str:
    """A line of history as a sentence."""
    match note.what:
        case What.FIRED:
            return f"Started job {note.run}{_asked(note.origin)}{_late(note, at_ms)}."
        case What.BUFFERED:
            if note.why == Overlap.CANCEL_PREVIOUS and note.run:
                return f"Cancels job {note.run}, and follows it{_asked(note.origin)}."
            return f"Waits for job {note.run} to end{_asked(note.origin)}." if note.run else "Waits for a run to end."
        case What.SKIPPED:
            which = (
                "" if note.count == 1 else f"{'More than 1,000' if note.count is None else f'{note.count:,}'} times: "
            )
            return f"Skipped{_asked(note.origin)}; {which}{reason_of(note)}."
        case What.PAUSED:
            return f"Paused: {note.why}." if note.why else "Paused."
        case What.ENDED:
            return f"Ended: {_OVER.get(note.why or '', note.why)}."
        case _:
            return f"{note.what.capitalize()}."


def reason_of(note: Note) -> str:
    """Why a fire was skipped, and which run was in its way."""
    beside = f" (job {note.run})" if note.run and note.why in (Why.OVERLAP, Why.BUFFER_FULL, Why.RAN_BEFORE) else ""
    return f"{_WHY.get(note.why or '', note.why)}{beside}"


def _asked(origin: Origin | None) -> str:
    return {Origin.TRIGGER: ", as somebody asked", Origin.BACKFILL: ", as a backfill asked"}.get(
        origin or Origin.SCHEDULE, ""
    )


def _late(note: Note, at_ms: int) -> str:
    if note.origin is not Origin.SCHEDULE or note.fire_ms is None or at_ms - note.fire_ms < 10_000:
        return ""
    return f", {(at_ms - note.fire_ms) // 1000:,} s after its time"


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun} waits" if number == 1 else f"{number:,} {noun}s wait"
