"""Kafka's command line tools, of two releases, on a broker of ours with two log directories.

Tools that are about groups of consumers have a module of their own.
"""

import json
import re
import time

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.client_driver import Sent
from tests.support.confluent_driver import ConfluentDriver
from tests.support.java_conversation import JavaTools, jars
from tests.support.java_program import run_java
from tests.support.new_topics import new_topic

__all__ = ["jars", "new_topic"]

BROKER_ID = 7
NOW_MS = 1_700_000_000_000
WAIT_S = 20
TIMEOUT_MS = 10_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("broker")
    both = f"log.dirs={folder / 'logs'},{folder / 'more'}"
    with BrokerProcess(folder / "logs", both, f"broker.id={BROKER_ID}").start() as running:
        yield running


@pytest.fixture(scope="module")
def tools(jars):
    with JavaTools(jars) as running:
        yield running


@pytest.fixture
def run(tools, broker):
    """Runs a tool on the broker, which must succeed or have the status given; what it wrote."""

    def ran(tool, *arguments, given="", status=0):
        ended = tools.run(tool, "--bootstrap-server", broker.address, *arguments, given=given)
        assert ended.status == status, ended
        return ended

    return ran


def eventually(is_so):
    """Changes go by way of the controller, which has answered before all have heard of them."""
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def write(broker, topic, *values, partition=0):
    with ConfluentDriver().producer(broker.address) as producer:
        producer.send(
            topic,
            [
                Sent(value, timestamp_ms=NOW_MS + number, partition=partition)
                for number, value in enumerate(values)
            ],
        )


def offsets(run, topic, *options):
    """By partition, as kafka-get-offsets prints them."""
    lines = [line.split(":") for line in run("GetOffsetShell", "--topic", topic, *options).lines]
    assert {name for name, _, _ in lines} <= {topic}
    return {int(partition): int(offset) for _, partition, offset in lines}


def test_topics_are_created_described_altered_listed_and_deleted(run, new_topic):
    topic = new_topic() + "-by-tool"
    named = ("--topic", topic)
    made = run("TopicCommand", "--create", *named, "--partitions", 2, "--config", "segment.ms=5000")
    assert f"Created topic {topic}." in made.lines
    again = run("TopicCommand", "--create", *named, "--partitions", 2, status=1)
    assert f"Topic '{topic}' already exists" in again.out
    assert described(run, topic) == (2, [f"{BROKER_ID}"] * 2, "segment.ms=5000")
    run("TopicCommand", "--alter", *named, "--partitions", 3)
    eventually(lambda: described(run, topic)[:2] == (3, [f"{BROKER_ID}"] * 3))
    fewer = run("TopicCommand", "--alter", *named, "--partitions", 1, status=1)
    assert f"Topic '{topic}' currently has 3 partitions" in fewer.out
    assert topic in run("TopicCommand", "--list").lines
    run("TopicCommand", "--delete", *named)
    eventually(lambda: topic not in run("TopicCommand", "--list").lines)
    absent = run("TopicCommand", "--describe", *named, status=1)
    assert re.search(rf"Topic '.*{topic}.*' does not exist as expected", absent.out)


def described(run, topic):
    """How many partitions it has, the leader of each, and its settings."""
    head, *rows = run("TopicCommand", "--describe", "--topic", topic).lines
    facts = dict(re.findall(r"(\w+): (\S+)", head))
    assert facts["Topic"] == topic
    assert facts["ReplicationFactor"] == "1"
    leaders = []
    for number, row in enumerate(rows):
        told = dict(re.findall(r"(\w+): (\S+)", row))
        assert told["Partition"] == str(number)
        assert told["Leader"] == told["Replicas"] == told["Isr"]
        leaders.append(told["Leader"])
    return int(facts["PartitionCount"]), leaders, facts.get("Configs")


def test_topics_are_described_by_what_is_wrong_with_them(run, new_topic):
    new_topic()
    for wrong in ("--under-replicated-partitions", "--unavailable-partitions"):
        assert run("TopicCommand", "--describe", wrong).lines == []
    topic = new_topic(retention_ms=1234)
    overridden = run("TopicCommand", "--describe", "--topics-with-overrides").out
    assert re.search(rf"Topic: {topic}\s.*Configs: retention.ms=1234", overridden)


