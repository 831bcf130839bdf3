"""The output of jobs as text, page by page.

A character that is cut by the seam between two pieces is shown with the one that completes it, on whichever page that
is.
"""

from typing import Any, Final

from taskflow_domain import TERMINAL, iso_of_ms
from taskflow_streams import JobRecord, LogChunk, Partition, Texts, id_key

START: Final = "0-0"
DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 1000
STREAMS: Final = ("stdout", "stderr", "system")
LOG_ID_PATTERN: Final = r"^[0-9]{1,15}-[0-9]{1,15}$"
LOG_ID_SCHEMA: Final[dict[str, Any]] = {"type": "string", "pattern": LOG_ID_PATTERN}

_PIECES: Final = 100  # read at once: some megabytes at most
_MANY: Final = 1000  # the same, of one attempt's whole output, which is some megabytes at most
_ROUNDS: Final = 20  # of reading for one page; a stream that says little among much of another takes several pages
_SEEN: Final = 16  # pieces before a page in which the beginning of a cut character is looked for

Item = dict[str, Any]


def item_of(chunk: LogChunk, texts: Texts) -> Item:
    """A piece as it is shown."""
    return {
        "id": chunk.id,
        "stream": chunk.stream,
        "at": iso_of_ms(chunk.at_ms),
        "attempt": chunk.attempt,
        "text": texts.text(chunk),
    }


async def resumed(home: Partition, job_id: str, after: str) -> Texts:
    """The texts for a reader who has seen everything up to `after`."""
    return Texts() if after == START else Texts(await home.logs.up_to(job_id, after, _SEEN))


async def read_page(home: Partition, job: JobRecord, after: str, limit: int, stream: str | None = None) -> Item:
    """One page: `items`, and `next` to go on after, null when there is nothing more now."""
    texts = await resumed(home, job.id, after)
    items: list[Item] = []
    for _ in range(_ROUNDS):
        chunks = await home.logs.read(job.id, after, min(_PIECES, limit + 1))
        for chunk in chunks:
            if len(items) == limit:
                return {"items": items, "next": after}
            after = chunk.id
            item = item_of(chunk, texts)
            if stream is None or chunk.stream == stream:
                items.append(item)
        if not chunks:
            if job.status in TERMINAL:
                _finish(items, texts)
            return {"items": items, "next": None}
    return {"items": items, "next": after}


def _finish(items: list[Item], texts: Texts) -> None:
    for item in reversed(items):
        item["text"] += texts.rest(item["stream"], item["attempt"])


async def last_output(home: Partition, job: JobRecord) -> dict[str, str]:
    """`stdout` and `stderr` of the last attempt, as much as is kept of them, with a mark where the rest was cut.

    What is printed while this reads is left out: a job may print faster than anybody reads.
    """
    found = {"stdout": "", "stderr": ""}
    if not job.attempt or job.started_ms is None:
        return found
    parts: dict[str, list[str]] = {name: [] for name in found}
    texts = Texts()
    after, tip = f"{max(job.started_ms - 1, 0)}-0", await home.logs.tip(job.id)
    while tip and id_key(after) < id_key(tip) and (chunks := await home.logs.read(job.id, after, _MANY)):
        after = chunks[-1].id
        for chunk in chunks:
            if chunk.attempt != job.attempt:
                continue
            text = texts.text(chunk)
            if chunk.stream in parts:
                parts[chunk.stream].append(text)
            elif (cut := _stream_cut(text)) in parts:
                parts[cut] += [texts.rest(cut, chunk.attempt), "\n", text]
    return {name: "".join(pieces) + texts.rest(name, job.attempt) for name, pieces in parts.items()}


def _stream_cut(mark: str) -> str:
    """The stream of which a mark of the engine says that it was cut there."""
    return mark[1:].partition(" over ")[0] if mark.startswith("[") else ""


def log_id(text: str) -> str:
    """Where to go on: the id of a piece."""
    first, _, second = text.partition("-")
    if not all(part.isascii() and part.isdigit() and len(part) <= 15 for part in (first, second)):
        raise ValueError("must be the id of a piece of output, such as 1767323046001-0")
    return text
