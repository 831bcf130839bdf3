"""Bodies that are no JSON, not only JSON, or too much of it: always 400 or 413, never anything else."""

import json
from collections.abc import AsyncIterator

import pytest

from taskflow_api.settings import MIB
from tests.integration.api.door import JOBS, Door, invalid, open_door, refused

JSON = {"content-type": "application/json"}

# What is sent, a part of the message, and the fields that are blamed.
BAD: list[tuple[bytes, str, tuple[str, ...]]] = [
    (b"", "empty", ()),
    (b"  \n", "empty", ()),
    (b"{", "not valid JSON", ()),
    (b'{"name": "a",}', "line 1, column 14", ()),
    (b"{'name': 'a'}", "not valid JSON", ()),
    (b"name=a&queue=q", "not valid JSON", ()),
    (b'{"name": "a"} {}', "not valid JSON", ()),
    (b"\xef\xbb\xbf{}", "not valid JSON", ()),
    (b"null", "not null", ()),
    (b"[]", "not an array", ()),
    (b'"text"', "not a string", ()),
    (b"5", "not a number", ()),
    (b"true", "not a boolean", ()),
    (b'{"name": "\xff", "queue": "q"}', "byte 10", ()),
    (b'{"name": "\xed\xa0\x80", "queue": "q"}', "UTF-8", ()),  # a surrogate, spelt out
    ('{"name": "a", "queue": "q"}'.encode("utf-16"), "UTF-8", ()),
    (b'{"name": "a\x00", "queue": "q"}', "not valid JSON", ()),
    (b'{"name": "a\\u0000", "queue": "q"}', "NUL", ("name",)),
    (b'{"name": "\\ud800", "queue": "q"}', "surrogate", ("name",)),
    (b'{"name": "\\udc00\\ud800", "queue": "q"}', "surrogate", ("name",)),
    (b'{"name": "a", "queue": "q", "payload": {"x": [1, {"y": "\\u0000"}]}}', "NUL", ("payload.x[1].y",)),
    (b'{"name": "a", "queue": "q", "payload": {"\\ud800": 1}}', "surrogate", ("payload.\\ud800",)),
    (b'{"name": "a", "queue": "q", "\\u0000": 1}', "NUL", ("\\0",)),
    (b'{"name": "a", "queue": "q", "payload": NaN}', "NaN", ()),
    (b'{"name": "a", "queue": "q", "payload": [-Infinity]}', "-Infinity", ()),
    (b'{"name": "a", "queue": "q", "payload": 1e400}', "infinity", ("payload",)),
    (b'{"name": "a", "queue": "q", "payload": {"x": -1e400}}', "infinity", ("payload",)),
    (b'{"name": "a", "queue": "q", "priority": 1e400}', "integer", ("priority",)),
    (b'{"name": "a", "queue": "q", "timeout_s": 1e400}', "finite", ("timeout_s",)),
    (b'{"name": "a", "queue": "q", "payload": ' + b"9" * 5000 + b"}", "digits", ()),
    (b'{"name": "a", "queue": "q", "name": "b"}', "twice", ("name",)),
    (b'{"name": "a", "queue": "q", "payload": {"x": {"y": 1, "y": 1}}}', "twice", ("y",)),
    (b'{"name": "a", "queue": "q", "payload": ' + b"[" * 101 + b"]" * 101 + b"}", "100 levels", ("payload",)),
    (b'{"name": "a", "queue": "q", "payload": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "deep", ()),
    (b"[" * 100_000, "deep", ()),
]


@pytest.mark.parametrize(("raw", "words", "fields"), BAD, ids=lambda value: repr(value)[:40])
@pytest.mark.parametrize(("method", "path"), [("POST", JOBS), ("PUT", f"{JOBS}/{{job}}")])
async def test_a_bad_body_is_400_and_says_why(
    door: Door, method: str, path: str, raw: bytes, words: str, fields: tuple[str, ...]
) -> None:
    """With a message for people, and the field where there is one."""
    job = await door.create()
    response = await door.http.request(method, path.format(job=job["id"]), content=raw, headers=JSON)

    assert words in invalid(response, *fields)["message"]
    assert await door.get(job["id"]) == job


@pytest.mark.parametrize("path", [f"{JOBS}/batch", "/api/v1/queues/q"])
async def test_every_door_reads_bodies_in_the_same_way(door: Door, path: str) -> None:
    """Batches and queue settings are parsed as strictly."""
    method = "POST" if path.endswith("batch") else "PATCH"
    for raw, _, _ in BAD[:18]:
        refused(await door.http.request(method, path, content=raw, headers=JSON), 400, "VALIDATION_ERROR")


@pytest.mark.parametrize(
    "raw",
    [
        b'{"name": "\\ud83d\\ude42", "queue": "q"}',  # a whole pair
        b'{"name": "a\\\\u0000", "queue": "q"}',  # a backslash and some letters
        b'\n {"name":\t"a", "queue": "q", "payload": ' + b"[" * 100 + b"]" * 100 + b"}\r\n",
        b'{"name": "a", "queue": "q", "payload": ' + b"9" * 4300 + b"}",
    ],
)
async def test_what_only_looks_bad_is_accepted(door: Door, raw: bytes) -> None:
    """Strict is not narrow."""
    response = await door.http.post(JOBS, content=raw, headers=JSON)

    assert response.status_code == 201, response.text
    assert json.loads(response.content)["payload"] == json.loads(raw).get("payload", {})


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json"])
async def test_a_body_must_be_called_json(door: Door, kind: str | None) -> None:
    """A page of another site can send other types without asking, and none at all."""
    headers = {} if kind is None else {"content-type": kind}
    response = await door.http.post(JOBS, content=b'{"name": "a", "queue": "q"}', headers=headers)

    invalid(response, "Content-Type")


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/merge-patch+json"]
)
async def test_json_goes_by_several_names(door: Door, kind: str) -> None:
    """Parameters, capitals and suffixes are fine."""
    response = await door.http.post(JOBS, content=b'{"name": "a", "queue": "q"}', headers={"content-type": kind})

    assert response.status_code == 201


