"""Kafka's AdminClient, of two releases, on a broker of ours with two log directories."""

import time

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.client_driver import Options, Sent
from tests.support.confluent_driver import ConfluentDriver
from tests.support.java_conversation import JavaConversation, JavaRefused, jars
from tests.support.new_topics import new_topic

__all__ = ["jars", "new_topic"]

BROKER_ID = 7
NOW_MS = 1_700_000_000_000
WAIT_S = 20
CLUSTER_DEFAULT = ""

#: Methods that need what is not served yet, and the API that they miss first.
UNSERVED = {
    "describeAcls": "DESCRIBE_ACLS",
    "deleteAcls": "DELETE_ACLS",
    "describeClientQuotas": "DESCRIBE_CLIENT_QUOTAS",
    "describeUserScramCredentials": "DESCRIBE_USER_SCRAM_CREDENTIALS",
    "describeDelegationToken": "DESCRIBE_DELEGATION_TOKEN",
    "describeMetadataQuorum": "DESCRIBE_QUORUM",
    "listClientMetricsResources": "LIST_(CLIENT_METRICS|CONFIG)_RESOURCES",
    "unregisterBroker": "UNREGISTER_BROKER",
}
PROMPTLY_S = 5


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("broker")
    both = f"log.dirs={folder / 'logs'},{folder / 'more'}"
    with BrokerProcess(folder / "logs", both, f"broker.id={BROKER_ID}").start() as running:
        yield running


@pytest.fixture(scope="module")
def admin(jars, broker):
    with JavaConversation(jars, "LiveAdmin.java", broker.address) as running:
        running.ask("describeCluster")  # so that no test waits for the JVM
        yield running


def refusal(admin, command, **fields):
    """Its class."""
    with pytest.raises(JavaRefused) as refused:
        admin.ask(command, **fields)
    return refused.value.kind


def eventually(is_so):
    """Changes go by way of the controller, which has answered before all have heard of them."""
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def write(broker, topic, count, *, first_ms=NOW_MS, is_idempotent=False):
    options = Options(is_idempotent=is_idempotent)
    with ConfluentDriver().producer(broker.address, options) as producer:
        producer.send(
            topic,
            [Sent(b"%d" % number * 10, timestamp_ms=first_ms + number) for number in range(count)],
        )


def test_topics_are_created_listed_described_and_deleted(admin, new_topic):
    name = new_topic() + "-by-admin"
    created = admin.ask(
        "createTopics", topic=name, partitions=3, replication=1, configs={"retention.ms": "5000"}
    )
    assert (created["partitions"], created["replication"]) == (3, 1)
    assert created["configs"]["retention.ms"]["value"] == "5000"
    assert created["configs"]["retention.ms"]["source"] == "DYNAMIC_TOPIC_CONFIG"
    assert created["configs"]["segment.bytes"]["source"] == "DEFAULT_CONFIG"
    assert admin.ask("listTopics")[name] == created["id"]
    alone = {"leader": BROKER_ID, "replicas": [BROKER_ID], "in_sync": [BROKER_ID]}
    expected = {name: {"id": created["id"], "partitions": [alone] * 3}}
    assert admin.ask("describeTopics", topics=[name]) == expected
    assert admin.ask("describeTopics", ids=[created["id"]]) == expected
    admin.ask("deleteTopics", topics=[name])
    eventually(lambda: name not in admin.ask("listTopics"))
    assert refusal(admin, "describeTopics", topics=[name]) == "UnknownTopicOrPartitionException"


def test_topics_are_made_by_assignment_and_by_defaults_and_deleted_by_id(admin, new_topic):
    name = new_topic()
    by_hand, by_default = f"{name}-by-hand", f"{name}-by-default"
    made = admin.ask("createTopics", topic=by_hand, assignments=[[BROKER_ID], [BROKER_ID]])
    assert made["partitions"] == 2
    assert admin.ask("createTopics", topic=by_default)["partitions"] == 1
    admin.ask("deleteTopics", ids=[made["id"]])
    eventually(lambda: by_hand not in admin.ask("listTopics"))
    assert by_default in admin.ask("listTopics")


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"topic": "a b", "partitions": 1}, "InvalidTopicException"),
        ({"topic": "none", "partitions": 0}, "InvalidPartitionsException"),
        ({"topic": "many", "partitions": 1, "replication": 3}, "InvalidReplicationFactorException"),
        ({"topic": "odd", "configs": {"no.such": "1"}}, "InvalidConfigurationException"),
        ({"topic": "odd", "configs": {"segment.bytes": "x"}}, "InvalidConfigurationException"),
        ({"topic": "two", "assignments": [[7, 7]]}, "InvalidReplicaAssignmentException"),
    ],
)
def test_topics_that_cannot_be_are_refused(admin, fields, kind):
    assert refusal(admin, "createTopics", **fields) == kind


