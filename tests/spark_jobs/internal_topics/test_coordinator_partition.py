"""``find_coordinator_partition``: the partition with all records of a group."""

import pytest

from odradek.spark_jobs.internal_topics.coordinator_partition import find_coordinator_partition


@pytest.mark.parametrize(
    ("present", "partition_count", "expected"),
    [
        (range(50), None, 14),
        (range(7), None, 4),
        ([0], None, 0),
        ([0, 1, 3], None, None),  # partition 2 is missing
        ([1], None, None),
        ([0, 1, 3], 50, 14),
        ([], None, None),
    ],
)
def test_hash_of_the_group_id_selects_the_partition(present, partition_count, expected):
    """The hash of zzzzzz is -685785664; Kafka clears its sign bit."""
    assert find_coordinator_partition("zzzzzz", present, partition_count) == expected
