"""Log directories that we wrote, read by Apache Kafka: by its tool, and by a broker on them.

They are written in the place of a broker's own, once closed and once left as a kill leaves them;
the broker that then starts on them must tell what our own logs tell.  What it appends to them is
read here in turn.
"""

import shutil
import time
from dataclasses import replace

import pytest

from tests.interop.data_directory_scene import Scene, send
from tests.interop.partition_observer import PartitionObserver, completed
from tests.interop.written_directories import TOPICS, write_instead
from tests.support.apache_kafka import zookeeper_broker
from tests.support.log_answers import answers_of, opened_logs, wrong_timestamps
from tests.support.log_dump import dumped
from tests.support.recorded_directories import RecordedDirectory

LOG_PROPERTIES = {"log.index.size.max.bytes": "65536"}
CHECKED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
COMPACTED = "compacted"


class Served:
    """What we wrote, what a broker on it told, and what is there after it appended."""

    def __init__(self, written, directory, jars):
        self.written = written
        self.directory = directory
        self.jars = jars

    def compared(self, tell):
        logs = opened_logs(self.told, self.fresh_copy())
        ours = {
            each.topic: tell(answers_of(logs[each.name], each)) for each in self.told.partitions
        }
        return ours, {each.topic: tell(each) for each in self.told.partitions}

    def fresh_copy(self):
        """To open, which changes it."""
        copy = self.directory / f"copy-{time.monotonic_ns()}"
        shutil.copytree(self.written, copy)
        return copy

    def serve(self, broker, scene):
        now_ms = int(time.time() * 1000)
        with broker, PartitionObserver(broker) as observer:
            told = [observer.observed(partition) for partition in observer.partitions()]
            producer = scene.producer(enable_idempotence="false")
            for topic in TOPICS:
                send(producer, topic, [next(iter(scene.batches(1)))[0]])
            self.records_at_last = {
                partition.topic: observer.observed(partition)["records"]
                for partition in observer.partitions()
            }
        self.after = broker.data_directory
        self.told = RecordedDirectory(
            name="written",
            recorded_with=broker.version,
            recorded_at_ms=now_ms,
            broker=LOG_PROPERTIES,
            topics={topic: written.configs for topic, written in TOPICS.items()},
            partitions=tuple(completed(told, self.jars, self.after)),
        )


@pytest.fixture(scope="module", params=["closed", "abandoned"])
def served(request, zookeeper, kafka_39_jars, tmp_path_factory):
    directory = tmp_path_factory.mktemp(request.param)
    address = f"{zookeeper.address}/{directory.name}"
    broker = zookeeper_broker(directory, zookeeper=address)
    scene = Scene(broker.start(), zookeeper=address)
    for topic, written in TOPICS.items():
        scene.create(topic, written.configs)
    scene.restart()
    broker.stop()
    write_instead(broker.data_directory, now_ms=scene.now_ms, is_closed=request.param == "closed")
    written = directory / "written"
    shutil.copytree(broker.data_directory, written)
    served = Served(written, directory, kafka_39_jars)
    served.serve(broker, scene)
    return served


@pytest.mark.parametrize(
    "options", [["--deep-iteration"], ["--verify-index-only"], ["--index-sanity-check"]], ids=str
)
def test_s11_kafkas_tool_finds_nothing_wrong_with_what_we_closed(served, options):
    copy = served.fresh_copy()
    for log in opened_logs(served.told, copy).values():
        log.close(now_ms=served.told.recorded_at_ms)
    found = sorted(path for path in copy.glob("*-0/*") if path.suffix in CHECKED)
    # Compaction leaves gaps between offsets, which the tool always mentions.
    gapless = [path for path in found if not path.match(f"{COMPACTED}-0/*.log")]
    assert len(gapless) > 100
    printed, complaints = dumped(served.jars, gapless, options)
    assert complaints == []
    assert not [line for line in printed if "isvalid: false" in line]


def test_a_broker_serves_the_records_we_wrote(served):
    ours, kafkas = served.compared(lambda each: each.records)
    assert ours == kafkas


def test_a_broker_finds_the_ends_of_our_logs(served):
    ours, kafkas = served.compared(
        lambda each: (each.start_offset, each.last_stable_offset, each.end_offset)
    )
    assert ours == kafkas


def test_a_broker_shows_the_same_committed_records(served):
    ours, kafkas = served.compared(lambda each: each.committed_offsets)
    assert ours == kafkas


def test_a_broker_knows_our_producers_and_aborted_transactions(served):
    ours, kafkas = served.compared(lambda each: (each.producers, each.aborted))
    assert ours == kafkas


def test_a_broker_finds_our_timestamps(served):
    ours, kafkas = served.compared(lambda each: each)
    wrong = {topic: list(wrong_timestamps(ours[topic], kafkas[topic])) for topic in TOPICS}
    assert not any(wrong.values()), wrong


def test_fetches_from_a_broker_bring_the_same_bytes(served):
    ours, kafkas = served.compared(
        lambda each: [
            replace(fetched, aborted=tuple(sorted(fetched.aborted))) for fetched in each.fetches
        ]
    )
    assert ours == kafkas


def test_what_a_broker_appends_to_our_logs_is_read_here(served):
    logs = opened_logs(served.told, served.after)
    records = {
        each.topic: answers_of(logs[each.name], each).records for each in served.told.partitions
    }
    assert records == served.records_at_last
    assert all(records.values())
