"""Tests of controller/topic_names.py."""

from random import Random

import pytest

from odradek.controller.topic_names import (
    RESERVED_IDS,
    check_topic_name,
    is_topic_name,
    may_collide,
    metric_name,
    random_topic_id,
)
from odradek.protocol.errors import InvalidTopic
from odradek.protocol.types import Uuid


@pytest.mark.parametrize("name", ["t", "...", "A-b_c.9", "__consumer_offsets", "x" * 249])
def test_letters_digits_dots_underscores_and_hyphens_make_a_name(name):
    assert is_topic_name(name)
    check_topic_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a b", "a/b", "\u00e9", "a\n", "\u0660", "x" * 250]
)
def test_other_names_are_refused(name):
    assert not is_topic_name(name)
    with pytest.raises(InvalidTopic):
        check_topic_name(name)


def test_names_that_differ_in_dots_and_underscores_are_the_same_in_metrics():
    assert may_collide("a.b")
    assert may_collide("a_b")
    assert not may_collide("a-b")
    assert metric_name("a.b_c") == metric_name("a_b.c")


class Drawn(Random):
    """A source of chosen bits."""

    def __init__(self, *numbers):
        super().__init__(0)
        self._numbers = list(numbers)

    def getrandbits(self, _):
        return self._numbers.pop(0)


def test_an_id_is_a_random_uuid():
    topic_id = random_topic_id(Random(1))
    assert topic_id[6] >> 4 == 4
    assert topic_id[8] >> 6 == 0b10
    assert topic_id != random_topic_id(Random(2))


def test_no_id_begins_with_a_hyphen():
    with_hyphen, without = 0b111110 << 122, 1 << 122
    assert str(random_topic_id(Drawn(with_hyphen, without))).startswith("B")


def test_reserved_ids_are_those_of_kafka():
    assert {
        Uuid.parse("AAAAAAAAAAAAAAAAAAAAAA"),
        Uuid.parse("AAAAAAAAAAAAAAAAAAAAAQ"),
    } == RESERVED_IDS
