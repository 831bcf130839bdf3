"""Functions of users who mean no good, or know no better: what Python jobs of the tests call."""

import asyncio
import ctypes
import logging
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from taskflow import current


def leave(status: int) -> None:
    """Without a word."""
    os._exit(status)


def segfault() -> None:
    """Touch what is nobody's."""
    ctypes.string_at(0)


def ask_to_exit(status: Any) -> None:
    """As scripts do."""
    sys.exit(status)


def interrupt() -> None:
    """As Ctrl-C does."""
    raise KeyboardInterrupt


class Bare(BaseException):
    """Nobody expects it."""


class Mute(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def raise_bare() -> None:
    """Beside Exception."""
    raise Bare("unexpected")


def raise_mute() -> None:
    """What happened?"""
    raise Mute


def raise_huge() -> None:
    """A message of 50 MB, out of a deep stack."""

    def deeper(left: int) -> None:
        if left == 0:
            raise ValueError("x" * 50_000_000)
        deeper(left - 1)

    deeper(500)


def recurse() -> int:
    """For ever."""
    return recurse() + 1


def give(what: str) -> Any:
    """Things that are no result, or a large one."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    return {
        "nan": float("nan"), "set": {1}, "bytes": b"x", "large": "x" * 2_000_000, "self": give, "deep": deep,
        "surrogate": "\ud800", "keys": {(1, 2): 3},
    }[what]  # fmt: skip


def leave_threads() -> str:
    """That never end, and are no daemons."""
    for _ in range(3):
        threading.Thread(target=time.sleep, args=(300,)).start()
    return "done"


def fork_and_return() -> str:
    """Both come back; the child is the quicker."""
    if os.fork() == 0:
        return "the child"
    time.sleep(0.5)
    return "the parent"


def linger(where: str) -> int:
    """Return, and then refuse to leave."""
    os._exit = lambda status: time.sleep(300)  # type: ignore[assignment,return-value]
    Path(where).write_text(str(os.getpid()))
    return 1


def write_binary() -> None:
    """Past the text, without a flush."""
    sys.stdout.buffer.write(b"\xff\x00\xfe")
    sys.stdout.write("text")


def close_streams() -> str:
    """And go on."""
    os.close(1)
    os.close(2)
    return "done"


def close_objects() -> str:
    """The other way to do it."""
    sys.stdout.close()
    sys.stderr.close()
    return "done"


def replace_streams() -> str:
    """Give them away."""
    print("before")  # noqa: T201
    sys.stdout = None
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    return "done"


def close_everything() -> str:
    """As daemons do."""
    os.closerange(0, 256)
    return "done"


def babble_on_the_line() -> str:
    """Write to the descriptor that only we should use: a length of 4 GB, and then that much."""
    os.write(3, b"\xff\xff\xff\xff")
    for _ in range(200):
        os.write(3, b"x" * 65536)
    return "done"


def lie_on_the_line(packed_hex: str) -> None:
    """Say something in our name."""
    packed = bytes.fromhex(packed_hex)
    os.write(3, len(packed).to_bytes(4, "big") + packed)
    time.sleep(0.2)


async def generate() -> AsyncIterator[int]:
    """No result at all."""
    yield 1


async def leave_tasks() -> str:
    """One that nobody waits for, which does not want to end."""

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(300)
            except asyncio.CancelledError:
                print("canceled")  # noqa: T201
                raise

    kept = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    return str(kept.done())


class Called:
    """An object that can be called."""

    def __call__(self, n: int) -> int:
        return n + 1


called = Called()
not_callable = 7


def log_all() -> None:
    """At each level."""
    logger = logging.getLogger("hostile")
    for level in ("debug", "info", "warning", "error", "critical"):
        getattr(logger, level)("at %s", level)
    try:
        raise ValueError("inner")
    except ValueError:
        logger.exception("with traceback")


def use_processes() -> list[int]:
    """Of its own."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(abs, [-1, -2, -3])


def eat_memory() -> int:
    """All that there is."""
    eaten = []
    while True:
        eaten.append(bytearray(10_000_000))


def burn() -> None:
    """CPU time."""
    while True:
        pass


def burn_deaf() -> None:
    """The same, and hear no signal that can be ignored."""
    for number in (signal.SIGXCPU, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    burn()


def stop_self() -> str:
    """For somebody to wake us, which nobody will."""
    os.kill(os.getpid(), signal.SIGSTOP)
    return "woken"


def limits() -> dict[str, int]:
    """What may be used."""
    return {
        "cpu_s": resource.getrlimit(resource.RLIMIT_CPU)[0],
        "memory_bytes": resource.getrlimit(resource.RLIMIT_AS)[0],
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "nice": os.nice(0),
    }


def progress_flood() -> str:
    """Say how far we are 50,000 times, at length."""
    for number in range(50_000):
        current().progress(number / 50_000, "x" * 10_000)
    return "done"


def write_to_nobody() -> str:
    """Into a pipe that has no other end."""
    read, write = os.pipe()
    os.close(read)
    try:
        os.write(write, b"x")
    except OSError as error:
        return type(error).__name__
    return "written"


def daemonize() -> int:
    """Twice forked, in a session of its own, holding the output open; its pid."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        pid = os.fork()
        if pid == 0:
            time.sleep(300)
        os.write(write, str(pid).encode())
        os._exit(0)
    return int(os.read(read, 100))


def surroundings() -> dict[str, Any]:
    """What can be seen from here."""
    return {
        "env": dict(os.environ), "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd")), "argv": sys.argv,
        "session": os.getsid(0) == os.getpid(), "umask": os.umask(0o22), "threads": threading.active_count(),
    }  # fmt: skip
