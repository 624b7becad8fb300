"""Transactions outlive a change of brokers, from Apache Kafka to ours and back, in one log.

Each broker leaves some that are open and some that are prepared, which the next one finishes.  A
transaction stays prepared since one of its partitions cannot take its marker: the topic demands two
replicas in sync, of which the second never comes.
"""

import pytest

from odradek.protocol.api_keys import ApiKey
from tests.interop.handover import BROKER_ID, Handover
from tests.support.batches import batch_of
from tests.support.committed_records import committed_values
from tests.support.group_members import wait_until
from tests.support.group_wire import find_coordinator, name_of
from tests.support.partition_client import PartitionClient, create_topic
from tests.support.transaction_wire import WireProducer, settled, stable_offset, state_of
from tests.support.wire_client import WireClient, call, error_codes

TURNS = ("kafka", "odradek", "kafka")
ABSENT_BROKER = 2
HELD = "held"  # the topics that take no markers
TOPIC_RESOURCE, SET = 2, 0
TIMEOUT_MS = 600_000
PROBE = b"does it take records?"
#: How the prepared ones will end.
ENDINGS = {"commit": "PrepareCommit", "abort": "PrepareAbort"}


class Left:
    """What one broker leaves to the next."""

    def __init__(self, address, turn):
        self.address = address
        self.turn = turn
        self.held = f"{HELD}-{turn}"
        self.group = f"group-{turn}"
        self.producers = {
            name: WireProducer(address, f"{name}-{turn}", timeout_ms=TIMEOUT_MS)
            for name in ("open", "zombie", "idle", *ENDINGS)
        }

    def leave(self):
        create_held_topic(self.address, self.held)
        for name, producer in self.producers.items():
            producer.init()
            producer.write("t", self.value(name))
        self.producers["open"].commit_offset(self.group, "t", self.turn)
        self.producers["idle"].commit()
        for name in ENDINGS:
            self.producers[name].write(self.held, self.value(name))
        demand_in_sync(self.address, self.held, replicas=2)
        wait_until(lambda: answer_to_probe(self.address, self.held) == "NOT_ENOUGH_REPLICAS")
        for name, state in ENDINGS.items():
            answer = self.producers[name].ask_end(committed=name == "commit")
            assert answer == "NONE", answer
            assert state_of(self.address, f"{name}-{self.turn}") == state
        for producer in self.producers.values():
            producer.wire.close()

    def finish(self):
        """At another broker; the values of ``t`` that are committed then."""
        for producer in self.producers.values():
            producer.wire = WireClient(self.address)
        self.check_states()
        assert stable_offset(self.address, self.group, "t") == "UNSTABLE_OFFSET_COMMIT"
        self.producers["open"].write("t", self.value("more"))
        self.producers["open"].commit()
        assert stable_offset(self.address, self.group, "t") == self.turn
        self.fence()
        self.producers["idle"].write("t", self.value("again"))
        self.producers["idle"].commit()
        demand_in_sync(self.address, self.held, replicas=1)
        for name, state in ENDINGS.items():
            done = state.replace("Prepare", "Complete")
            wait_until(lambda name=name, done=done: self.state(name) == done)
        with PartitionClient(self.address, self.held) as client:
            values = [each for each in committed_values(client) if each != PROBE]
        assert values == [self.value("commit")]
        for producer in self.producers.values():
            producer.wire.close()
        return {self.value(name) for name in ("open", "more", "idle", "again", "commit")}

    def check_states(self):
        # Of what takes up its work, the first answers may be that it has not done so yet.
        assert self.state("open") == self.state("zombie") == "Ongoing"
        assert self.state("idle") == "CompleteCommit"
        assert {name: self.state(name) for name in ENDINGS} == ENDINGS

    def fence(self):
        zombie = self.producers["zombie"]
        with WireProducer(self.address, zombie.transactional_id) as other:
            other.init()
            assert other.id == zombie.id
            assert other.epoch > zombie.epoch
        assert settled(lambda: zombie.ask_end(committed=True)) == "PRODUCER_FENCED"

    def state(self, name):
        return state_of(self.address, f"{name}-{self.turn}")

    def value(self, name):
        return f"{name} in {self.turn}".encode()


def create_held_topic(address, topic):
    assigned = [{"partition_index": 0, "broker_ids": [BROKER_ID, ABSENT_BROKER]}]
    entry = {"name": topic, "num_partitions": -1, "replication_factor": -1}
    entry |= {"assignments": assigned}
    answer = call(address, ApiKey.CREATE_TOPICS, 7, topics=[entry], timeout_ms=20_000)
    assert error_codes(answer) == {0}, answer
    wait_until(lambda: answer_to_probe(address, topic) == "NONE")


def demand_in_sync(address, topic, *, replicas):
    config = {"name": "min.insync.replicas", "config_operation": SET, "value": str(replicas)}
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configs": [config]}
    answer = call(address, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
    assert error_codes(answer) == {0}, answer


def answer_to_probe(address, topic):
    """Of who wants all that are in sync to have it."""
    with PartitionClient(address, topic) as client:
        return name_of(client.produce(batch_of(PROBE)).error_code)


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_transactions_outlive_brokers_of_both_kinds(zookeeper, kafka_39_jars, tmp_path, ending):
    address = f"{zookeeper.address}/transactions-{ending}"
    left, committed = None, set()
    # A broker would wait for others to lead the partition that only it can.
    with Handover(tmp_path, address, but_of=HELD, controlled_shutdown_enable="false") as handover:
        for turn, _ in handover.turns(ending, TURNS):
            if turn == 0:
                create_topic(handover.address, "t")
            find_coordinator(handover.address)
            if left is not None:
                committed |= left.finish()
                with PartitionClient(handover.address, "t") as client:
                    values = committed_values(client)
                assert len(values) == len(set(values))
                assert set(values) == committed
            if turn < len(TURNS) - 1:
                left = Left(handover.address, turn)
                left.leave()
