"""kcat, as Debian has it: lists, writes, reads and asks for offsets."""

import json
import os
import shutil
import subprocess

import pytest

from tests.support.client_driver import Sent
from tests.support.confluent_driver import ConfluentDriver

KCAT = shutil.which("kcat") or shutil.which("kafkacat")
TIMEOUT_S = 30
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
#: All that kcat can tell of a record.
SHOWN = r"%t|%p|%o|%k|%K|%s|%S|%h\n"
NO_LENGTH = "-1"
EARLIEST, LATEST = -2, -1
NOWHERE = -1

pytestmark = pytest.mark.skipif(KCAT is None, reason="there is no kcat on this machine")


@pytest.fixture
def kcat(broker, tmp_path):
    """Runs it, and tells what it printed; the configuration of whoever tests is not read."""

    def run(*arguments, stdin="", is_well=True):
        ran = subprocess.run(
            [KCAT, "-b", broker.address, *map(str, arguments)],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env={**os.environ, "HOME": str(tmp_path)},
        )
        assert (ran.returncode == 0) == is_well, ran
        return ran.stdout if is_well else ran.stderr

    return run


@pytest.fixture
def at_times(broker, new_topic):
    """A topic with a record for each of these times."""

    def write(*timestamps):
        topic = new_topic(retention_ms=-1)
        with ConfluentDriver().producer(broker.address) as producer:
            producer.send(topic, [Sent(b"at %d" % each, timestamp_ms=each) for each in timestamps])
        return topic

    return write


def test_brokers_and_topics_are_listed(kcat, broker, new_topic):
    topic = new_topic(partitions=3)
    told = json.loads(kcat("-L", "-J"))
    (node,) = told["brokers"]
    assert node["name"] == broker.address
    assert told["controllerid"] == node["id"]
    (found,) = [each for each in told["topics"] if each["topic"] == topic]
    assert [each["partition"] for each in found["partitions"]] == [0, 1, 2]
    for partition in found["partitions"]:
        assert partition["leader"] == node["id"]
        assert partition["replicas"] == partition["isrs"] == [{"id": node["id"]}]


def test_one_topic_is_listed(kcat, new_topic):
    topic = new_topic(partitions=2)
    new_topic()
    (found,) = json.loads(kcat("-L", "-J", "-t", topic))["topics"]
    assert (found["topic"], len(found["partitions"])) == (topic, 2)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_what_it_writes_it_reads(kcat, new_topic, codec, acks):
    topic = new_topic()
    values = [f"{number} {codec} " * 50 for number in range(100)]
    settings = ["-X", f"topic.acks={acks}", "-z", codec]
    kcat("-P", "-t", topic, "-p", 0, *settings, stdin="\n".join(values))
    lines = kcat("-C", "-t", topic, "-c", len(values), "-f", r"%o %s\n").splitlines()
    assert lines == [f"{offset} {value}" for offset, value in enumerate(values)]


def test_keys_headers_and_nothing_are_kept(kcat, new_topic):
    topic = new_topic()
    headers = ["-H", "first=1", "-H", "second=two words", "-H", "first=again"]
    kcat("-P", "-t", topic, "-K", ":", "-Z", *headers, stdin="key:value\n:unkeyed\ngone:\n")
    lines = kcat("-C", "-t", topic, "-e", "-f", SHOWN).splitlines()
    told = "first=1,second=two words,first=again"
    assert lines == [
        f"{topic}|0|0|key|3|value|5|{told}",
        f"{topic}|0|1||{NO_LENGTH}|unkeyed|7|{told}",
        f"{topic}|0|2|gone|4||{NO_LENGTH}|{told}",
    ]


def test_an_idempotent_producer_writes_each_record_once(kcat, new_topic):
    topic = new_topic()
    values = [str(number) for number in range(1000)]
    settings = ["-X", "enable.idempotence=true", "-X", "batch.num.messages=10"]
    kcat("-P", "-t", topic, *settings, stdin="\n".join(values))
    assert kcat("-C", "-t", topic, "-e").splitlines() == values


def test_all_partitions_are_read(kcat, new_topic):
    topic = new_topic(partitions=5)
    keyed = [f"{number}:{number}" for number in range(200)]
    kcat("-P", "-t", topic, "-K", ":", stdin="\n".join(keyed))
    lines = kcat("-C", "-t", topic, "-e", "-f", r"%p %s\n").splitlines()
    found = [line.split() for line in lines]
    assert sorted(int(value) for _, value in found) == list(range(200))
    assert {partition for partition, _ in found} == {"0", "1", "2", "3", "4"}


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("beginning", [0, 1, 2, 3]),
        (2, [2, 3]),
        (-1, [3]),
        ("end", []),
        ("s@1000", [0, 1, 2, 3]),
        ("s@2000", [1, 2, 3]),
        ("s@2001", [2, 3]),
        ("s@4001", []),
    ],
)
def test_reading_begins_where_it_should(kcat, at_times, start, expected):
    topic = at_times(1000, 2000, 3000, 4000)
    lines = kcat("-C", "-t", topic, "-p", 0, "-o", start, "-e", "-f", r"%o %T\n").splitlines()
    assert lines == [f"{offset} {(offset + 1) * 1000}" for offset in expected]


def test_reading_ends_at_a_time(kcat, at_times):
    topic = at_times(1000, 2000, 3000, 4000)
    times = ["-o", "s@2000", "-o", "e@4000"]
    lines = kcat("-C", "-t", topic, "-p", 0, *times, "-e", "-f", r"%s\n").splitlines()
    assert lines == ["at 2000", "at 3000"]


@pytest.mark.parametrize(
    ("timestamp", "offset"),
    [(EARLIEST, 0), (LATEST, 3), (1000, 0), (1001, 1), (3000, 2), (3001, NOWHERE)],
)
def test_offsets_are_found_by_time(kcat, at_times, timestamp, offset):
    topic = at_times(1000, 2000, 3000)
    assert kcat("-Q", "-t", f"{topic}:0:{timestamp}") == f"{topic} [0] offset {offset}\n"


def test_what_is_too_large_is_refused(kcat, new_topic):
    topic = new_topic(max_message_bytes=1000)
    complaint = kcat("-P", "-t", topic, "-c", 1, stdin="x" * 2000, is_well=False)
    assert "Message size too large" in complaint
    assert kcat("-C", "-t", topic, "-e") == ""
