"""The partition that has all records of a group, as far as that can be told."""

import pytest

from odradek.spark_jobs.contents.home_partition import home_partition


@pytest.mark.parametrize(
    ("present", "partition_count", "home"),
    [
        (range(50), None, 14),
        (range(7), None, 4),
        ([0], None, 0),
        ([0, 1, 3], None, None),  # some are somewhere else
        ([1], None, None),
        ([0, 1, 3], 50, 14),
        ([], None, None),
    ],
)
def test_the_hash_of_the_name_leads_to_it(present, partition_count, home):
    """The hash of zzzzzz is -685785664; Kafka takes it without its sign."""
    assert home_partition("zzzzzz", present, partition_count) == home
