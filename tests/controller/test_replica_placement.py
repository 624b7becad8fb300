"""Tests of controller/replica_placement.py."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.controller.replica_placement import (
    IncompleteRackInfo,
    PlacementStart,
    assign_replicas_to_brokers,
)
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidPartitions, InvalidReplicationFactor, error_for
from tests.support.placements import saved_placements

FIRST = PlacementStart(start_index=0, replica_shift=0)
NO_RACKS = dict.fromkeys(range(5))


def place_replicas(racks, *, partitions, factor, start=FIRST):
    return assign_replicas_to_brokers(
        racks, start, partition_count=partitions, replication_factor=factor
    )


def test_placements_equal_kafkas():
    for placement in saved_placements():
        assert placement.case.ours() == placement.expected, placement


def test_leaders_rotate_and_followers_shift_after_each_round():
    assert place_replicas(NO_RACKS, partitions=7, factor=3) == {
        0: (0, 1, 2),
        1: (1, 2, 3),
        2: (2, 3, 4),
        3: (3, 4, 0),
        4: (4, 0, 1),
        5: (0, 2, 3),
        6: (1, 3, 4),
    }


def test_replica_shift_does_not_depend_on_the_start_index():
    assert place_replicas(
        NO_RACKS, partitions=1, factor=2, start=PlacementStart(start_index=1, replica_shift=2)
    ) == {0: (1, 4)}


def test_leaders_alternate_between_racks():
    racks = {0: "a", 1: "a", 2: "b", 3: "c"}
    leaders = [replicas[0] for replicas in place_replicas(racks, partitions=4, factor=1).values()]
    assert leaders == [0, 2, 3, 1]


def test_racks_are_sorted_like_java_strings():
    racks = {0: "\uffff", 1: "\U0001f600"}
    assert place_replicas(racks, partitions=1, factor=1) == {0: (1,)}


@given(
    racks=st.dictionaries(st.integers(0, 30), st.sampled_from("abc"), min_size=1, max_size=9),
    partitions=st.integers(1, 30),
    seed=st.integers(0, 1000),
    shape=st.randoms(use_true_random=False),
)
def test_replicas_are_spread_over_all_racks(racks, partitions, seed, shape):
    factor = shape.randint(1, len(racks))
    start = PlacementStart.draw(Random(seed), racks)
    assignment = place_replicas(racks, partitions=partitions, factor=factor, start=start)
    for replicas in assignment.values():
        assert len(set(replicas)) == factor
        assert len({racks[broker] for broker in replicas}) == min(factor, len({*racks.values()}))
    leaders = Counter(replicas[0] for replicas in assignment.values())
    assert max(leaders.values()) - min(leaders[broker] for broker in racks) <= 1


def test_start_is_drawn_from_the_brokers():
    random = Random(7)
    starts = {PlacementStart.draw(random, NO_RACKS) for _ in range(500)}
    assert len(starts) == 25
    assert all(start.start_partition == 0 for start in starts)


@pytest.mark.parametrize("count", [0, -1])
def test_partition_count_below_one_is_rejected(count):
    with pytest.raises(InvalidPartitions):
        place_replicas(NO_RACKS, partitions=count, factor=1)


@pytest.mark.parametrize("factor", [0, -1, 6])
def test_replication_factor_without_enough_brokers_is_rejected(factor):
    with pytest.raises(InvalidReplicationFactor):
        place_replicas(NO_RACKS, partitions=1, factor=factor)


def test_brokers_with_and_without_rack_are_rejected():
    with pytest.raises(IncompleteRackInfo, match="broker 2, 3"):
        place_replicas({1: "a", 2: None, 3: None}, partitions=1, factor=1)


def test_unknown_server_error_is_not_decoded_as_incomplete_rack_info():
    unknown = error_for(ErrorCode.UNKNOWN_SERVER_ERROR.code)
    assert not isinstance(unknown, IncompleteRackInfo)