def test_settings_of_topics_are_changed_and_described(run, new_topic):
    topic = new_topic()
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    added = "segment.bytes=2000000,cleanup.policy=[compact,delete]"
    done = run("ConfigCommand", "--alter", *of_topic, "--add-config", added)
    assert f"Completed updating config for topic {topic}." in done.lines
    eventually(
        lambda: (
            settings(run, *of_topic)
            == {
                "cleanup.policy": "compact,delete",
                "segment.bytes": "2000000",
            }
        )
    )
    shown = run("ConfigCommand", "--describe", *of_topic).out
    assert "{DYNAMIC_TOPIC_CONFIG:segment.bytes=2000000, DEFAULT_CONFIG:log.segment.bytes=" in shown
    run("ConfigCommand", "--alter", *of_topic, "--delete-config", "cleanup.policy")
    eventually(lambda: settings(run, *of_topic) == {"segment.bytes": "2000000"})
    everything = settings(run, *of_topic, "--all")
    assert everything["segment.bytes"] == "2000000"
    assert everything["cleanup.policy"] == "delete"
    wrong = run("ConfigCommand", "--alter", *of_topic, "--add-config", "no.such=1", status=1)
    assert "InvalidConfigurationException" in wrong.out + wrong.err


def settings(run, *options):
    shown = run("ConfigCommand", "--describe", *options).out
    return dict(re.findall(r"^  ([\w.]+)=(.*) sensitive=", shown, re.MULTILINE))


def test_settings_of_brokers_are_changed_and_described(run):
    own = ("--entity-type", "brokers", "--entity-name", BROKER_ID)
    every = ("--entity-type", "brokers", "--entity-default")
    name = "log.cleaner.backoff.ms"
    done = run("ConfigCommand", "--alter", *own, "--add-config", f"{name}=2222")
    assert f"Completed updating config for broker {BROKER_ID}." in done.lines
    done = run("ConfigCommand", "--alter", *every, "--add-config", f"{name}=1111")
    assert "Completed updating default config for brokers in the cluster." in done.lines
    eventually(lambda: settings(run, *every) == {name: "1111"})
    eventually(lambda: settings(run, *own) == {name: "2222"})
    assert (
        f"DYNAMIC_BROKER_CONFIG:{name}=2222, DYNAMIC_DEFAULT_BROKER_CONFIG:{name}=1111, "
        f"DEFAULT_CONFIG:{name}=15000"
    ) in run("ConfigCommand", "--describe", *own).out
    everything = settings(run, *own, "--all")
    assert everything["broker.id"] == str(BROKER_ID)
    assert everything["num.partitions"] == "1"
    for of in (own, every):
        run("ConfigCommand", "--alter", *of, "--delete-config", name)
    eventually(lambda: settings(run, *own) == settings(run, *every) == {})


def test_what_the_console_producer_is_given_the_console_consumer_shows(run, new_topic):
    topic = new_topic(partitions=2)
    parsed = ("--property", "parse.key=true", "--property", "key.separator=:")
    given = "".join(f"key-{number % 5}:value-{number}\n" for number in range(40))
    run("ConsoleProducer", "--topic", topic, *parsed, "--compression-codec", "gzip", given=given)
    ends = offsets(run, topic)
    assert sum(ends.values()) == 40
    seen = {}
    for partition, end in ends.items():
        shown = consumed(run, topic, partition, "earliest", count=end)
        assert [int(offset) for offset, _, _ in shown] == list(range(end))
        last = consumed(run, topic, partition, end - 1, count=1)
        assert last == shown[-1:]
        for _, key, value in shown:
            seen.setdefault(key, []).append(value)
    assert seen == {
        f"key-{key}": [f"value-{number}" for number in range(key, 40, 5)] for key in range(5)
    }


def consumed(run, topic, partition, offset, *, count):
    """Offset, key and value of each record."""
    shown = ("print.key=true", "print.offset=true", "print.partition=true")
    options = [word for each in shown for word in ("--property", each)]
    at = ("--topic", topic, "--partition", partition, "--offset", offset)
    bounded = ("--max-messages", count, "--timeout-ms", TIMEOUT_MS)
    ended = run("ConsoleConsumer", *at, *bounded, *options)
    assert f"Processed a total of {count} messages" in ended.err
    rows = [line.split("\t") for line in ended.lines]
    assert {row[0] for row in rows} == {f"Partition:{partition}"}
    return [(offset.removeprefix("Offset:"), key, value) for _, offset, key, value in rows]


def test_a_console_consumer_at_the_end_waits_for_more_in_vain(run, broker, new_topic):
    topic = new_topic()
    write(broker, topic, b"old")
    at = ("--topic", topic, "--partition", 0, "--offset", "latest", "--timeout-ms", 300)
    ended = run("ConsoleConsumer", *at)
    assert ended.lines == []
    assert "Processed a total of 0 messages" in ended.err


