"""S11: Kafka's own tool finds nothing wrong with the files that our broker leaves.

They are written by all clients, in every codec, over many segments, and once more by a broker that
was killed and has recovered.
"""

import re
import time

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.client_driver import CODECS, Options, Sent
from tests.support.client_drivers import DRIVERS
from tests.support.log_dump import dumped
from tests.support.partition_client import PartitionClient, create_topic

CHECKED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
SMALL = {"segment_bytes": 2_500, "index_interval_bytes": 300, "segment_index_bytes": 4_096}
BUSY = (
    "log.cleaner.backoff.ms=50",
    "log.cleaner.dedupe.buffer.size=2097152",
    "log.segment.delete.delay.ms=0",
    "log.initial.task.delay.ms=0",
)
PLAIN, COMPACTED = "plain", "compacted"
PARTITIONS = 2
KEYS = 7
AT_ONCE = 20
WAIT_S = 30
OPTIONS = pytest.mark.parametrize(
    "options", [["--deep-iteration"], ["--verify-index-only"], ["--index-sanity-check"]], ids=str
)
#: What the tool says of Kafka's own compacted files as well: there are gaps between offsets, and
#: batches without records, in which it finds no timestamp.
MENTIONED = (
    "^Non-consecutive offsets in |^  [0-9]+ is followed by [0-9]+$"
    "|^Found timestamp mismatch in |^  Index timestamp: [0-9]+, log timestamp: -1$"
)


@pytest.fixture(scope="module", params=["stopped", "killed"])
def written(request, tmp_path_factory):
    """The directory of a broker that has stopped, and what the plain topic was sent."""
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "logs", *BUSY).start() as broker:
        create_topic(broker.address, PLAIN, partitions=PARTITIONS, **SMALL)
        create_topic(
            broker.address,
            COMPACTED,
            cleanup_policy="compact",
            min_cleanable_dirty_ratio=0.01,
            **SMALL,
        )
        sent = write(broker)
        wait_until_compacted(broker)
        if request.param == "killed":
            broker.kill()
            broker.start()
            sent += write(broker)
        broker.stop()
        yield broker.data_dir, sent


def write(broker):
    """By each client in each codec; the values that went to the plain topic."""
    values = []
    for driver in DRIVERS:
        for codec in CODECS:
            options = Options(codec=codec, is_idempotent=True)
            with driver.producer(broker.address, options) as producer:
                some = [b"%s %s %d" % (driver.name.encode(), codec.encode(), n) for n in range(40)]
                for begin in range(0, len(some), AT_ONCE):
                    for topic in (PLAIN, COMPACTED):
                        producer.send(topic, [*records(topic, some[begin : begin + AT_ONCE])])
                values += some
    return values


def records(topic, values):
    for number, value in enumerate(values):
        partition = number % PARTITIONS if topic == PLAIN else 0
        yield Sent(value, key=b"%d" % (number % KEYS), partition=partition)


def wait_until_compacted(broker):
    deadline = time.monotonic() + WAIT_S
    with PartitionClient(broker.address, COMPACTED) as partition:
        while len(found := partition.records()) == found[-1].offset + 1:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def files_in(directory, topic):
    return sorted(path for path in directory.glob(f"{topic}-*/*") if path.suffix in CHECKED)


@OPTIONS
def test_s11_kafkas_tool_finds_nothing_wrong_with_the_files_of_a_broker(
    written, kafka_39_jars, options
):
    directory, _ = written
    files = files_in(directory, PLAIN)
    assert {path.suffix for path in files} == set(CHECKED) - {".txnindex"}
    assert len(files) > 20
    dump = dumped(kafka_39_jars, files, options)
    assert dump.complaints == []
    assert not [line for line in dump.printed if "isvalid: false" in line]


@OPTIONS
def test_s11_so_it_is_with_compacted_files(written, kafka_39_jars, options):
    directory, _ = written
    files = files_in(directory, COMPACTED)
    dump = dumped(kafka_39_jars, files, options)
    assert [line for line in dump.complaints if not re.search(MENTIONED, line)] == []
    batches = [line for line in dump.printed if " magic: " in line]
    assert all(line.endswith("isvalid: true") for line in batches)


def test_s11_kafkas_tool_reads_every_record_that_was_sent(written, kafka_39_jars):
    directory, sent = written
    segments = [path for path in files_in(directory, PLAIN) if path.suffix == ".log"]
    dump = dumped(kafka_39_jars, segments, ["--deep-iteration", "--print-data-log"])
    found = [
        payload[1].encode()
        for line in dump.printed
        if (payload := re.search(r"^\| .* payload: (.*)$", line))
    ]
    assert sorted(found) == sorted(sent)
