"""What an attempt writes is bounded, in order, hidden where it must be, and shipped once."""

from __future__ import annotations

from taskflow_streams import LOG_BYTES
from taskflow_worker.output import APART, BURST, CHUNK_BYTES, STEADY_PER_S, Discretion, Output


def an_output(*patterns: str) -> Output:
    """Output of an attempt that nobody listens to."""
    return Output(("job", 1), lambda _: None, lambda *_: None, discretion=Discretion(patterns))


def test_neighbours_of_one_stream_travel_together() -> None:
    """Chunks know how many bytes of their stream came before."""
    output = an_output()
    for stream, data in (("stdout", b"a"), ("stdout", b"b"), ("stderr", b"x"), ("stdout", b"c")):
        output.write(stream, data)  # type: ignore[arg-type]

    assert output.take() == [("stdout", b"ab", 0), ("stderr", b"x", 0), ("stdout", b"c", 2)]


def test_a_long_piece_is_cut_into_chunks() -> None:
    """So that a log can be paged through."""
    output = an_output()
    output.write("stdout", b"x" * (2 * CHUNK_BYTES + 1))

    assert [(len(data), offset) for _, data, offset in output.take()] == [
        (CHUNK_BYTES, 0), (CHUNK_BYTES, CHUNK_BYTES), (1, 2 * CHUNK_BYTES),
    ]  # fmt: skip


def test_output_without_end_takes_no_memory_without_end() -> None:
    """One byte more than is kept, by which the server sees that something was cut; each stream for itself."""
    output = an_output()
    for _ in range(100):
        output.write("stdout", b"x" * 100_000)
    output.write("stderr", b"still heard")

    chunks = output.take()

    assert sum(len(data) for stream, data, _ in chunks if stream == "stdout") == LOG_BYTES + 1
    assert chunks[-1] == ("stderr", b"still heard", 0)


def test_what_did_not_arrive_is_first_in_line_again() -> None:
    """In its old place, before what came meanwhile."""
    output = an_output()
    output.write("stdout", b"one ")
    taken = output.take()
    output.write("stdout", b"two")

    output.shipped(back=taken)

    assert b"".join(data for _, data, _ in output.take_rest()) == b"one two"


def test_the_last_word_waits_for_output_on_its_way() -> None:
    """An ending that overtook it would make it stale."""
    output = an_output()
    said: list[str] = []
    output.write("stdout", b"x")
    output.take()

    output.when_shipped(lambda: said.append("ended"))
    assert said == []
    output.shipped()

    assert said == ["ended"]


def test_secrets_are_hidden_also_across_writes() -> None:
    """Half of one is held back until it is known what it is; at the end it is given."""
    output = an_output(r"key-\d+")
    output.redact("hunter22")
    output.write("stdout", b"my hunt")
    output.write("stdout", b"er22 and key-1")
    output.write("stdout", b"23\nhunt")

    assert b"".join(data for _, data, _ in output.take_rest()) == b"my *** and ***\nhunt"


def test_many_small_pieces_of_two_streams_are_joined() -> None:
    """The first keep their order; then each stream has one place, and not a byte is lost or moved within it."""
    output = an_output()
    for number in range(1000):
        output.write("stdout" if number % 2 else "stderr", b"%d " % number)

    chunks = output.take()

    assert len(chunks) == APART
    for stream, first in (("stderr", 0), ("stdout", 1)):
        whole = b""
        for _, data, offset in (chunk for chunk in chunks if chunk[0] == stream):
            assert offset == len(whole)
            whole += data
        assert whole == b"".join(b"%d " % number for number in range(first, 1000, 2))


def test_who_ships_without_end_waits_in_between() -> None:
    """A burst at once, then so many a second; who rests may ship again."""
    output = an_output()
    now_s, shipped = 100.0, 0
    for _ in range(10_000):
        now_s += 0.004
        output.write("stdout", b"x")
        if output.may_ship(now_s):
            shipped += len(output.take())

    assert abs(shipped - (BURST + 40 * STEADY_PER_S)) < 10
    assert output.may_ship(now_s + 1)
