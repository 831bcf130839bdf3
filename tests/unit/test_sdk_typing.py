"""A type checker knows a task's arguments and its result."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".mypy_cache" / "sdk"  # kept, for it takes half a minute to fill

PROGRAM = """
from taskflow import AsyncClient, Client, RetryPolicy, configure, task

@task
def add(a: int, b: int = 0) -> int:
    return a + b

@task(name="mail.send", queue="mail", retry_policy=RetryPolicy(max_attempts=5), timeout_s=30)
async def send(to: str, *, urgent: bool = False) -> list[str]:
    return [to]

@task
def order(self: int, task: str, client: str = "") -> None: ...

client = Client()

reveal_type(add(1, 2))                                   # int
reveal_type(add.delay(1).result())                       # int
reveal_type(add.options(priority=9).delay(1))            # taskflow.handle.Handle[int]
reveal_type(client.enqueue(add, 1, b=2).result(5))       # int
reveal_type(client.options(queue="x").enqueue(send, "a").result())  # list[str]
reveal_type(client.bulk(add, [(1, 2)]))                  # list[taskflow.handle.Handle[int]]
reveal_type(client.shell("true").result())               # dict[str, Any]
reveal_type(send.delay("a", urgent=True).result())       # list[str]

async def asynchronous(client: AsyncClient) -> None:
    reveal_type(await send("a"))                         # list[str]
    handle = await client.enqueue(send, "a", urgent=True)
    reveal_type(await handle.result())                   # list[str]
    reveal_type(await handle.progress())                 # taskflow.job.Progress | None

order.delay(self=1, task="x", client="y")
order.options(priority=9).delay(task="x", self=1)
client.enqueue(order, self=1, task="x")
order.prepare(1, task="x")
order(self=1, task="x")
order.delay(self=1, task=2)              # E: arg-type

add("1")                                 # E: arg-type
add.delay("1")                           # E: arg-type
add.delay()                              # E: call-arg
add.delay(1, c=2)                        # E: call-arg
add.options(color="red")                 # E: call-arg
add.options(priority="high")             # E: typeddict-item|arg-type
send.delay("a", True)                    # E: call-arg|misc
client.enqueue(add, 1, 2, 3)             # E: call-arg|arg-type
client.enqueue(add, "1")                 # E: arg-type
client.enqueue(print, 1)                 # E: arg-type
add.options(after=[add.delay(1), "id"]).delay(2)
configure(url=1)                         # E: arg-type
"""


def test_mypy_knows_what_a_task_takes_and_gives(tmp_path: Path) -> None:
    """What it reveals, and which calls it refuses, line by line."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file=", str(path)]
    done = subprocess.run([*command, f"--cache-dir={CACHE}"], cwd=tmp_path, capture_output=True, text=True, check=False)
    said: dict[int, str] = {}
    for line in done.stdout.splitlines():
        number, words = re.match(r".*?program.py:(\d+): (.*)", line).groups()  # type: ignore[union-attr]
        said[int(number)] = said.get(int(number), "") + words

    for number, line in enumerate(PROGRAM.splitlines(), 1):
        code, _, expected = line.partition("#")
        if "reveal_type" in code:
            assert f'Revealed type is "{expected.strip()}"' in said.pop(number, "").replace("builtins.", ""), line
        elif "E:" in expected:
            found = said.pop(number, "")
            assert re.search(rf"error: .*\[({expected.partition('E:')[2].strip()})\]", found), f"{line}: {found}"
    assert said == {}, done.stdout + done.stderr
