"""The REST API as commands use it: a call returns JSON, and what goes wrong is a sentence that says what to do."""

import ipaddress
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, repeat
from typing import Any, Final, Self
from urllib.parse import quote, urlsplit
from uuid import uuid4

import httpx

from taskflow.commands.errors import CommandFailed
from taskflow.commands.where import find_api

TIMEOUT_S: Final = 30.0
SILENCE_S: Final = 45.0  # a stream says something every 15 s, if only that it lives
JSON: Final = {"Content-Type": "application/json"}
V1: Final = "/api/v1"
PATIENCE_S: Final = 20.0  # from the first answer that was lost
PAUSES_S: Final = (0.1, 0.3, 1.0, 2.0)


class Unreachable(CommandFailed):
    """Nothing answered, or the connection broke; the same call may succeed later."""


class Nobody(Unreachable):
    """Nothing answered, so that nothing can have been done."""


class Unavailable(CommandFailed):
    """The api says that it cannot answer now."""


class Refused(CommandFailed):
    """The api says no; `status` is the answer's."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


class Api:
    """A connection to the api.  Use it with `with`."""

    def __init__(self, url: str | None = None, token: str | None = None) -> None:
        self.url, self._token = find_api(url, token)
        if self._token and not (self._token.isascii() and self._token.isprintable()):
            raise CommandFailed("The token has characters that no token can have; give another with --token.")
        self._client = httpx.Client(
            base_url=_checked(self.url),
            headers={"Authorization": f"Bearer {self._token}"} if self._token else {},
            timeout=TIMEOUT_S,
            trust_env=not _is_local(self.url),  # no proxy leads to this machine
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, path: str, **query: object) -> Any:
        """What is there."""
        return self._call("GET", path, query=query)

    def post(self, path: str, body: object = None) -> Any:
        """Do something."""
        return self._call("POST", path, body=body)

    def create(self, path: str, body: Mapping[str, object]) -> Any:
        """Make something, and once: a request whose answer was lost is sent again with the same key."""
        headers = {} if "idempotency_key" in body else {"Idempotency-Key": f"cli-{uuid4()}"}
        return self._insist("POST", path, body, headers)

    def put(self, path: str, body: Mapping[str, object]) -> Any:
        """Make something, or change it, so that it is as told; sent again when the answer was lost."""
        return self._insist("PUT", path, body, {})

    def delete(self, path: str) -> None:
        """Remove something."""
        self._call("DELETE", path)

    def _insist(self, method: str, path: str, body: object, headers: Mapping[str, str]) -> Any:
        pauses = chain(PAUSES_S, repeat(PAUSES_S[-1]))
        lost_at: float | None = None
        while True:
            try:
                return self._call(method, path, body=body, headers=headers)
            except Unreachable as failure:
                now = time.monotonic()
                if lost_at is None and isinstance(failure, Nobody):
                    raise
                lost_at = now if lost_at is None else lost_at
                if now - lost_at > PATIENCE_S:
                    raise
            time.sleep(next(pauses))

    def patch(self, path: str, body: object) -> Any:
        """Change something."""
        return self._call("PATCH", path, body=body)

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str]) -> Iterator[Iterator[bytes]]:
        """The bytes of an answer that goes on, as they come."""
        wanted = {"Accept": "text/event-stream", **headers}
        timeout = httpx.Timeout(TIMEOUT_S, read=SILENCE_S)
        with self._sentences(), self._client.stream("GET", path, headers=wanted, timeout=timeout) as response:
            if response.status_code != 200:
                response.read()
                raise self._refusal(response)
            if "text/event-stream" not in response.headers.get("Content-Type", ""):
                raise self._not_taskflow()
            yield response.iter_bytes()

    def field(self, answer: Any, name: str) -> str:
        """A text that every answer of its sort has."""
        value = answer.get(name) if isinstance(answer, dict) else None
        if not isinstance(value, str):
            raise self._not_taskflow()
        return value

    def items(self, answer: Any) -> list[dict[str, Any]]:
        """The list in an answer that is one."""
        found = answer.get("items") if isinstance(answer, dict) else None
        if not isinstance(found, list):
            raise self._not_taskflow()
        return found

    def _call(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        params = {name: str(value) for name, value in (query or {}).items() if value is not None}
        content = None if body is None else json.dumps(body, allow_nan=False).encode()
        with self._sentences():
            response = self._client.request(
                method,
                path,
                params=params or None,
                content=content,
                headers={**(JSON if content else {}), **(headers or {})},
            )
            if not response.is_success:
                raise self._refusal(response)
            return None if response.status_code == 204 else self._json(response)

    def _json(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except ValueError:
            raise self._not_taskflow() from None

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            yield
        except httpx.ConnectError:
            raise Nobody(
                f"Nothing answers at {self.url}; start it with `taskflow up`, or name another with --api."
            ) from None
        except httpx.TimeoutException:
            raise Unreachable(f"The api at {self.url} takes too long to answer; try again.") from None
        except httpx.TransportError as error:
            raise Unreachable(f"The connection to {self.url} broke ({_first_line(error)}); try again.") from None
        except (httpx.InvalidURL, httpx.DecodingError) as error:
            raise CommandFailed(f"{self.url} cannot be used ({_first_line(error)}); name another with --api.") from None

    def _refusal(self, response: httpx.Response) -> CommandFailed:
        status = response.status_code
        if status == 401 and self._token:
            return CommandFailed(f"The api at {self.url} refused the token; give another with --token.")
        if status == 401:
            return CommandFailed(
                f"The api at {self.url} asks for a token; give it with --token, or set TASKFLOW_API_TOKEN."
            )
        try:
            error = response.json()["error"]
            message, details = _harmless(error["message"]), _harmless(_details(error))
        except (ValueError, KeyError, TypeError):
            return self._not_taskflow(status)
        if status in (429, 503):
            pause_s = response.headers.get("Retry-After", "")
            when = f"in {pause_s} s" if pause_s.isdigit() else "later"
            return Unavailable(f"{_sentence(message)[:-1]}; try again {when}.")
        return Refused(_sentence(details or message), status)

    def _not_taskflow(self, status: int | None = None) -> CommandFailed:
        how = f" (status {status})" if status else ""
        return CommandFailed(f"What answers at {self.url} is no TaskFlow api{how}; name another with --api.")


def job_path(job_id: str, door: str = V1) -> str:
    """The address of a job."""
    return f"{door}/jobs/{segment(job_id)}"


def segment(name: str) -> str:
    """A name as a part of an address, whatever is in it."""
    return quote(name, safe="").replace(".", "%2E")  # `..` would be another place


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise CommandFailed(f"{url!r} is no address of an api; write it like http://127.0.0.1:8000.")
    return url


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _details(error: Mapping[str, Any]) -> str:
    """All faults, if there is more than the one that the message tells."""
    details = error.get("details") or []
    if len(details) < 2:
        return ""
    return "; ".join(f"{each['field']}: {each['message']}" if each["field"] else each["message"] for each in details)


def _harmless(text: object) -> str:
    from taskflow.commands.render import harmless

    return harmless(str(text))


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?")) else f"{text}."


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
