"""Jobs of type `shell`: a text for /bin/sh in a session of its own."""

import asyncio
import errno
import json
import os
import shutil
import stat
from contextlib import suppress
from functools import partial
from typing import Any

from taskflow.calling import refuse
from taskflow.executor import Failed, Kit, Outcome, Report, Succeeded, Work
from taskflow_domain import executor_faults, secret_values
from taskflow_streams import Failure
from taskflow_worker.processes import Nursery, NurseryGone, Order
from taskflow_worker.runners import ends
from taskflow_worker.runners.surroundings import environment, limits, mark

OUTPUT_BYTES = 1 << 20  # of the JSON that a job may leave as its output


class BadOutput(ValueError):
    """What a job left in $TASKFLOW_OUTPUT is not its output."""


class Shell:
    """`{"cmd", "env"?, "cwd"?, "timeout_s"?}`; the result is `{"exit_code", "output"}`."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._nursery: Nursery = kit.services["nursery"]

    async def run(self, work: Work, report: Report) -> Outcome:
        """One attempt."""
        fields = json.loads(work.payload)
        if faults := executor_faults("shell", fields, self._kit.denylist):
            return Failed(Failure("Refused", "; ".join(f"{field}: {why}" for field, why in faults)), fatal=True)
        for secret in secret_values(fields.get("env") or {}, self._kit.secret_names):
            report.redact(secret)
        folder = await self._nursery.make_folder(f"{work.job_id}-{work.fence}")
        try:
            return await self._attempt(work, fields, f"{folder}/output", report)
        finally:
            await _remove(folder)

    async def close(self) -> None:
        """The nursery is not ours."""

    async def _attempt(self, work: Work, fields: dict[str, Any], output: str, report: Report) -> Outcome:
        env = environment(self._kit, work, fields.get("env") or {}) | {"TASKFLOW_OUTPUT": output}
        argv = ("/bin/sh", "-c", fields["cmd"])
        order = Order("exec", env, argv, cwd=fields.get("cwd"), mark=mark(work), limits=limits(self._kit))
        words: list[dict[str, Any]] = []
        out, err = partial(report.write, "stdout"), partial(report.write, "stderr")
        try:
            child = await self._nursery.spawn(order, out, err, words.append)
            try:
                status = await child.wait()
            except asyncio.CancelledError:
                await child.kill(report.grace_s)
                raise
        except NurseryGone as error:
            return Failed(Failure("NotStarted", str(error)))
        if words:
            return ends.from_word(words[0]["error"])
        return _result(status, output)


def _result(status: int, output: str) -> Outcome:
    """How it exited comes first: one that was killed while it wrote its output was killed."""
    bad: BadOutput | None = None
    try:
        left = _read(output)
    except BadOutput as error:
        left, bad = b"null", error
    value = b'{"exit_code":%d,"output":%s}' % (status if status >= 0 else 128 - status, left)
    if status < 0:
        return Failed(ends.by_signal(-status).failure, value=value)
    if status:
        return Failed(Failure("ExitCode", f"it exited with {status}"), value=value)
    if bad is not None:
        return Failed(Failure("BadOutput", str(bad)), value=value)
    return Succeeded(value)


async def _remove(folder: str) -> None:
    """With what the job has left there; a thread does it if that may be much."""
    with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
        os.unlink(f"{folder}/output")
    try:
        os.rmdir(folder)
    except OSError:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _read(output: str) -> bytes:
    """The JSON that the job has left, compact; null without a file."""
    try:
        fd = os.open(output, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise BadOutput("$TASKFLOW_OUTPUT is not a plain file")
            with open(fd, "rb", closefd=False) as file:
                text = file.read(OUTPUT_BYTES + 1)
        finally:
            os.close(fd)
    except FileNotFoundError:
        return b"null"
    except OSError as error:
        plain = error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.ENOTDIR)
        why = f"cannot be read: {error.strerror}" if plain else "is not a plain file"
        raise BadOutput(f"$TASKFLOW_OUTPUT {why}") from None
    if len(text) > OUTPUT_BYTES:
        raise BadOutput(f"$TASKFLOW_OUTPUT holds more than {OUTPUT_BYTES:,} bytes")
    if not text.strip():
        return b"null"
    try:
        value = json.loads(text, parse_constant=refuse)
        compact = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (ValueError, RecursionError) as error:
        raise BadOutput(f"$TASKFLOW_OUTPUT is not JSON: {error}") from None
    if len(compact) > OUTPUT_BYTES:  # numbers can be longer so than they were written
        raise BadOutput(f"$TASKFLOW_OUTPUT holds more than {OUTPUT_BYTES:,} bytes, as it is stored")
    return compact


def make(kit: Kit) -> Shell:
    """What the entry point names."""
    return Shell(kit)
