"""Groups of the consumer protocol beside Kafka 4.1: the same answers, and logs that both load."""

from dataclasses import replace

import pytest

from odradek.broker.coordinator.replay import Replay
from odradek.broker.groups.consumer.consumer_group_runtime import ConsumerGroupRuntime
from odradek.broker.groups.consumer.topics import TopicsProvider
from odradek.broker.groups.shard import GroupCoordinatorShard
from odradek.broker.handlers import consumer_group_describe
from odradek.broker.metadata.metadata_snapshot import MetadataSnapshot, Topic
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.internal.key_partition import partition_for
from odradek.protocol.records.record_set import batches_of_any_magic
from tests.interop.consumer_protocol_steps import MEMBERS_MAX, Story, told
from tests.interop.handover import Handover
from tests.interop.handover_groups import SESSION_MS
from tests.support.apache_kafka import kraft_broker
from tests.support.broker_process import BrokerProcess
from tests.support.client_driver import Sent
from tests.support.confluent_driver import ConfluentDriver
from tests.support.group_scene import GROUP
from tests.support.group_wire import WireMember, committed_line, find_coordinator
from tests.support.java_conversation import JavaTools
from tests.support.live_group_scene import LiveGroupScene, subscribed
from tests.support.metadata_updates import state
from tests.support.migrating_groups import offering

SETTINGS = {
    "group.consumer.max.size": str(MEMBERS_MAX),
    "group.consumer.migration.policy": "bidirectional",
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}
CONSUMER_OFFSETS = "__consumer_offsets"
CLEAN = ".kafka_cleanshutdown"
CONSOLE_CONSUMER = "consumer.ConsoleConsumer"
GROUPS_TOOL = "consumer.group.ConsumerGroupCommand"


@pytest.fixture
def kafka(kafka_41_jars, tmp_path):
    with kraft_broker(tmp_path / "kafka", properties=SETTINGS) as broker:
        yield broker


def test_every_step_is_answered_as_kafka_answers_it(kafka, tmp_path):
    ours = BrokerProcess(tmp_path / "logs", *(f"{key}={value}" for key, value in SETTINGS.items()))
    with ours.start():
        stories = [Story(ours.address), Story(kafka.bootstrap)]
        answers = [dict(told(story)) for story in stories]
        for story in stories:
            story.close()
    mine, theirs = answers
    differing = {name for name in theirs if mine[name] != theirs[name]}
    assert not differing, [(name, mine[name], theirs[name]) for name in sorted(differing)]


# Logs


def picture_of(story):
    """The topics as the broker at the other end has them."""
    topics = story.call(ApiKey.METADATA, 12, topics=None).topics
    known = [
        Topic(each.name, each.topic_id, {n: state(n) for n in range(len(each.partitions))})
        for each in topics
    ]
    return MetadataSnapshot(
        topics={each.name: each for each in known},
        topic_names={each.id: each.name for each in known},
    )


def shown(group, picture):
    """As it would be described, in a form that can be compared."""
    described = consumer_group_describe._described_group(group, assignor="uniform")
    described.members = [
        *consumer_group_describe._describe_members(group, TopicsProvider(lambda: picture).current)
    ]
    return comparable(described)


def comparable(described):
    for member in described.members:
        for assignment in (member.assignment, member.target_assignment):
            assignment.topic_partitions.sort(key=lambda each: each.topic_id)
    described.members.sort(key=lambda each: each.member_id)
    return described


def test_groups_in_a_log_of_kafka_are_loaded_as_it_describes_them(kafka):
    story = Story(kafka.bootstrap)
    groups = ["g", "static", "full", "empty"]
    list(told(story))
    expression = {"subscribed_topic_names": None, "subscribed_topic_regex": "[ab]"}
    story.join("e1", group="expression", **expression)
    described = {each.group_id: each for each in story.describe(*groups, "expression").groups}
    picture = picture_of(story)
    story.close()
    kafka.stop()
    base = LiveGroupScene({}).base
    shard = GroupCoordinatorShard(
        base.log, replace(base.world, topics_provider=TopicsProvider(lambda: picture))
    )
    for segment in sorted(kafka.data_directory.glob(f"{CONSUMER_OFFSETS}-*/*.log")):
        replay = Replay()
        for batch in batches_of_any_magic(segment.read_bytes()):
            replay.add_batch(batch)
        for offset, key, value in replay.records():
            shard.apply(key, value, offset)
    base.close()
    loaded = {
        each.id: each for each in shard.groups.values() if isinstance(each, ConsumerGroupRuntime)
    }
    found = {name for name, each in described.items() if not each.error_code}
    assert found >= {"full", "empty", "expression"}
    for name in found - {"expression"}:  # which Kafka may have resolved since
        assert shown(loaded[name].group, picture) == comparable(described[name])
    assert loaded["expression"].group.subscribed_regexes() == {"[ab]"}
    assert loaded["full"].group.metadata_hash == TopicsProvider(
        lambda: picture
    ).current.compute_metadata_hash(frozenset({"a"}))


def scene_on_topics_of(kafka):
    """A shard of ours that sees the topics of Kafka, which is stopped then; and these topics."""
    story = Story(kafka.bootstrap)
    picture = picture_of(story)
    story.close()
    kafka.stop()
    scene = LiveGroupScene({})
    scene.base.world = replace(scene.base.world, topics_provider=TopicsProvider(lambda: picture))
    scene.base.shard = GroupCoordinatorShard(scene.base.log, scene.base.world)
    return scene, picture


