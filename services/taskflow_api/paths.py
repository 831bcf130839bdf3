"""How paths are told apart: `/jobs/batch` is no job's path, and `/schedules/preview` no schedule's."""

from typing import Final

from starlette.convertors import Convertor, register_url_convertor

PREFIX: Final = "/api/v1"
JOB: Final = "/jobs/{job_id:job}"
WORKER: Final = "/workers/{worker_id:worker}"
PREVIEW: Final = "preview"  # no schedule can have this name
SCHEDULE: Final = "/schedules/{ref:schedule}"  # an id or a name


class _Segment(Convertor[str]):
    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


class _JobId(_Segment):
    regex = "(?!batch$)[^/]+"  # else a GET of the batch would look for a job of that name, and not be told of POST


class _WorkerId(_Segment):
    regex = "(?!register$)[^/]+"


class _Schedule(_Segment):
    regex = f"(?!{PREVIEW}$)[^/]+"


register_url_convertor("job", _JobId())
register_url_convertor("schedule", _Schedule())
register_url_convertor("worker", _WorkerId())
