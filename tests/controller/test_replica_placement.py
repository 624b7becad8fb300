"""Tests of controller/replica_placement.py."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.controller.replica_placement import RacksIncomplete, Start, placed_replicas
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidPartitions, InvalidReplicationFactor, error_for
from tests.support.placements import saved_placements

FIRST = Start(index=0, shift=0)
NO_RACKS = dict.fromkeys(range(5))


def placed(racks, *, partitions, factor, start=FIRST):
    return placed_replicas(racks, start, partitions=partitions, replication_factor=factor)


def test_replicas_are_where_kafka_has_put_them():
    for placement in saved_placements():
        assert placement.case.ours() == placement.expected, placement


def test_leaders_go_around_and_the_others_follow_at_a_growing_distance():
    assert placed(NO_RACKS, partitions=7, factor=3) == {
        0: (0, 1, 2),
        1: (1, 2, 3),
        2: (2, 3, 4),
        3: (3, 4, 0),
        4: (4, 0, 1),
        5: (0, 2, 3),
        6: (1, 3, 4),
    }


def test_the_distance_does_not_depend_on_the_first_leader():
    assert placed(NO_RACKS, partitions=1, factor=2, start=Start(index=1, shift=2)) == {0: (1, 4)}


def test_racks_take_turns():
    racks = {0: "a", 1: "a", 2: "b", 3: "c"}
    leaders = [replicas[0] for replicas in placed(racks, partitions=4, factor=1).values()]
    assert leaders == [0, 2, 3, 1]


def test_racks_are_ordered_as_java_orders_strings():
    racks = {0: "\uffff", 1: "\U0001f600"}
    assert placed(racks, partitions=1, factor=1) == {0: (1,)}


@given(
    racks=st.dictionaries(st.integers(0, 30), st.sampled_from("abc"), min_size=1, max_size=9),
    partitions=st.integers(1, 30),
    seed=st.integers(0, 1000),
    shape=st.randoms(use_true_random=False),
)
def test_no_rack_has_two_replicas_before_all_have_one(racks, partitions, seed, shape):
    factor = shape.randint(1, len(racks))
    start = Start.drawn(Random(seed), racks)
    assignment = placed(racks, partitions=partitions, factor=factor, start=start)
    for replicas in assignment.values():
        assert len(set(replicas)) == factor
        assert len({racks[broker] for broker in replicas}) == min(factor, len({*racks.values()}))
    leaders = Counter(replicas[0] for replicas in assignment.values())
    assert max(leaders.values()) - min(leaders[broker] for broker in racks) <= 1


def test_a_start_is_drawn_among_the_brokers():
    random = Random(7)
    drawn = {Start.drawn(random, NO_RACKS) for _ in range(500)}
    assert len(drawn) == 25
    assert all(start.partition == 0 for start in drawn)


@pytest.mark.parametrize("count", [0, -1])
def test_a_topic_has_partitions(count):
    with pytest.raises(InvalidPartitions):
        placed(NO_RACKS, partitions=count, factor=1)


@pytest.mark.parametrize("factor", [0, -1, 6])
def test_there_are_as_many_brokers_as_replicas(factor):
    with pytest.raises(InvalidReplicationFactor):
        placed(NO_RACKS, partitions=1, factor=factor)


def test_some_brokers_without_a_rack_are_too_few_to_go_by_racks():
    with pytest.raises(RacksIncomplete, match="broker 2, 3"):
        placed({1: "a", 2: None, 3: None}, partitions=1, factor=1)


def test_a_failure_of_another_broker_is_not_taken_for_one_of_racks():
    unknown = error_for(ErrorCode.UNKNOWN_SERVER_ERROR.code)
    assert not isinstance(unknown, RacksIncomplete)
