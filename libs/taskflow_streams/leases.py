"""How workers take jobs, keep them, and tell how they ended.  Every call carries the token: worker id and fence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from taskflow_streams.connection import Client
from taskflow_streams.errors import translated
from taskflow_streams.keys import Keys
from taskflow_streams.records import NOTE_CHARS, Chunk, Ending, Lease, Renewed, Reported, read_leases
from taskflow_streams.scripts import Scripts

GROUP = "workers"
BATCH = 500  # Redis serves nobody else while a script runs
LOG_BYTES = 1 << 20  # of each stream of an attempt are kept
Token = tuple[str, int]  # job id, fence


@dataclass(frozen=True, slots=True)
class Pool:
    """What a worker takes: from which queues (None: all, also those to come), with which handlers.

    Workers with the same pool share one bell.
    """

    handlers: frozenset[str]
    queues: tuple[tuple[str, float | None], ...] | None = None  # name and weight
    weights: tuple[tuple[str, float], ...] = ()  # of some queues, for those who take from all
    id: str = field(init=False)

    def __post_init__(self) -> None:
        text = repr((sorted(self.handlers), self.queues, *self.weights)).encode()
        object.__setattr__(self, "id", sha256(text).hexdigest()[:16])

    @property
    def wants(self) -> str:
        """The queues as `pools` holds them."""
        return "*" if self.queues is None else f",{','.join(name for name, _ in self.queues)},"

    def ask(self, worker: str, want: int) -> dict[str, Any]:
        """The question `lease` and `report` take."""
        queues: object = "*"
        if self.queues is not None:
            queues = [[name] if weight is None else [name, weight] for name, weight in self.queues]
        ask: dict[str, Any] = {"worker": worker, "pool": self.id, "queues": queues, "want": min(want, BATCH)}
        if self.weights:
            ask["weights"] = dict(self.weights)
        return ask


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker finds in its inbox: 'cancel' or 'lost' for one attempt, 'drain', 'resume', or 'wake'."""

    verb: str
    job_id: str = ""
    fence: int = 0


