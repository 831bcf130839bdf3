"""How long a process that ended stays away."""

from taskflow.supervisor.backoff import FIRST_S, LONGEST_S, STEADY_S, Backoff


def test_a_process_that_ends_again_and_again_waits_longer_each_time() -> None:
    """Twice as long after each end, up to a limit, however often it happens."""
    backoff = Backoff()

    pauses = [backoff.after(lived_s=0) for _ in range(2000)]

    assert pauses[:4] == [FIRST_S, FIRST_S * 2, FIRST_S * 4, FIRST_S * 8]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_S


def test_a_steady_life_is_a_new_beginning() -> None:
    """What ran well for a while is restarted as if it had never failed."""
    backoff = Backoff()
    for _ in range(10):
        backoff.after(lived_s=0)

    assert backoff.after(lived_s=STEADY_S) == FIRST_S
    assert backoff.after(lived_s=0) == FIRST_S * 2
