"""Brokers that pause, restart, lose all their peers, or the time.

After each of them: all that was acknowledged is there, once and in order, but for what an unclean
election lost; all replicas are in sync again, and alike byte by byte.
"""

from contextlib import ExitStack

from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import ResourceType

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import TopicPartition
from tests.support.cluster_faults import LEADER_ONLY, paused, wait_for_another_leader, write
from tests.support.cluster_load import LOOK_OFTEN, Load, check
from tests.support.group_members import (
    Member,
    check_commits,
    check_none_skipped,
    places_of,
    share,
    wait_until,
)
from tests.support.persistent_load import PersistentConsumer
from tests.support.wire_client import call

DELAY_S = 0.1
SESSION_MS = 30_000
HOURS = 5
HOUR_MS = 3_600_000


def test_r6_the_latest_offset_never_goes_back_when_leaders_change(shared):
    cluster, topic = shared, "r6"
    cluster.create(topic)
    preferred = cluster.leader(topic)
    followers = cluster.others(preferred)
    with Load(cluster, topic) as load:
        # A follower learns late of what all have: a new leader has more than it may show.
        cluster.network.delay(DELAY_S)
        try:
            load.wait_for_more()
            with paused(preferred):
                wait_for_another_leader(cluster, topic, preferred, by=followers[0])
                load.wait_for_more()
            cluster.network.hasten()
            cluster.wait_until_whole(topic)
            wait_until(lambda: is_led_again(cluster, topic, preferred))
            load.wait_for_more()
        finally:
            cluster.network.hasten()
    check(cluster, load)
    assert len(load.watch.leaders) >= 3


def test_r11_g2_clients_see_only_what_they_may_try_again_while_brokers_restart(shared):
    cluster, topic = shared, "r11"
    cluster.create(topic, partitions=3)
    with ExitStack() as stack:
        members = [stack.enter_context(member_of(cluster, topic)) for _ in range(2)]
        wait_until(
            lambda: share(members, places_of(topic, 3)) and all(each.assignment for each in members)
        )
        rebalances = [each.rebalances for each in members]
        with Load(cluster, topic, partitions=3) as load:
            load.wait_for_more()
            for broker in cluster.brokers:
                broker.restart()
                cluster.wait_until_whole(topic)
                load.wait_for_more()
        check_none_skipped(members, [each.decode() for each in load.producer.acknowledged])
        assert [each.rebalances for each in members] == rebalances
        check_commits(members)
    # Neither the producer nor the consumer was told what librdkafka does not try again.
    check(cluster, load)
    final = {each for each in load.watch.refusals if not each.retriable}
    assert not final, load.watch.refusals


def test_r12_clocks_that_jump_decide_neither_who_leads_nor_who_is_in_sync(shared):
    cluster, topic = shared, "r12"
    cluster.create(topic, **{"retention.ms": str(HOUR_MS)})
    leader, controller = cluster.leader(topic), cluster.brokers[cluster.controller()]
    lagging = next(each for each in cluster.others(leader) if each is not controller)
    with Load(cluster, topic) as load:
        load.wait_for_more()
        told = len(leader.log_text)
        try:
            leader.jump(hours=HOURS)
            load.wait_for_more()
            assert cluster.is_whole(topic)
            assert f"{topic}-0: Shrinking ISR from" not in leader.log_text[told:]
            assert f"{topic}-0: ISR updated to" not in leader.log_text[told:]
            # Whoever falls behind now was at the end of the log hours later.
            leader.jump(hours=-HOURS)
            lagging.jump(hours=HOURS)
            load.wait_for_more()
            cluster.network.cut(*map(cluster.brokers.index, (leader, lagging)))
            wait_until(lambda: len(cluster.partitions(topic, by=leader)[0].in_sync) == 2)
            load.wait_for_more()
        finally:
            cluster.network.mend()
            for broker in cluster.brokers:
                broker.jump(hours=0)
        cluster.wait_until_whole(topic)
        load.wait_for_more()
        assert len(load.watch.leaders) == 1
    check(cluster, load)