@pytest.mark.parametrize("acks", ["all", "1"])
def test_the_performance_of_producers_is_measured(tools, run, broker, new_topic, acks):
    topic = new_topic(partitions=3)
    props = ("--producer-props", f"bootstrap.servers={broker.address}", f"acks={acks}")
    load = ("--num-records", 20_000, "--record-size", 100, "--throughput", -1)
    ended = tools.run("ProducerPerformance", "--topic", topic, *load, *props)
    assert ended.status == 0, ended
    assert ended.lines[-1].startswith("20000 records sent, ")
    assert sum(offsets(run, topic).values()) == 20_000


def test_a_verifiable_producer_tells_where_each_record_went(jars, broker, new_topic):
    topic = new_topic()
    # It speaks up once more when the JVM ends, so it has one of its own.
    main = "org.apache.kafka.tools.VerifiableProducer"
    at = ("--bootstrap-server", broker.address, "--topic", topic)
    told = [json.loads(line) for line in run_java(jars, main, *at, "--max-messages", "20")]
    sent = [each for each in told if each["name"] == "producer_send_success"]
    assert [(each["value"], each["offset"]) for each in sent] == [
        (str(number), number) for number in range(20)
    ]
    assert told[-1]["name"] == "tool_data"
    assert told[-1]["acked"] == 20


def test_offsets_are_told(run, broker, new_topic):
    topic = new_topic(partitions=3)
    write(broker, topic, *[b"x"] * 10, partition=0)
    write(broker, topic, *[b"x"] * 4, partition=2)
    assert offsets(run, topic) == {0: 10, 1: 0, 2: 4}
    assert offsets(run, topic, "--time", "earliest") == {0: 0, 1: 0, 2: 0}
    assert offsets(run, topic, "--time", "max-timestamp")[0] == 9
    assert offsets(run, topic, "--time", NOW_MS + 3) == {0: 3, 2: 3}
    assert offsets(run, topic, "--partitions", "0,2") == {0: 10, 2: 4}


def test_records_are_deleted_by_a_list(run, broker, new_topic, tmp_path):
    topic = new_topic()
    write(broker, topic, *[b"x"] * 10)
    listed = tmp_path / "deleted.json"
    entry = {"topic": topic, "partition": 0, "offset": 6}
    listed.write_text(json.dumps({"partitions": [entry], "version": 1}))
    ended = run("DeleteRecordsCommand", "--offset-json-file", listed)
    assert f"partition: {topic}-0\tlow_watermark: 6" in ended.lines
    assert offsets(run, topic, "--time", "earliest") == {0: 6}


def test_a_replica_is_moved_to_the_other_directory(run, broker, new_topic, tmp_path):
    topic = new_topic()
    write(broker, topic, *[b"x" * 100] * 50)
    here, size = directory_of(run, topic)
    assert size > 5000
    (there,) = {str(broker.data_dir), str(broker.data_dir.with_name("more"))} - {here}
    plan = tmp_path / "plan.json"
    entry = {"topic": topic, "partition": 0, "replicas": [BROKER_ID], "log_dirs": [there]}
    plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    moved = ("--reassignment-json-file", plan)
    started = run("ReassignPartitionsCommand", "--execute", *moved).out
    assert f"Successfully started partition reassignment for {topic}-0" in started
    assert f"Successfully started moving log directory to {there}" in started
    completed = f"Reassignment of replica {topic}-0-{BROKER_ID} completed successfully."
    eventually(lambda: completed in run("ReassignPartitionsCommand", "--verify", *moved).lines)
    assert directory_of(run, topic) == (there, size)
    listed = run("ReassignPartitionsCommand", "--list")
    assert "No partition reassignments found." in listed.lines


def directory_of(run, topic):
    """And its size, as kafka-log-dirs tells."""
    (row,) = [
        json.loads(line)
        for line in run("LogDirsCommand", "--describe", "--topic-list", topic).lines
        if line.startswith("{")
    ]
    ((folder, size),) = [
        (each["logDir"], partition["size"])
        for broker in row["brokers"]
        for each in broker["logDirs"]
        for partition in each["partitions"]
        if partition["partition"] == f"{topic}-0" and not partition["isFuture"]
    ]
    return folder, size


