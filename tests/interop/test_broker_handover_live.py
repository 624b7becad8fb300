"""A broker of ours goes on where Apache Kafka's left off, on its ZooKeeper and its log directory.

And the other way round, and back again: each finds all records, topics and settings, and appends;
groups outlive it as well.
"""

import pytest

from tests.interop.handover import Handover
from tests.interop.handover_groups import HandedGroups
from tests.interop.handover_records import HandedRecords


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_brokers_of_both_kinds_take_turns_on_one_directory_and_tree(
    zookeeper, kafka_39_jars, tmp_path, ending
):
    with Handover(tmp_path, f"{zookeeper.address}/handover-{ending}") as handover:
        records, groups = HandedRecords(handover.address), HandedGroups(handover.address)
        for turn, _ in handover.turns(ending):
            if turn == 0:
                records.prepare()
                groups.prepare()
            # A kill may come before it is written down how far records were deleted.
            records.play(turn, is_start_kept=ending == "stop")
            groups.play(turn)
