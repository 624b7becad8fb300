"""Tests of broker/groups/consumer/regular_expression.py."""

import pytest

from odradek.broker.groups.consumer import regular_expression
from odradek.broker.groups.consumer.regular_expression import compiled
from odradek.protocol.errors import InvalidRegularExpression

NAMES = ["orders", "orders-eu", "my-orders", "a" * 249]


def matching(expression, names):
    return set(filter(compiled(expression), names))


def test_a_name_matches_as_a_whole():
    assert matching("orders.*", NAMES) == {"orders", "orders-eu"}
    assert matching("orders", NAMES) == {"orders"}
    assert matching("nothing", NAMES) == set()


@pytest.mark.parametrize("expression", ["(a", "a**", "(?=a)", r"(a)\1", "[z-a]"])
def test_what_re2_does_not_read_is_refused(expression):
    with pytest.raises(InvalidRegularExpression, match="is no regular expression"):
        matching(expression, NAMES)


def test_time_is_linear_where_backtracking_would_take_for_ever():
    assert matching("(a+)+b", NAMES) == set()


def test_without_re2_every_expression_is_refused(monkeypatch):
    monkeypatch.setattr(regular_expression, "_library", lambda: None)
    with pytest.raises(
        InvalidRegularExpression, match=r"without RE2 .* takes no regular expressions"
    ):
        matching("a", NAMES)


def test_an_expression_that_is_too_large_for_a_set_matches_all_the_same():
    large = "|".join([*NAMES, *(f"{number}{'x' * 240}" for number in range(800))])
    assert matching(large, [*NAMES, "other"]) == set(NAMES)
