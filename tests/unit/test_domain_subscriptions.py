"""The queues a worker subscribes to: S2 §6."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskflow_domain import Subscriptions, parse_subscriptions


@pytest.mark.parametrize(
    ("text", "queues", "every"),
    [
        ("default", (("default", None),), False),
        ("a,b", (("a", None), ("b", None)), False),
        ("critical=6,default=3", (("critical", 6.0), ("default", 3.0)), False),
        (" a = 0.5 , b-c.d_E ", (("a", 0.5), ("b-c.d_E", None)), False),
        ("*", (), True),
        ("critical=6,*", (("critical", 6.0),), True),
        ("*,low=0.1", (("low", 0.1),), True),
        ("a=1000", (("a", 1000.0),), False),
        ("x" * 64, (("x" * 64, None),), False),
    ],
)
def test_subscriptions_are_names_weights_and_a_star(
    text: str, queues: tuple[tuple[str, float | None], ...], every: bool
) -> None:
    """Names in their order, with weights where given; the star means all queues."""
    assert parse_subscriptions(text) == Subscriptions(queues, every)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "without a queue"),
        (" ", "without a queue"),
        ("a,", "without a queue"),
        ("a,,b", "without a queue"),
        ("=3", "without a queue"),
        ("a,b,a", "a is named twice"),
        ("a=1,a=2", "a is named twice"),
        ("*,*", "\\* is named twice"),
        ("*=3", "has no weight"),
        ("a b", "no queue's name"),
        ("a/b", "no queue's name"),
        ("é", "no queue's name"),
        ("high*", "no queue's name"),
        ("x" * 65, "no queue's name"),
        ("a=", "weight of a"),
        ("a=0", "weight of a"),
        ("a=-1", "weight of a"),
        ("a=1000.1", "weight of a"),
        ("a=nan", "weight of a"),
        ("a=inf", "weight of a"),
        ("a=1e2", "weight of a"),
        ("a=1=2", "weight of a"),
        ("a=٣", "weight of a"),
    ],
)
def test_anything_else_is_refused_with_a_sentence(text: str, says: str) -> None:
    """The sentence names the part that is wrong."""
    with pytest.raises(ValueError, match=says):
        parse_subscriptions(text)


def test_a_queue_is_in_what_names_it_or_all() -> None:
    """`in` asks whether jobs of a queue are taken."""
    assert "a" in parse_subscriptions("a,b=2")
    assert "c" not in parse_subscriptions("a,b=2")
    assert "c" in parse_subscriptions("a,*")


@given(st.text(alphabet="ab*=,.0123456789 -") | st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    """Nothing but ValueError is raised, and nothing empty is accepted."""
    try:
        subscriptions = parse_subscriptions(text)
    except ValueError:
        return
    assert subscriptions.all or subscriptions.queues