def test_served_versions_are_told(run, broker):
    shown = run("BrokerApiVersionsCommand").out
    assert f"{broker.address} (id: {BROKER_ID} " in shown
    told = dict(re.findall(r"^\t(\w+)\((?:\d+)\): (.*?),?$", shown, re.MULTILINE))
    assert told["Produce"].startswith("0 to ")
    assert "[usable: " in told["Fetch"]
    assert told["DescribeAcls"] == "UNSUPPORTED"
    served = {name for name, versions in told.items() if "usable: " in versions}
    assert {"Metadata", "CreateTopics", "DescribeProducers", "DescribeTopicPartitions"} <= served


def test_the_cluster_is_told(tools, broker):
    at = ("--bootstrap-server", broker.address)
    shown = tools.run("ClusterTool", "cluster-id", *at)
    name = shown.out.strip().removeprefix("Cluster ID: ")
    assert f"cluster.id={name}" in (broker.data_dir / "meta.properties").read_text().splitlines()


def test_producers_are_told(run, tools, broker, new_topic):
    topic = new_topic()
    run("ConsoleProducer", "--topic", topic, given="a\nb\nc\n")
    at = ("--bootstrap-server", broker.address)
    one = ("--topic", topic, "--partition", 0)
    head, row = tools.run("TransactionsCommand", *at, "describe-producers", *one).lines
    told = dict(zip(head.split(), row.split(), strict=True))
    assert int(told["ProducerId"]) >= 0
    assert (told["LastSequence"], told["CurrentTransactionStartOffset"]) == ("2", "None")


def test_leaders_that_lead_need_not_be_elected(run, new_topic):
    topic = new_topic()
    one = ("--election-type", "preferred", "--topic", topic, "--partition", 0)
    shown = run("LeaderElectionCommand", *one)
    assert f"Valid replica already elected for partitions {topic}-0" in shown.out


def test_a_topic_that_does_not_exist_has_no_leader_to_elect(run):
    one = ("--election-type", "preferred", "--topic", "absent", "--partition", 0)
    shown = run("LeaderElectionCommand", *one, status=1)
    assert "UnknownTopicOrPartitionException" in shown.out + shown.err


def test_what_is_in_our_files_is_told(run, tools, broker, new_topic):
    topic = new_topic(index_interval_bytes=100)
    props = [
        word
        for each in ("parse.headers=true", "parse.key=true", "headers.delimiter=|")
        for word in ("--property", each)
    ]
    given = "".join(f"h:{number}|key-{number}\tvalue-{number}\n" for number in range(60))
    run("ConsoleProducer", "--topic", topic, "--batch-size", 200, *props, given=given)
    folder = next(broker.data_dir.parent.glob(f"*/{topic}-0"))
    broker.stop()  # an index has its final size when it is closed
    try:
        files = [folder / f"{0:020}{ending}" for ending in (".log", ".index", ".timeindex")]
        names = ",".join(map(str, [*files, *folder.glob("*.snapshot")]))
        dumped = tools.run(
            "DumpLogSegments", "--deep-iteration", "--print-data-log", "--files", names
        )
        checked = tools.run("DumpLogSegments", "--index-sanity-check", "--files", files[1])
    finally:
        broker.start()
    assert dumped.status == 0
    records = [line for line in dumped.lines if line.startswith("| offset: ")]
    assert len(records) == 60
    for number, line in enumerate(records):
        assert line.startswith(f"| offset: {number} ")
        assert f"headerKeys: [h] key: key-{number} payload: value-{number}" in line
    batches = [line for line in dumped.lines if line.startswith("baseOffset: ")]
    assert len(batches) > 1
    assert all(line.endswith("isvalid: true") for line in batches)
    assert sum(line.startswith("offset: ") for line in dumped.lines) > 1
    assert sum(line.startswith("timestamp: ") for line in dumped.lines) > 0
    assert sum(line.startswith("producerId: ") for line in dumped.lines) == 1
    assert "Found timestamp mismatch" not in dumped.out + dumped.err
    assert f"{files[1]} passed sanity check." in checked.lines


@pytest.mark.parametrize(
    ("tool", "arguments", "missing"),
    [
        ("AclCommand", ["--list"], "DESCRIBE_ACLS"),
        ("MetadataQuorumCommand", ["describe", "--status"], "DESCRIBE_QUORUM"),
    ],
)
def test_tools_of_what_is_not_served_say_so(tools, broker, tool, arguments, missing):
    ended = tools.run(tool, "--bootstrap-server", broker.address, *arguments)
    assert f"The node does not support {missing}" in ended.out + ended.err
