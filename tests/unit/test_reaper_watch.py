"""A reaper judges only what it has watched."""

from __future__ import annotations

import pytest

from taskflow_reaper.watch import Watch


def test_a_watch_grows_with_uninterrupted_ticks() -> None:
    """The time watched is that since the first tick of an unbroken series."""
    watch = Watch(longest_gap_s=3)

    assert [watch.tick(now, now) for now in (100.0, 101.0, 103.5)] == [0.0, 1.0, 3.5]


def test_a_gap_starts_the_watch_again() -> None:
    """A frozen machine or a long pause counts as not watched."""
    watch = Watch(longest_gap_s=3)
    watch.tick(100.0, 100.0)
    watch.tick(102.0, 102.0)

    assert watch.tick(106.0, 106.0) == 0.0
    assert watch.tick(107.0, 107.0) == 1.0


def test_an_error_starts_the_watch_again() -> None:
    """After an outage nothing is judged before a whole new watch."""
    watch = Watch(longest_gap_s=3)
    watch.tick(100.0, 100.0)
    watch.tick(101.0, 101.0)

    watch.interrupt()

    assert watch.tick(101.5, 101.5) == 0.0


@pytest.mark.parametrize("jump_s", [60.0, -60.0])
def test_a_jump_of_the_servers_clock_starts_the_watch_again(jump_s: float) -> None:
    """Idle time is measured by that clock: leases look older, or younger, than they are."""
    watch = Watch(longest_gap_s=3)
    watch.tick(100.0, 5000.0)
    assert watch.tick(101.0, 5001.0) == 1.0

    assert watch.tick(102.0, 5002.0 + jump_s) == 0.0
    assert watch.tick(103.0, 5003.5 + jump_s) == 1.0