def test_r13_without_its_in_sync_replicas_a_partition_is_offline_or_loses_records(shared):
    cluster, topic = shared, "r13"
    cluster.create(topic, **{"min.insync.replicas": "1"})
    place = TopicPartition(topic, 0)
    leader = cluster.leader(topic)
    late, witness = cluster.others(leader)
    assert write(leader, topic, b"of all", acks=LEADER_ONLY) is ErrorCode.NONE
    wait_until(lambda: cluster.are_alike(place))
    before = cluster.partitions(topic, by=witness)[0]
    for broker in (late, witness):
        broker.stop()
    wait_until(lambda: len(cluster.partitions(topic, by=leader)[0].in_sync) == 1)
    assert write(leader, topic, b"of the leader", acks=-1) is ErrorCode.NONE
    readers = [reader_of(cluster, topic, reset=each) for each in ("earliest", "error")]
    for reader in readers:
        reader.wait_for(2)
    leader.kill()
    for broker in (late, witness):
        broker.start()
    # All that were in sync are down, as ZooKeeper will soon know: nobody serves it.
    wait_until(lambda: cluster.partitions(topic, by=witness)[0].leader == -1)
    for broker in (late, witness):
        assert write(broker, topic, b"nobody's", acks=LEADER_ONLY) is not ErrorCode.NONE
    allow_unclean_elections(cluster, topic)
    new = wait_for_another_leader(cluster, topic, leader, by=witness)
    assert any(f"election for partition {topic}-0" in each.log_text for each in (late, witness))
    assert any("records may be lost" in each.log_text for each in (late, witness))
    # Who read what is lost is told where the logs part, not other records in its place.
    assert write(new, topic, b"instead", acks=-1) is ErrorCode.NONE
    parted = fetched(new, topic, offset=2, last_epoch=before.epoch)
    assert parted.diverging_epoch.end_offset == 1
    assert fenced(new, topic, epoch=before.epoch) is ErrorCode.FENCED_LEADER_EPOCH
    assert write(new, topic, b"after it", acks=-1) is ErrorCode.NONE
    check_readers_noticed(*readers)
    leader.start()
    cluster.wait_until_whole(topic)
    wait_until(lambda: cluster.are_alike(place))
    log = cluster.logs(place)[0]
    assert b"of all" in log
    assert b"instead" in log
    assert b"of the leader" not in log


def member_of(cluster, topic):
    """Whose session is longer than a broker takes to restart."""
    options = {"group": topic, "topics": [topic], "session_ms": SESSION_MS}
    return Member("confluent", cluster.addresses, **options)


def reader_of(cluster, topic, *, reset):
    """``reset``: what it does when its position is in no log any more."""
    options = {"auto.offset.reset": reset, **LOOK_OFTEN}
    reader = PersistentConsumer(cluster.addresses, topic, partitions=1, **options)
    reader.start()
    return reader


def check_readers_noticed(going_on, told):
    """By the epoch of what they read last (KIP-320); else both would go on behind what is new."""
    going_on.wait_for(4)
    wait_until(lambda: told.failures)
    for reader in (going_on, told):
        reader.stop()
    before = [(0, b"of all"), (1, b"of the leader")]
    assert going_on.found[0] == [*before, (1, b"instead"), (2, b"after it")]
    assert going_on.failures == []
    assert told.found[0] == before
    assert all("Partition log truncation detected at offset 2" in each for each in told.failures)


def is_led_again(cluster, topic, preferred):
    cluster.admin.elect_preferred([Place(topic, 0)])
    return cluster.leader(topic, by=preferred) is preferred


def allow_unclean_elections(cluster, topic):
    configs = {"unclean.leader.election.enable": "true"}
    cluster.admin.configure(ResourceType.TOPIC, topic, configs)


def fetched(broker, topic, *, offset, last_epoch, epoch=-1):
    asked = {
        "partition": 0,
        "fetch_offset": offset,
        "last_fetched_epoch": last_epoch,
        "current_leader_epoch": epoch,
        "partition_max_bytes": 1_000_000,
    }
    answer = call(
        broker.address,
        ApiKey.FETCH,
        12,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1_000_000,
        session_epoch=-1,
        topics=[{"topic": topic, "partitions": [asked]}],
    )
    return answer.responses[0].partitions[0]


def fenced(broker, topic, *, epoch):
    return ErrorCode.for_code(
        fetched(broker, topic, offset=0, last_epoch=epoch, epoch=epoch).error_code
    )
