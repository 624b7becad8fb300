"""G3, G4 and G6 to G10 with the consumer protocol (KIP-848): what members have, and may not."""

import itertools
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.controller.tied_process import tied_command
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from tests.support.broker_process import BrokerProcess
from tests.support.protocol_consumers import QUICK, TIMEOUT_S, ConsumerFleet
from tests.support.wire_client import WireClient

_NUMBERS = itertools.count()
PARTITIONS = 8
CHANGES = 12
MEMBERS_MAX = 6

#: Prints what it was given, and then what becomes of a commit for each line that it is sent.
A_CONSUMER_TO_PAUSE = """
import sys
from confluent_kafka import Consumer, KafkaException, TopicPartition
address, group, topic = sys.argv[1:]
consumer = Consumer({
    "bootstrap.servers": address, "group.id": group, "group.protocol": "consumer",
    "enable.auto.commit": False,
})
given = []
consumer.subscribe([topic], on_assign=lambda _, each: given.extend(each))
while not given:
    consumer.poll(0.1)
print(len(given), flush=True)
sys.stdin.readline()
try:
    consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
    print("committed", flush=True)
except KafkaException as refused:
    print(refused.args[0].name(), flush=True)
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    directory = tmp_path_factory.mktemp("kip-848") / "logs"
    settings = (*QUICK, f"group.consumer.max.size={MEMBERS_MAX}")
    with BrokerProcess(directory, *settings).start() as broker:
        yield broker


@pytest.fixture
def topic(broker):
    name = f"topic-{next(_NUMBERS)}"
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(TIMEOUT_S)
    return name


@pytest.fixture
def group():
    return f"group-{next(_NUMBERS)}"


class Members:
    """Members without a client library, which say what a test has them say."""

    def __init__(self, client, group, topic):
        self._client = client
        self._group = group
        self._topic = topic

    def beat(self, member_id, epoch, **said):
        values = {"rebalance_timeout_ms": -1, "subscribed_topic_names": None}
        if epoch == 0:
            values = {
                "rebalance_timeout_ms": 5_000,
                "subscribed_topic_names": [self._topic],
                "topic_partitions": [],
            }
        return self._client.call(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            group_id=self._group,
            member_id=member_id,
            member_epoch=epoch,
            **values | said,
        )

    def join(self, member_id, **said):
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self.beat(member_id, 0, **said)
            if not ErrorCode.for_code(answer.error_code).retriable or time.monotonic() > deadline:
                return answer

    def commit(self, member_id, epoch, offset=5):
        partition = {"partition_index": 0, "committed_offset": offset}
        answer = self._client.call(
            ApiKey.OFFSET_COMMIT,
            9,
            group_id=self._group,
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
            topics=[{"name": self._topic, "partitions": [partition]}],
        )
        return error(answer.topics[0].partitions[0])

    def described(self):
        (shown,) = self._client.call(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            1,
            group_ids=[self._group],
            include_authorized_operations=False,
        ).groups
        return shown


def reconciled(shown):
    """What the coordinator says that its members have."""
    return [
        (part.topic_name, number)
        for member in shown.members
        for part in member.assignment.topic_partitions
        for number in part.partitions
    ]


def error(answer):
    return ErrorCode.for_code(answer.error_code).name


@pytest.fixture
def members(broker, group, topic):
    client = WireClient(broker.address)
    client.call(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[group])
    yield Members(client, group, topic)
    client.socket.close()


@pytest.mark.parametrize("seed", range(3))
def test_g3_g10_no_partition_is_in_two_members_reconciled_sets(broker, group, topic, members, seed):
    chance, names = random.Random(seed), itertools.count()
    with ConsumerFleet(broker.address, group, topic) as fleet:
        fleet.add("first")
        fleet.wait_until(lambda: fleet.sizes() == [PARTITIONS])

        def is_settled():
            shown = members.described()
            held = reconciled(shown)
            assert len(held) == len({*held}), held
            is_stable = (shown.group_state, len(shown.members)) == ("Stable", len(fleet.members))
            return is_stable and sorted(held) == fleet.held()

        for _ in range(CHANGES):
            if len(fleet.members) > 1 and chance.random() < 0.4:
                fleet.close(chance.choice(sorted(fleet.members)))
            elif len(fleet.members) < MEMBERS_MAX:
                fleet.add(f"member-{next(names)}")
            if chance.random() < 0.5:
                fleet.wait_until(is_settled)
            else:
                fleet.turn()
        fleet.wait_until(is_settled)
        sizes = fleet.sizes()
        assert sum(sizes) == PARTITIONS
        assert sizes[-1] - sizes[0] <= 1
    assert "Traceback" not in broker.log_text


def test_g4_a_commit_of_an_older_epoch_is_refused(members, topic):
    assert members.join("m").member_epoch == 1
    assert members.commit("m", 1) == "NONE"
    assert members.beat("m", 1, subscribed_topic_names=[topic, "another"]).member_epoch == 2
    assert members.commit("m", 1, offset=9) == "STALE_MEMBER_EPOCH"
    assert members.commit("m", 2, offset=6) == "NONE"
    assert members.commit("stranger", 2) == "UNKNOWN_MEMBER_ID"


def test_g6_a_static_member_that_restarts_finds_what_it_had(members):
    first = members.join("m1", instance_id="i")
    assert error(members.beat("m1", -2, instance_id="i")) == "NONE"
    again = members.join("m2", instance_id="i")
    assert (again.member_epoch, again.assignment) == (first.member_epoch, first.assignment)


def test_g7_an_instance_that_is_there_is_not_taken_over_and_one_that_left_is(members):
    members.join("m1", instance_id="i")
    assert error(members.join("m2", instance_id="i")) == "UNRELEASED_INSTANCE_ID"
    members.beat("m1", -2, instance_id="i")
    assert error(members.join("m2", instance_id="i")) == "NONE"
    assert error(members.beat("m1", 1, instance_id="i")) == "FENCED_INSTANCE_ID"


@contextmanager
def paused(process):
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def test_g8_a_paused_member_is_removed_and_its_later_commit_refused(broker, group, topic):
    command = [sys.executable, "-c", A_CONSUMER_TO_PAUSE, broker.address, group, topic]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(tied_command(command), **pipes) as victim:
        assert victim.stdout.readline() == b"%d\n" % PARTITIONS
        with ConsumerFleet(broker.address, group, topic) as fleet:
            with paused(victim):
                fleet.add("other")
                fleet.wait_until(lambda: fleet.sizes() == [PARTITIONS])
            victim.stdin.write(b"\n")
            victim.stdin.flush()
            assert victim.stdout.readline().strip() in (
                b"UNKNOWN_MEMBER_ID",
                b"STALE_MEMBER_EPOCH",
                b"_FENCED",
                b"_ASSIGNMENT_LOST",
            )
            assert (
                fleet.members["other"]
                .consumer.committed([next(iter(fleet.members["other"].consumer.assignment()))])[0]
                .offset
                < 0
            )
        victim.kill()


def test_g9_a_group_has_no_more_members_than_it_may(members):
    for number in range(MEMBERS_MAX):
        assert error(members.join(f"m{number}")) == "NONE"
    assert error(members.join("one-more")) == "GROUP_MAX_SIZE_REACHED"
    members.beat("m0", -1)
    assert error(members.join("one-more")) == "NONE"