def test_a_topic_is_refused_twice_and_not_made_when_only_asked_about(admin, new_topic):
    topic = new_topic()
    assert refusal(admin, "createTopics", topic=topic) == "TopicExistsException"
    only_asked = admin.ask("createTopics", topic=f"{topic}-x", partitions=2, validate_only=True)
    assert only_asked["partitions"] == 2
    assert f"{topic}-x" not in admin.ask("listTopics")


def test_topics_grow(admin, new_topic):
    topic = new_topic()
    admin.ask("createPartitions", topic=topic, count=3)
    eventually(
        lambda: (
            [each["leader"] for each in described(admin, topic)["partitions"]] == [BROKER_ID] * 3
        )
    )
    for count in (3, 2):
        kind = refusal(admin, "createPartitions", topic=topic, count=count)
        assert kind == "InvalidPartitionsException"


def described(admin, topic):
    return admin.ask("describeTopics", topics=[topic])[topic]


def test_settings_of_a_topic_are_shown_and_changed(admin, new_topic):
    topic = new_topic()
    before = admin.ask("describeConfigs", topic=topic)
    assert before["cleanup.policy"] | {"documentation": ""} == {
        "value": "delete",
        "source": "DEFAULT_CONFIG",
        "type": "LIST",
        "is_sensitive": False,
        "is_read_only": False,
        "documentation": "",
        "synonyms": [["log.cleanup.policy", "delete", "DEFAULT_CONFIG"]],
    }
    assert all(each["documentation"] for each in before.values())
    changes = [["SET", "segment.ms", "7777"], ["APPEND", "cleanup.policy", "compact"]]
    admin.ask("incrementalAlterConfigs", topic=topic, changes=changes)
    eventually(lambda: value_of(admin, "segment.ms", topic=topic) == "7777")
    after = admin.ask("describeConfigs", topic=topic)
    assert after["cleanup.policy"]["value"] == "delete,compact"
    assert {name for name in after if after[name]["source"] == "DYNAMIC_TOPIC_CONFIG"} == {
        *("segment.ms", "cleanup.policy")
    }
    changes = [["DELETE", "segment.ms"], ["SUBTRACT", "cleanup.policy", "delete"]]
    admin.ask("incrementalAlterConfigs", topic=topic, changes=changes)
    eventually(lambda: value_of(admin, "cleanup.policy", topic=topic) == "compact")
    assert value_of(admin, "segment.ms", topic=topic) == before["segment.ms"]["value"]
    wrong = [["SET", "segment.ms", "soon"]]
    kind = refusal(admin, "incrementalAlterConfigs", topic=topic, changes=wrong)
    assert kind == "InvalidConfigurationException"


def value_of(admin, name, **resource):
    return admin.ask("describeConfigs", **resource)[name]["value"]


def test_settings_of_a_broker_and_of_all_are_shown_and_changed(admin):
    own, every = {"broker": str(BROKER_ID)}, {"broker": CLUSTER_DEFAULT}
    name = "log.cleaner.backoff.ms"
    default = admin.ask("describeConfigs", **own)[name]
    assert default["source"] == "DEFAULT_CONFIG"
    for resource, value in ((every, "1111"), (own, "2222")):
        admin.ask("incrementalAlterConfigs", changes=[["SET", name, value]], **resource)
        eventually(lambda value=value: value_of(admin, name, **own) == value)
    assert admin.ask("describeConfigs", **own)[name]["synonyms"] == [
        [name, "2222", "DYNAMIC_BROKER_CONFIG"],
        [name, "1111", "DYNAMIC_DEFAULT_BROKER_CONFIG"],
        [name, default["value"], "DEFAULT_CONFIG"],
    ]
    assert value_of(admin, name, **every) == "1111"
    for resource in (own, every):
        admin.ask("incrementalAlterConfigs", changes=[["DELETE", name]], **resource)
    eventually(lambda: value_of(admin, name, **own) == default["value"])


def test_settings_that_a_broker_was_started_with_cannot_be_changed(admin):
    own = {"broker": str(BROKER_ID)}
    known = admin.ask("describeConfigs", **own)["broker.id"]
    assert (known["value"], known["source"]) == (str(BROKER_ID), "STATIC_BROKER_CONFIG")
    assert known["is_read_only"]
    change = [["SET", "broker.id", "8"]]
    kind = refusal(admin, "incrementalAlterConfigs", changes=change, **own)
    assert kind == "InvalidRequestException"


def test_the_cluster_is_described(admin, broker):
    told = admin.ask("describeCluster")
    assert told["controller"] == BROKER_ID
    assert told["nodes"] == {str(BROKER_ID): broker.address}
    assert f"cluster.id={told['id']}" in (broker.data_dir / "meta.properties").read_text()


