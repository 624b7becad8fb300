"""Brokers that are cut off from each other, from ZooKeeper, or both, but never from clients.

After each of them: all that was acknowledged is there, once and in order; nobody was told of two
leaders in one epoch, or of an end of the log before one told earlier; all replicas are in sync
again, and alike byte by byte.
"""

import time

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import TopicPartition
from tests.support.cluster_faults import (
    ALL_IN_SYNC,
    LEADER_ONLY,
    paused,
    wait_for_another_leader,
    wait_until_written,
    write,
)
from tests.support.cluster_load import Load, check
from tests.support.controller_requests import (
    FAR_AHEAD,
    answers,
    asked_of_the_controller,
    names_broker_epoch,
    told_by_a_controller,
)
from tests.support.group_members import wait_until
from tests.support.wire_client import call

#: What a leader says that cannot have a record replicated.
NOT_ACKNOWLEDGED = {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
DELAY_S = 0.1
#: Longer than the sessions with ZooKeeper are.
AWAY_S = 3


def test_r2_a_follower_that_is_cut_off_is_out_of_sync_and_comes_back(shared):
    cluster, topic = shared, "r2"
    cluster.create(topic)
    with Load(cluster, topic) as load:
        load.wait_for_more()
        leader = cluster.leader(topic)
        # The leader asks the controller to leave it out.
        cut_off = next(
            each
            for each in cluster.others(leader)
            if cluster.brokers.index(each) != cluster.controller()
        )
        left = frozenset(map(cluster.brokers.index, cluster.others(cut_off)))
        cluster.network.cut_from_peers(cluster.brokers.index(cut_off))
        wait_until(lambda: cluster.partitions(topic, by=leader)[0].in_sync == left)
        load.wait_for_more()
        assert cluster.partitions(topic, by=leader)[0].in_sync == left
        cluster.network.mend()
        cluster.wait_until_whole(topic)
        load.wait_for_more()
        assert len(load.watch.leaders) == 1
    check(cluster, load)


def test_r4_a_leader_that_is_cut_off_acknowledges_nothing_and_loses_its_tail(shared):
    cluster, topic = shared, "r4"
    cluster.create(topic)
    with Load(cluster, topic) as load:
        load.wait_for_more()
        old = cluster.leader(topic)
        cluster.network.isolate(cluster.brokers.index(old))
        assert write(old, topic, b"tail", acks=ALL_IN_SYNC) in NOT_ACKNOWLEDGED
        new = wait_for_another_leader(cluster, topic, old, by=cluster.others(old)[0])
        load.beside.append(b"after it")
        wait_until_written(new, topic, b"after it")
        # It does not know, and takes what need not be replicated.
        assert write(old, topic, b"tail", acks=LEADER_ONLY) is ErrorCode.NONE
        assert write(old, topic, b"tail", acks=ALL_IN_SYNC) in NOT_ACKNOWLEDGED
        cluster.network.mend()
        cluster.wait_until_whole(topic)
        load.wait_for_more()
    check(cluster, load)
    log = cluster.logs(TopicPartition(topic, 0))[0]
    assert b"after it" in log
    assert b"tail" not in log
    assert f"Truncating partition {topic}-0 to offset" in old.log_text


def test_r5_what_a_replaced_controller_says_is_refused(shared):
    cluster, network, topic = shared, shared.network, "r5"
    cluster.create(topic)
    old = cluster.controller()
    deaf, third = cluster.others(cluster.brokers[old])
    said = deaf.log_text.count("is old. Latest known controller epoch is")
    with Load(cluster, topic) as load:
        load.wait_for_more()
        network.cut(old, cluster.brokers.index(deaf))
        # What its controller tells it of this topic will be on its way for long.
        creating = cluster.start_to_create("r5-late")
        wait_until(lambda: cluster.partitions("r5-late", by=third))
        with paused(cluster.brokers[old]):
            wait_until(lambda: cluster.controller(by=deaf) not in (old, -1))
            network.mend()
            wait_until(
                lambda: deaf.log_text.count("is old. Latest known controller epoch is") > said
            )
            load.wait_for_more()
        for each in (topic, "r5-late"):
            cluster.wait_until_whole(each)
        del creating
        load.wait_for_more()
        assert all(cluster.controller(by=each) != old for each in cluster.brokers)
    check(cluster, load)


def test_what_only_the_controller_can_answer_is_refused_by_the_others(shared):
    cluster, topic = shared, "office"
    controller = cluster.brokers[agreed_controller(cluster)]
    asked = asked_of_the_controller(topic)
    for broker in cluster.others(controller):
        for version in range(1, 14):
            known = call(broker.address, ApiKey.METADATA, version, topics=[])
            assert cluster.brokers[known.controller_id] is controller
        told = answers(broker.address, asked)
        assert {key for key, _ in told} == {*asked}
        for (key, version), refusal in told.items():
            # As Kafka's brokers know it, from the time before there was the other error.
            is_stopping = key is ApiKey.CONTROLLED_SHUTDOWN
            expected = "STALE_CONTROLLER_EPOCH" if is_stopping else "NOT_CONTROLLER"
            assert refusal == expected, (key, version)
    assert not cluster.partitions(topic)
    told = answers(controller.address, asked)
    assert not {"NOT_CONTROLLER", "STALE_CONTROLLER_EPOCH"} & {*told.values()}, told
    assert told[ApiKey.CREATE_TOPICS, 0] == told[ApiKey.DELETE_TOPICS, 0] == "NONE"


def agreed_controller(cluster):
    """As all of them know."""

    def known():
        return {cluster.controller(by=each) for each in cluster.brokers}

    wait_until(lambda: len(known()) == 1 and -1 not in known(), or_else=known)
    return cluster.controller()


def test_r5_what_was_said_by_an_old_controller_or_to_an_old_life_is_refused(shared):
    """In every version; and what was told would have been the end of the topic."""
    cluster, topic = shared, "r5-old"
    cluster.create(topic)
    before = cluster.partitions(topic)
    controller = agreed_controller(cluster)
    late = told_by_a_controller(topic, controller_id=controller, controller_epoch=0)
    lost = told_by_a_controller(
        topic, controller_id=controller, controller_epoch=FAR_AHEAD, broker_epoch=0
    )
    for broker in cluster.brokers:
        told = answers(broker.address, late)
        assert len(told) == 8 + 9 + 5
        assert {*told.values()} == {"STALE_CONTROLLER_EPOCH"}, told
        told = answers(broker.address, lost, names_broker_epoch)
        assert len(told) == 6 + 4 + 4
        assert {*told.values()} == {"STALE_BROKER_EPOCH"}, told
        assert cluster.partitions(topic, by=broker) == before
        assert cluster.controller(by=broker) == controller
    assert write(cluster.leader(topic), topic, b"of all", acks=ALL_IN_SYNC) is ErrorCode.NONE


def test_r7_tails_that_two_leaders_left_are_cut(shared):
    """Each of the three has records of an epoch that no other has."""
    cluster, network, topic = shared, shared.network, "r7"
    cluster.create(topic)
    with Load(cluster, topic) as load:
        load.wait_for_more()
        first = cluster.leader(topic)
        network.isolate(cluster.brokers.index(first))
        assert write(first, topic, b"first tail", acks=LEADER_ONLY) is ErrorCode.NONE
        third = cluster.others(first)[0]
        second = wait_for_another_leader(cluster, topic, first, by=third)
        (third,) = cluster.others(first, second)
        load.beside += [b"of the second", b"of the third"]
        wait_until_written(second, topic, b"of the second")
        network.isolate(cluster.brokers.index(second))
        assert write(second, topic, b"second tail", acks=LEADER_ONLY) is ErrorCode.NONE
        wait_for_another_leader(cluster, topic, first, second, by=third)
        assert write(third, topic, b"of the third", acks=LEADER_ONLY) is ErrorCode.NONE
        network.mend()
        cluster.wait_until_whole(topic)
        load.wait_for_more()
    check(cluster, load)
    (log,) = set(cluster.logs(TopicPartition(topic, 0)))
    assert b"of the second" in log
    assert b"of the third" in log
    assert b"tail" not in log
    for former in (first, second):
        assert f"Truncating partition {topic}-0 to offset" in former.log_text


def test_r9_produce_and_fetch_go_on_without_zookeeper(shared):
    cluster, topic = shared, "r9"
    cluster.create(topic)
    with Load(cluster, topic) as load:
        load.wait_for_more()
        cluster.zookeeper.kill()
        back_at = time.monotonic() + AWAY_S
        while time.monotonic() < back_at:
            load.wait_for_more()
        assert len(load.watch.leaders) == 1
        cluster.zookeeper.start()
        load.wait_for_more()
        cluster.create("r9-afterwards")
        load.wait_for_more()
    check(cluster, load)


def test_r10_a_broker_whose_session_expires_steps_down_and_registers_again(shared):
    cluster, network, topic = shared, shared.network, "r10"
    cluster.create(topic)
    with Load(cluster, topic) as load:
        load.wait_for_more()
        old = cluster.leader(topic)
        registered = old.log_text.count("Registered broker")
        network.cut_from_zookeeper(cluster.brokers.index(old))
        new = wait_for_another_leader(cluster, topic, old, by=cluster.others(old)[0])
        # It reaches all others, and is followed by none.
        assert write(old, topic, b"tail", acks=ALL_IN_SYNC) in NOT_ACKNOWLEDGED
        load.beside.append(b"after it")
        wait_until_written(new, topic, b"after it")
        network.mend()
        cluster.wait_until_whole(topic)
        load.wait_for_more()
    check(cluster, load)
    assert old.log_text.count("Registered broker") == registered + 1
    log = cluster.logs(TopicPartition(topic, 0))[0]
    assert b"after it" in log
    assert b"tail" not in log


def test_r14_a_slow_network_slows_down_and_loses_nothing(shared):
    cluster, network, topic = shared, shared.network, "r14"
    cluster.create(topic)
    with Load(cluster, topic) as load:
        load.wait_for_more()
        network.delay(DELAY_S)
        try:
            load.wait_for_more(500)
            assert cluster.is_whole(topic)
        finally:
            network.hasten()
        load.wait_for_more()
    check(cluster, load)
