"""Groups outlive a change of brokers, from Apache Kafka to ours and back, in one log of theirs.

Each finds the offsets with all that was said of them, the members and their assignments, and lets
the members go on under their ids.  What one deleted the other does not find.
"""

import pytest

from odradek.protocol.api_keys import ApiKey
from tests.interop.both_kinds import BothKinds
from tests.support.group_members import described
from tests.support.group_wire import WireMember, committed_line, find_coordinator
from tests.support.partition_client import create_topic
from tests.support.wire_client import WireClient, call

GROUP_SESSION_MS = 300_000
OTHERS = ("first", "second", "third", "fourth")
TURNS = ("kafka", "odradek", "kafka", "odradek")


class Turns:
    """A member that is not told of the brokers, of which one runs at a time."""

    def __init__(self, directory, address):
        self.brokers = BothKinds(directory, address, group_initial_rebalance_delay_ms="0")
        self.address = self.brokers.address

    def prepare(self):
        create_topic(self.address, "t", partitions=1)
        find_coordinator(self.address)
        self.member = WireMember(self.address, "g", instance="one")
        assert self.member.join(session_ms=GROUP_SESSION_MS) == "NONE"
        assert self.member.sync() == ("NONE", self.member.id.encode())
        self.member.client.close()

    def play(self, turn):
        """What the last broker left is there, and more is left for the next."""
        member, name = self.member, OTHERS[turn]
        member.client = WireClient(self.address)
        if turn:
            assert committed_line(self.address, "g", "t") == (
                turn - 1,
                f"turn {turn - 1}",
                turn - 1,
            )
            assert committed_line(self.address, OTHERS[turn - 1], "t")[0] == 10 + turn - 1
        assert member.heartbeat() == "NONE"
        assert member.sync() == ("NONE", self.assignment)
        assert member.commit("t", turn, metadata=f"turn {turn}", epoch=turn) == "NONE"
        member.client.close()
        with WireMember(self.address, name) as outside:
            assert outside.commit("t", 10 + turn) == "NONE"
        if turn > 1:
            answer = call(self.address, ApiKey.DELETE_GROUPS, 2, groups_names=[OTHERS[turn - 2]])
            assert answer.results[0].error_code == 0, answer
        for gone in OTHERS[: max(turn - 1, 0)]:
            assert committed_line(self.address, gone, "t")[0] == -1

    def come_back(self):
        """The static member has lost its id, and has its assignment all the same."""
        self.member.client = WireClient(self.address)
        self.member.id = ""
        assert self.member.join(session_ms=GROUP_SESSION_MS) == "NONE"
        assert self.member.sync() == ("NONE", self.assignment)
        self.member.client.close()


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_groups_outlive_brokers_of_both_kinds(zookeeper, kafka_39_jars, tmp_path, ending):
    turns = Turns(tmp_path, f"{zookeeper.address}/groups-{ending}")
    shown = None
    for turn, name in turns.brokers.in_turns(TURNS, ending=ending):
        if turn == 0:
            turns.prepare()
            turns.assignment = turns.member.id.encode()
        find_coordinator(turns.address)
        if shown is not None:
            assert described(turns.address, "g") == shown, name
        turns.play(turn)
        turns.come_back()
        shown = described(turns.address, "g")
    turns.brokers.check_logs()
