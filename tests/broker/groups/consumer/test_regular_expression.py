"""Tests of broker/groups/consumer/regular_expression.py."""

import pytest

from odradek.broker.groups.consumer import regular_expression
from odradek.broker.groups.consumer.regular_expression import compile_regex
from odradek.protocol.errors import InvalidRegularExpression

NAMES = ["orders", "orders-eu", "my-orders", "a" * 249]


def matching(expression, names):
    return set(filter(compile_regex(expression), names))


def test_regex_matches_the_whole_topic_name():
    assert matching("orders.*", NAMES) == {"orders", "orders-eu"}
    assert matching("orders", NAMES) == {"orders"}
    assert matching("nothing", NAMES) == set()


@pytest.mark.parametrize("expression", ["(a", "a**", "(?=a)", r"(a)\1", "[z-a]"])
def test_invalid_re2_regex_is_rejected(expression):
    with pytest.raises(InvalidRegularExpression, match="is not a valid regular expression"):
        matching(expression, NAMES)


def test_matching_time_is_linear():
    assert matching("(a+)+b", NAMES) == set()


def test_every_regex_is_rejected_without_re2(monkeypatch):
    monkeypatch.setattr(regular_expression, "_load_re2", lambda: None)
    with pytest.raises(
        InvalidRegularExpression, match=r"does not support regular .* RE2 .* is not installed"
    ):
        matching("a", NAMES)


def test_regex_too_large_for_a_set_still_matches():
    large = "|".join([*NAMES, *(f"{number}{'x' * 240}" for number in range(800))])
    assert matching(large, [*NAMES, "other"]) == set(NAMES)