class Leases:
    """The leases of one partition."""

    def __init__(self, redis: Client, blocking: Client, keys: Keys, scripts: Scripts) -> None:
        self._redis = redis
        self._blocking = blocking
        self._keys = keys
        self._scripts = scripts

    async def lease(self, worker: str, pool: Pool, want: int) -> list[Lease]:
        """Take up to `want` jobs.  Not safe to repeat: after a lost reply, `resync`."""
        return read_leases(await self._scripts.run("lease", pool.ask(worker, want)))

    async def report(
        self, worker: str, endings: Sequence[Ending], pool: Pool | None = None, want: int = 0
    ) -> tuple[list[Reported], list[Lease]]:
        """Tell how attempts ended and take the next jobs in the same call.

        The endings are safe to repeat; after a lost reply with `want`, `resync`.
        """
        args: dict[str, Any] = {"worker": worker, "endings": [ending.pack() for ending in endings]}
        if any(ending.logs for ending in endings):
            args["log_bytes"] = LOG_BYTES
        if pool is not None and want > 0:
            args["ask"] = pool.ask(worker, want)
        words, leases = await self._scripts.run("report", args)
        return [Reported(word.decode()) for word in words], read_leases(leases)

    async def renew(
        self, worker: str, tokens: Sequence[Token], fields: dict[str, str | int | float] | None = None
    ) -> tuple[list[Renewed], bool]:
        """Heartbeat: keep these leases (a fence of 0: whichever is held).

        False as second value: taken for dead, `join` again.
        """
        flat = [part for pair in (fields or {}).items() for part in pair]
        words: list[Renewed] = []
        known = True
        for start in range(0, max(len(tokens), 1), BATCH):
            chunk = [list(token) for token in tokens[start : start + BATCH]]
            reply = await self._scripts.run("renew", {"worker": worker, "tokens": chunk, "fields": flat})
            words += [Renewed(word.decode()) for word in reply[0]]
            known = bool(reply[1])
        return words, known

    async def resync(self, worker: str, tokens: Sequence[Token]) -> int:
        """Give back what the worker holds but does not know of; the number of such jobs."""
        args = {"worker": worker, "tokens": [list(token) for token in tokens]}
        return int(await self._scripts.run("resync", args))

    async def wait(self, worker: str, pool: Pool | None, seconds: float) -> Order | bool:
        """Sleep until the pool's bell rings (True), an order comes, or the time is over (False).

        Without a pool for orders alone: a bell that a worker without a free slot took would wake nobody.
        """
        inbox = self._keys("inbox", worker)
        bells = [] if pool is None else [self._keys("bell", pool.id)]
        with translated():
            reply = await self._blocking.execute_command("BZPOPMIN", inbox, *bells, seconds)
        if reply is None:
            return False
        return True if reply[0].decode() in bells else _read_order(reply[1].decode())

    async def nudge(self, worker: str) -> None:
        """End the worker's `wait` with an order, 'wake', that asks for nothing."""
        await self._scripts.run("order", {"worker": worker, "what": "wake"})

    async def ring(self, pool: Pool) -> None:
        """Ring the pool's bell again: the one who took it will not look.  Nothing happens if the pool has no worker."""
        await self._scripts.run("ring", {"pool": pool.id})

    async def orders(self, worker: str) -> list[Order]:
        """Take all orders from the inbox without waiting (a worker with no free slot does not wait for the bell)."""
        with translated():
            rows = await self._redis.zpopmin(self._keys("inbox", worker), 100)
        return [_read_order(member.decode()) for member, _ in rows]

    async def log(self, worker: str, token: Token, chunks: Sequence[Chunk], max_bytes: int) -> str:
        """Add to an attempt's output: 'ok', 'full' or 'stale'."""
        return (await self.log_many(worker, [(token, chunks)], max_bytes))[0]

    async def log_many(self, worker: str, rows: Sequence[tuple[Token, Sequence[Chunk]]], max_bytes: int) -> list[str]:
        """The same for many attempts; `max_bytes` of each stream of each are kept.  With offsets safe to repeat."""
        packed = [[*token, [list(chunk) for chunk in chunks]] for token, chunks in rows]
        words = await self._scripts.run("log", {"worker": worker, "rows": packed, "max_bytes": max_bytes})
        return [word.decode() for word in words]

    async def held(self, worker: str) -> list[Token]:
        """All leases the worker has, whether it knows of them or not; at most BATCH of each queue."""
        rows = await self._scripts.run("held", {"worker": worker, "limit": BATCH})
        return [(job_id.decode(), fence) for job_id, fence in rows]

    async def renewed_ms(self, job_id: str, queue: str) -> int | None:
        """When the lease of a running job was taken or last renewed, by the server's clock; None if nobody holds it."""
        work = self._keys("work", queue)
        with translated():
            entry = await self._redis.hget(self._keys("job", job_id), "entry")
            if not entry:
                return None
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.xpending_range(work, GROUP, entry, entry, 1)
                pipe.time()
                pending, (seconds, micros) = await pipe.execute()
        if not pending:
            return None
        return int(seconds) * 1000 + int(micros) // 1000 - int(pending[0]["time_since_delivered"])

    async def progress(self, worker: str, token: Token, fraction: float, message: str = "") -> bool:
        """Say how far an attempt is; False when it is not the worker's any more."""
        args = {
            "worker": worker,
            "id": token[0],
            "fence": token[1],
            "fraction": fraction,
            "message": message[:NOTE_CHARS],
        }
        return bool(await self._scripts.run("progress", args) == b"ok")


def _read_order(text: str) -> Order:
    verb, _, rest = text.partition(":")
    job_id, _, fence = rest.partition(":")
    return Order(verb, job_id, int(fence or 0))