def test_transactions_are_a_feature_that_is_agreed_on(admin):
    assert admin.ask("describeFeatures") == {"supported": 1, "finalized": 1}


def test_offsets_are_listed(admin, broker, new_topic):
    topic = new_topic()
    write(broker, topic, 20)
    write(broker, topic, 10, first_ms=NOW_MS - 1000)
    times = [str(NOW_MS + 5), str(NOW_MS - 1), str(NOW_MS + 20)]
    specs = ["earliest", "latest", "maxTimestamp", "earliestLocal", "latestTiered", *times]
    assert admin.ask("listOffsets", topic=topic, specs=specs) == {
        "earliest": [0, -1, 0],
        "latest": [30, -1, 0],
        "maxTimestamp": [19, NOW_MS + 19, 0],
        "earliestLocal": [0, -1, 0],
        "latestTiered": [-1, -1, -1],
        times[0]: [5, NOW_MS + 5, 0],
        times[1]: [0, NOW_MS, 0],
        times[2]: [-1, -1, -1],
    }


def test_records_are_deleted(admin, broker, new_topic):
    topic = new_topic()
    write(broker, topic, 20)
    assert admin.ask("deleteRecords", topic=topic, before=8) == {"low": 8}
    assert admin.ask("listOffsets", topic=topic, specs=["earliest", "latest"]) == {
        "earliest": [8, -1, 0],
        "latest": [20, -1, 0],
    }
    kind = refusal(admin, "deleteRecords", topic=topic, before=21)
    assert kind == "OffsetOutOfRangeException"
    assert admin.ask("deleteRecords", topic=topic, before=-1) == {"low": 20}


def test_a_partition_is_moved_to_the_other_directory(admin, broker, new_topic):
    topic = new_topic()
    write(broker, topic, 500)
    paths = {str(broker.data_dir), str(broker.data_dir.with_name("more"))}
    told = admin.ask("describeLogDirs", broker=BROKER_ID)
    assert set(told) == paths
    assert all(0 < each["usable"] <= each["total"] for each in told.values())
    assert {each["error"] for each in told.values()} == {"null"}
    (here,) = [path for path in told if f"{topic}-0" in told[path]["replicas"]]
    replica = told[here]["replicas"][f"{topic}-0"]
    assert replica["size"] > 5000
    (there,) = paths - {here}
    asked = {"topic": topic, "broker": BROKER_ID}
    assert admin.ask("describeReplicaLogDirs", **asked) == {"current": here, "future": None}
    admin.ask("alterReplicaLogDirs", directory=there, **asked)
    moved = {"current": there, "future": None}
    eventually(lambda: admin.ask("describeReplicaLogDirs", **asked) == moved)
    told = admin.ask("describeLogDirs", broker=BROKER_ID)
    assert told[there]["replicas"][f"{topic}-0"] == replica
    assert f"{topic}-0" not in told[here]["replicas"]
    kind = refusal(admin, "alterReplicaLogDirs", directory=f"{there}-nowhere", **asked)
    assert kind == "LogDirNotFoundException"


def test_producers_are_described(admin, broker, new_topic):
    topic = new_topic()
    assert admin.ask("describeProducers", topic=topic) == {"producers": []}
    write(broker, topic, 40, is_idempotent=True)
    (told,) = admin.ask("describeProducers", topic=topic)["producers"]
    assert told.pop("id") >= 0
    assert told == {
        "epoch": 0,
        "last_sequence": 39,
        "last_timestamp": NOW_MS + 39,
        "is_in_transaction": False,
    }


def test_a_leader_that_leads_need_not_be_elected(admin, new_topic):
    topic = new_topic()
    for kind in ("PREFERRED", "UNCLEAN"):
        told = admin.ask("electLeaders", topic=topic, type=kind)
        assert told == {f"{topic}-0": "ElectionNotNeededException"}
    told = admin.ask("electLeaders", topic=topic, partition=5, type="PREFERRED")
    assert told == {f"{topic}-5": "UnknownTopicOrPartitionException"}


def test_a_replica_is_reassigned_to_where_it_is_and_nowhere_else(admin, new_topic):
    topic = new_topic()
    admin.ask("alterPartitionReassignments", topic=topic, replicas=[BROKER_ID])
    eventually(lambda: admin.ask("listPartitionReassignments") == {"count": 0})
    kind = refusal(admin, "alterPartitionReassignments", topic=topic, replicas=[99])
    assert kind == "InvalidReplicaAssignmentException"


@pytest.mark.parametrize(("method", "missing"), UNSERVED.items())
def test_what_is_not_served_is_said_promptly(admin, method, missing):
    begin = time.monotonic()
    with pytest.raises(JavaRefused, match=missing) as refused:
        admin.ask(method)
    assert refused.value.kind == "UnsupportedVersionException"
    assert time.monotonic() - begin < PROMPTLY_S
