"""One stack per data directory, and how others find it."""

import dataclasses
from pathlib import Path

import pytest

from taskflow.commands.errors import CommandFailed
from taskflow.supervisor.claim import STATE_FILE, Claim, Running, find_running

RUNNING = Running(4711, "http://127.0.0.1:8000", "unix:///x", ready=False, health_urls={"api": "http://x"})


def test_a_second_claim_is_told_who_holds_the_first(tmp_path: Path) -> None:
    """It fails with a sentence that names the process and its address."""
    with Claim(tmp_path) as claim:
        claim.publish(RUNNING)

        with pytest.raises(CommandFailed, match=r"already runs .*pid 4711, http://127\.0\.0\.1:8000"), Claim(tmp_path):
            pass


def test_a_claim_ends_with_its_owner(tmp_path: Path) -> None:
    """The next one gets the directory, and finds no old news in it."""
    with Claim(tmp_path) as claim:
        claim.publish(RUNNING)

    assert not (tmp_path / STATE_FILE).exists()
    with Claim(tmp_path):
        assert find_running(tmp_path) is None


def test_what_runs_is_found_through_its_directory(tmp_path: Path) -> None:
    """The latest word counts."""
    with Claim(tmp_path) as claim:
        claim.publish(RUNNING)
        claim.publish(dataclasses.replace(RUNNING, ready=True))

        assert find_running(tmp_path) == dataclasses.replace(RUNNING, ready=True)


def test_the_word_of_one_who_was_killed_does_not_count(tmp_path: Path) -> None:
    """A file without the lock behind it is history."""
    with Claim(tmp_path) as claim:
        claim.publish(RUNNING)
        left_behind = (tmp_path / STATE_FILE).read_text()
    (tmp_path / STATE_FILE).write_text(left_behind)

    assert find_running(tmp_path) is None
    with Claim(tmp_path):
        assert find_running(tmp_path) is None


def test_nothing_runs_where_nothing_ever_ran(tmp_path: Path) -> None:
    """Not even a directory is needed to say so."""
    assert find_running(tmp_path / "nowhere") is None


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """A file in its place, for instance."""
    (tmp_path / "file").write_text("")

    with pytest.raises(CommandFailed, match="--data-dir"), Claim(tmp_path / "file"):
        pass


def test_the_urls_are_for_the_owner_alone(tmp_path: Path) -> None:
    """The broker's URL may hold a password."""
    with Claim(tmp_path) as claim:
        claim.publish(RUNNING)

        assert (tmp_path / STATE_FILE).stat().st_mode & 0o077 == 0
