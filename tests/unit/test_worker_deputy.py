"""The deputy sees what the worker holds, and stands in for its heart only while the worker computes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from taskflow_worker.deputy import Charge, Deputy, Watch, cpu_ticks
from taskflow_worker.ledger import Ledger

JOB, OTHER = "01a1eeb1-6ed4-7000-800c-18d857f57d08", "01a1eeb1-6ed4-7001-800c-18d857f57d08"
SPIN = "print(flush=True)\nwhile True: pass"
DEADLINE_S = 30.0


def test_what_is_held_is_seen_through_the_other_end() -> None:
    """All of it, with partition and fence, and nothing that was let go; rows are used again."""
    mine = Ledger(2)
    theirs = Ledger.of(os.dup(mine.fd), mine.rows)

    mine.add(0, (JOB, 7))
    mine.add(3, (OTHER, 2**40))
    assert sorted(theirs.held()) == [(0, (JOB, 7)), (3, (OTHER, 2**40))]

    mine.add(0, (JOB, 8))  # there is no room: it is left to the heart alone
    mine.remove(0, (JOB, 7))
    assert list(theirs.held()) == [(3, (OTHER, 2**40))]

    mine.remove(0, (JOB, 7))
    mine.add(1, (JOB, 9))
    assert sorted(theirs.held()) == [(1, (JOB, 9)), (3, (OTHER, 2**40))]


def test_the_silence_of_the_heart_is_seen() -> None:
    """By the clock that all processes share."""
    mine = Ledger(1)
    theirs = Ledger.of(os.dup(mine.fd), mine.rows)

    mine.touch()
    assert 0 <= theirs.silence_s() < 10


def test_only_a_late_heart_of_a_worker_that_computes_is_stood_in_for() -> None:
    """Not for one in time, nor for one that stands still; and it takes two looks to see that something moves."""
    watch = Watch(late_s=6)

    looks = [(1, 100), (5.9, 150), (6.1, 160), (7, 170), (8, 170), (9, 171), (0.5, 200), (7, 300), (8, 310)]
    assert [watch.starved(*look) for look in looks] == [
        False, False, False, True, False, True, False, False, True,
    ]  # fmt: skip


def test_a_stopped_process_computes_nothing() -> None:
    """Which is how one that is frozen differs from one that is busy."""
    with subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE) as busy:
        try:
            assert busy.stdout is not None
            busy.stdout.readline()
            start, deadline = cpu_ticks(busy.pid), time.monotonic() + DEADLINE_S
            while cpu_ticks(busy.pid) == start:
                assert time.monotonic() < deadline, "it does not compute"
            busy.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, busy.pid, os.WSTOPPED | os.WNOWAIT)
            frozen = cpu_ticks(busy.pid)
            time.sleep(0.1)
            assert cpu_ticks(busy.pid) == frozen
        finally:
            busy.kill()


def test_a_deputy_that_died_is_replaced_and_ends_when_told() -> None:
    """But not again and again in one moment."""
    ledger = Ledger(1)
    deputy = Deputy(Charge("w", "redis://127.0.0.1:1/0", "tf", 60.0, ledger.rows), ledger)
    deputy.ensure()
    first = deputy._process
    assert first is not None
    try:
        first.kill()
        first.wait()
        deputy.ensure()
        assert deputy._process is first
        deputy._started_at = -1e9
        deputy.ensure()
        second = deputy._process
        assert second is not None
        assert (second.pid, second.poll()) != (first.pid, None)
        assert second.poll() is None
    finally:
        deputy.close()
    assert second.returncode is not None