def start_with_log_of(scene, kafka):
    index = partition_for(GROUP, int(SETTINGS["offsets.topic.num.partitions"]))
    segment = kafka.segment(CONSUMER_OFFSETS, partition=index)
    assert segment.stat().st_size == 0
    segment.write_bytes(b"".join(bytes(batch.view) for batch in scene.base.log.batches))
    scene.close()
    (kafka.data_directory / CLEAN).unlink()
    kafka.start()


def test_kafka_loads_our_log_and_goes_on_in_the_same_epoch(kafka):
    scene, picture = scene_on_topics_of(kafka)
    scene.join("m1", "a", "b")
    scene.join("m2", "a", instance_id="i")
    scene.beat("m1", 1)
    ours = shown(scene.live.group, picture)
    epochs = {each.id: each.epoch for each in scene.live.group.members.values()}
    start_with_log_of(scene, kafka)
    story = Story(kafka.bootstrap)
    (theirs,) = story.describe(GROUP).groups
    assert comparable(theirs) == ours
    answered = [story.beat(each, epoch, group=GROUP) for each, epoch in epochs.items()]
    assert [each.error_code for each in answered] == [0, 0]
    assert story.describe(GROUP).groups[0].group_epoch == ours.group_epoch
    story.close()


def test_kafka_loads_a_group_that_we_have_downgraded_and_takes_its_first_member_for_the_leader(
    kafka,
):
    """The record names none."""
    scene, _ = scene_on_topics_of(kafka)
    scene.join("new", "a")
    ids = [scene.base.join(**offering("a")).result.member_id for _ in range(2)]
    scene.beat("new", -1)
    start_with_log_of(scene, kafka)
    find_coordinator(kafka.bootstrap, GROUP)
    story = Story(kafka.bootstrap)
    (shown,) = story.call(ApiKey.DESCRIBE_GROUPS, 5, groups=[GROUP]).groups
    assert shown.group_state == "Stable"
    assert {each.member_id for each in shown.members} == {*ids}
    told = story.call(
        ApiKey.JOIN_GROUP,
        9,
        group_id=GROUP,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        member_id=ids[1],
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": subscribed("a")}],
    )
    assert (told.error_code, told.leader) == (0, ids[0])
    story.close()


# Kafka's own consumer


@pytest.fixture
def ours(tmp_path):
    quick = ("group.consumer.min.heartbeat.interval.ms=100", "offsets.topic.num.partitions=4")
    interval = "group.consumer.heartbeat.interval.ms=100"
    with BrokerProcess(tmp_path / "logs", *quick, interval).start() as broker:
        yield broker


def test_kafkas_console_consumer_and_groups_tool_speak_the_protocol(kafka_41_jars, ours):
    story = Story(ours.address)
    story.close()
    values = [f"value-{number}" for number in range(20)]
    with ConfluentDriver().producer(ours.address) as producer:
        producer.send("a", [Sent(value.encode(), partition=0) for value in values])
    with JavaTools(kafka_41_jars) as tools:
        to_our_broker = ("--bootstrap-server", ours.address)
        for expected in (values[:12], values[12:]):
            consumed = tools.run(
                CONSOLE_CONSUMER,
                *to_our_broker,
                *("--topic", "a", "--group", "java", "--from-beginning"),
                *("--max-messages", str(len(expected)), "--timeout-ms", "30000"),
                *("--consumer-property", "group.protocol=consumer"),
            )
            assert consumed.out.split() == expected, consumed
        listed = tools.run(GROUPS_TOOL, *to_our_broker, "--list", "--type")
        assert ["java", "Consumer"] in [line.split() for line in listed.out.splitlines()]
        state = tools.run(GROUPS_TOOL, *to_our_broker, "--describe", "--group", "java", "--state")
        assert "Empty" in state.out
        offsets = tools.run(GROUPS_TOOL, *to_our_broker, "--describe", "--group", "java")
        lines = [line.split() for line in offsets.out.splitlines()]
        assert ["java", "a", "0", "20", "20", "0"] in [line[:6] for line in lines]


# Kafka in ZooKeeper mode, which does not know the protocol


def test_kafka_3_9_passes_over_such_groups_and_keeps_their_offsets(
    zookeeper, kafka_39_jars, tmp_path
):
    with Handover(tmp_path, f"{zookeeper.address}/kip-848") as handover:
        address = handover.address
        handover.odradek.start()
        story = Story(address)
        story.join("m1")
        assert story.commit("m1", 1).topics[0].partitions[0].error_code == 0
        story.close()
        handover.odradek.stop()
        handover.kafka.start()
        find_coordinator(address)
        assert committed_line(address, "g", "a")[0] == 3
        with WireMember(address, "g") as member:
            assert member.join(session_ms=SESSION_MS) == "NONE"
            assert member.sync()[0] == "NONE"
        handover.kafka.stop()
        handover.odradek.start()
        story = Story(address)
        (shown,) = story.call(ApiKey.DESCRIBE_GROUPS, 5, groups=["g"]).groups
        assert [each.member_id for each in shown.members] == [member.id]
        assert story.describe("g").groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND.code
        story.close()
