"""Loads scripts/*.lua and runs them.  Nobody else sends EVAL.

Each script is its shebang, the key table, the shared prelude, the part it shares with a few others, and its own
text.  All have one convention: KEYS[1] is the partition's meta key, ARGV is the time (empty: the server's) and
one msgpack value; so is the reply.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import Any

import msgpack
from redis.exceptions import NoScriptError

from taskflow_streams.connection import Client
from taskflow_streams.errors import translated
from taskflow_streams.keys import Keys, lua_names

SHARED = {  # script -> the .inc.lua files it includes
    "lease": ("lease",),
    "report": ("lease", "log"),
    "log": ("log",),
    "join": ("pool",),
    "leave": ("pool",),
}


@cache
def source(name: str) -> tuple[str, str]:
    """The whole text of a script, and its SHA-1."""
    folder = resources.files("taskflow_streams") / "scripts"
    shebang, body = (folder / f"{name}.lua").read_text("utf-8").split("\n", 1)
    parts = [shebang, lua_names(), (folder / "_prelude.lua").read_text("utf-8")]
    parts += [(folder / f"{part}.inc.lua").read_text("utf-8") for part in SHARED.get(name, ())]
    text = "\n".join([*parts, body])
    return text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def pack(value: object) -> bytes:
    """msgpack as Lua's cmsgpack understands it: no bin type."""
    packed: bytes = msgpack.packb(value, use_bin_type=False)
    return packed


class Scripts:
    """Runs scripts on one partition."""

    def __init__(self, redis: Client, keys: Keys) -> None:
        self._redis = redis
        self._meta = keys("meta")
        self.now_ms: int | None = None  # tests set the time here; None is the server's clock

    async def run(self, name: str, args: object) -> Any:
        """Run one script and return its reply, strings as bytes."""
        text, sha = source(name)
        now = "" if self.now_ms is None else str(self.now_ms)
        packed = pack(args)
        with translated():
            try:
                reply = await self._redis.execute_command("EVALSHA", sha, 1, self._meta, now, packed)
            except NoScriptError:  # a restarted server has forgotten it; nothing was run
                reply = await self._redis.execute_command("EVAL", text, 1, self._meta, now, packed)
        return msgpack.unpackb(reply, raw=True, strict_map_key=False)
