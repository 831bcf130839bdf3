"""What tasks in the worker's own process print, as text or as bytes, is their jobs' output."""

from __future__ import annotations

import io
from contextvars import copy_context

from taskflow.context import Context, enter
from taskflow_worker.capture import Router


def test_text_and_bytes_go_to_the_job_that_prints_them() -> None:
    """Outside of a job they go where they went before."""
    elsewhere, heard = io.TextIOWrapper(io.BytesIO(), write_through=True), list[tuple[str, bytes]]()
    router = Router("stdout", elsewhere)

    def job() -> None:
        write = lambda stream, data: heard.append((stream, data))  # noqa: E731
        enter(Context("j", 1, 1, "q", "n", "w", None, False, None, write))
        router.write("é\n")
        assert router.buffer.write(memoryview(b"\xff\n")) == 2
        router.buffer.flush()

    copy_context().run(job)
    router.write("out ")
    router.buffer.write(b"side")

    assert heard == [("stdout", "é\n".encode()), ("stdout", b"\xff\n")]
    assert elsewhere.buffer.getvalue() == b"out side"
