"""What time does to jobs: promote what is due, expire what never started, end lost leases, forget what is old."""

from __future__ import annotations

from taskflow_streams.leases import BATCH
from taskflow_streams.scripts import Scripts


class Upkeep:
    """The upkeep of one partition; every step is safe to repeat and to run in several places at once."""

    def __init__(self, scripts: Scripts, claim_ttl_ms: int) -> None:
        self._scripts = scripts
        self._claim_ttl_ms = claim_ttl_ms

    async def promote(self, limit: int = BATCH) -> tuple[int, int | None]:
        """Move due jobs into their lanes: how many, and the ms until the next is due (None: none is delayed)."""
        promoted, wait_ms = await self._scripts.run("promote", {"limit": limit})
        return int(promoted), None if wait_ms is False else int(wait_ms)

    async def expire(self, limit: int = BATCH) -> int:
        """End jobs whose time to start has passed; how many."""
        expired, _ = await self._scripts.run("expire", {"limit": limit})
        return int(expired)

    async def reap(
        self, *queues: str, visibility_ms: int, by_ms: int | None = None, limit: int = BATCH
    ) -> tuple[int, int]:
        """End leases not renewed for that long: how many, and how many of those jobs failed for good.

        A call that the server gets to only after `by_ms` (its own clock) does nothing.
        """
        args: dict[str, object] = {"queues": list(queues), "visibility_ms": visibility_ms, "limit": limit}
        if by_ms is not None:
            args["by_ms"] = by_ms
        reaped, failed = await self._scripts.run("reap", args)
        return int(reaped), int(failed)

    async def retire(
        self, before_ms: int, max_count: int | None = None, max_bytes: int | None = None, limit: int = BATCH
    ) -> tuple[int, int]:
        """Remove the oldest ended jobs, by age, count and bytes: how many, and how many are still waited for."""
        over = {name: n for name, n in (("count", max_count), ("bytes", max_bytes)) if n is not None}
        args = {"before_ms": before_ms, "limit": limit, "keep_key_ms": self._claim_ttl_ms, "over": over}
        removed, kept = await self._scripts.run("retire", args)
        return int(removed), int(kept)

    async def trim_events(self, before_ms: int, max_bytes: int, chunk: int = 100_000) -> int:
        """Shorten the history by age and bytes, never past what the projector has applied; how many events went."""
        args = {"before_ms": before_ms, "max_bytes": max_bytes, "chunk": chunk}
        return int(await self._scripts.run("trim", args))