def padded(size: int) -> bytes:
    """A body of so many bytes, most of them spaces."""
    return b'{"name": "a", "queue": "q"}'.ljust(size)


async def in_chunks(raw: bytes) -> AsyncIterator[bytes]:
    """A body whose length is not told beforehand."""
    for start in range(0, len(raw), 65_536):
        yield raw[start : start + 65_536]


async def test_a_body_of_one_mebibyte_is_accepted_and_one_more_byte_is_not(door: Door) -> None:
    """Whether its length is announced or not."""
    assert (await door.http.post(JOBS, content=padded(MIB), headers=JSON)).status_code == 201
    assert (await door.http.post(JOBS, content=in_chunks(padded(MIB)), headers=JSON)).status_code == 201
    for content in (padded(MIB + 1), in_chunks(padded(MIB + 1))):
        error = refused(await door.http.post(JOBS, content=content, headers=JSON), 413, "PAYLOAD_TOO_LARGE")
        assert "1,048,576" in error["message"]


async def test_a_body_over_the_limit_is_not_read_to_its_end(door: Door) -> None:
    """Who sends without end is stopped at the limit."""
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 100 * MIB:
            sent += 65_536
            yield b" " * 65_536

    refused(await door.http.post(JOBS, content=endless(), headers=JSON), 413, "PAYLOAD_TOO_LARGE")
    assert sent <= 2 * MIB


async def test_a_batch_may_be_larger(door: Door) -> None:
    """32 MiB by default, and one byte more is too much."""
    one = b'{"jobs": [{"name": "a", "queue": "q"}]}'
    fits = await door.http.post(f"{JOBS}/batch", content=one.ljust(32 * MIB), headers=JSON)
    too_large = await door.http.post(f"{JOBS}/batch", content=one.ljust(32 * MIB + 1), headers=JSON)

    assert fits.status_code == 201
    assert "33,554,432" in refused(too_large, 413, "PAYLOAD_TOO_LARGE")["message"]


async def test_the_limits_can_be_set(door: Door) -> None:
    """For all bodies, and for batches."""
    narrow = open_door(door.store, body_limit_bytes=1024, batch_limit_bytes=2048)
    assert (await narrow.http.post(JOBS, content=padded(1024), headers=JSON)).status_code == 201
    refused(await narrow.http.post(JOBS, content=padded(1025), headers=JSON), 413, "PAYLOAD_TOO_LARGE")
    refused(await narrow.http.post(f"{JOBS}/batch", content=padded(2049), headers=JSON), 413, "PAYLOAD_TOO_LARGE")
