"""Tests of controller/topic_names.py."""

from random import Random

import pytest

from odradek.controller.topic_names import (
    RESERVED_TOPIC_IDS,
    check_topic_name,
    has_collision_chars,
    is_valid_topic_name,
    random_topic_id,
    unify_collision_chars,
)
from odradek.protocol.errors import InvalidTopic
from odradek.protocol.types import Uuid


@pytest.mark.parametrize("name", ["t", "...", "A-b_c.9", "__consumer_offsets", "x" * 249])
def test_valid_names_are_accepted(name):
    assert is_valid_topic_name(name)
    check_topic_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a b", "a/b", "\u00e9", "a\n", "\u0660", "x" * 250]
)
def test_invalid_names_are_rejected(name):
    assert not is_valid_topic_name(name)
    with pytest.raises(InvalidTopic):
        check_topic_name(name)


def test_names_that_differ_only_in_dots_and_underscores_collide():
    assert has_collision_chars("a.b")
    assert has_collision_chars("a_b")
    assert not has_collision_chars("a-b")
    assert unify_collision_chars("a.b_c") == unify_collision_chars("a_b.c")


class FixedRandom(Random):
    """A random generator that returns the given numbers."""

    def __init__(self, *numbers):
        super().__init__(0)
        self._numbers = list(numbers)

    def getrandbits(self, _):
        return self._numbers.pop(0)


def test_topic_id_is_a_random_version_4_uuid():
    topic_id = random_topic_id(Random(1))
    assert topic_id[6] >> 4 == 4
    assert topic_id[8] >> 6 == 0b10
    assert topic_id != random_topic_id(Random(2))


def test_topic_id_does_not_start_with_a_hyphen():
    with_hyphen, without = 0b111110 << 122, 1 << 122
    assert str(random_topic_id(FixedRandom(with_hyphen, without))).startswith("B")


def test_reserved_topic_ids_equal_kafkas():
    assert {
        Uuid.parse("AAAAAAAAAAAAAAAAAAAAAA"),
        Uuid.parse("AAAAAAAAAAAAAAAAAAAAAQ"),
    } == RESERVED_TOPIC_IDS
