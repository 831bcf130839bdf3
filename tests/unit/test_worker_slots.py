"""Slots are never given twice, are shared by those who want them, and nobody waits for ever."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from taskflow_worker.slots import CHUNK, Slots


@dataclass(eq=False)
class Desk:
    """Who takes slots."""

    using: int = 0
    hungry: bool = True
    told: int = 0

    def slot_freed(self) -> None:
        self.told += 1


def shared(total: int, desks: int) -> tuple[Slots, list[Desk]]:
    """So many slots among so many desks, all hungry."""
    slots, takers = Slots(total), [Desk() for _ in range(desks)]
    slots.share_among(takers)
    return slots, takers


def test_one_desk_takes_all_slots_a_chunk_at_a_time() -> None:
    """With one partition there is nobody to share with."""
    slots, [desk] = shared(CHUNK + 30, 1)

    assert [slots.reserve(desk) for _ in range(3)] == [CHUNK, 30, 0]

    slots.give_back(desk, 7)
    assert (slots.free, desk.using, desk.told) == (7, CHUNK + 23, 1)


def test_hungry_desks_get_equal_shares() -> None:
    """Who comes first does not take what the others want too."""
    slots, [a, b, c] = shared(7, 3)

    assert [slots.reserve(desk) for desk in (a, b, c)] == [3, 3, 1]


def test_what_others_do_not_want_is_free_to_take() -> None:
    """An idle partition holds nothing back."""
    slots, [a, b] = shared(8, 2)
    b.hungry = False

    assert slots.reserve(a) == 8


def test_who_had_more_than_its_share_waits_until_it_has_less() -> None:
    """A partition that took all slots while it was alone makes room when another has work."""
    slots, [a, b] = shared(4, 2)
    b.hungry = False
    assert slots.reserve(a) == 4
    b.hungry = True
    assert slots.reserve(b) == 0

    slots.give_back(a)

    assert slots.reserve(a) == 0
    assert slots.reserve(b) == 1


def test_with_fewer_slots_than_desks_the_longest_wait_comes_first() -> None:
    """One slot goes round."""
    slots, desks = shared(1, 3)
    served: list[int] = []

    for turn in range(9):
        for place, desk in enumerate(desks):
            if slots.reserve(desk):
                served.append(place)
        slots.give_back(desks[served[turn]])

    assert sorted(served) == [0] * 3 + [1] * 3 + [2] * 3


def test_no_more_jobs_are_taken_than_shall_be() -> None:
    """Counted over all desks; what was asked for in vain may be asked for again."""
    slots, desks = Slots(10, most=12), [Desk(), Desk()]
    slots.share_among(desks)
    a, b = desks

    assert (slots.reserve(a), slots.reserve(b)) == (5, 5)
    slots.fill(a, 5, 5)
    slots.fill(b, 5, 1)
    assert (slots.taken, slots.free, b.using) == (6, 4, 1)
    slots.give_back(a, 5)

    assert (slots.reserve(a), slots.reserve(b)) == (5, 1)
    assert not slots.spent
    slots.fill(a, 5, 5)
    slots.fill(b, 1, 1)
    assert slots.spent
    slots.give_back(b, 2)
    assert slots.reserve(b) == 0


@given(st.integers(1, 50), st.integers(1, 6))
def test_all_slots_find_a_desk_that_wants_them(total: int, desks: int) -> None:
    """None stays empty while somebody is hungry."""
    slots, takers = shared(total, desks)

    for _ in range(2):
        for taker in takers:
            slots.reserve(taker)

    assert slots.free == 0


class AnyOrder(RuleBasedStateMachine):
    """Desks come, get hungry and full, and give back, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.slots, self.desks = shared(5, 3)

    @rule(place=st.integers(0, 2))
    def reserve(self, place: int) -> None:
        """Ask for slots."""
        self.slots.reserve(self.desks[place])

    @rule(place=st.integers(0, 2), hungry=st.booleans())
    def change(self, place: int, hungry: bool) -> None:
        """Have work, or none."""
        self.desks[place].hungry = hungry

    @rule(place=st.integers(0, 2), count=st.integers(1, 5))
    def give_back(self, place: int, count: int) -> None:
        """Free some of one's own."""
        desk = self.desks[place]
        if desk.using:
            self.slots.give_back(desk, min(count, desk.using))

    @invariant()
    def adds_up(self) -> None:
        """Free and used are all there are."""
        assert self.slots.free >= 0
        assert self.slots.free + sum(desk.using for desk in self.desks) == 5


TestAnyOrder = AnyOrder.TestCase
