"""How the paths of jobs are told apart: `/jobs/batch` is no job's path."""

from typing import Final

from starlette.convertors import Convertor, register_url_convertor

PREFIX: Final = "/api/v1"
JOB: Final = "/jobs/{job_id:job}"


class _JobId(Convertor[str]):
    regex = "(?!batch$)[^/]+"  # else a GET of the batch would look for a job of that name, and not be told of POST

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("job", _JobId())
