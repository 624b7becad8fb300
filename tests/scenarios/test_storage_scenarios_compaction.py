"""S9: a log is compacted while it is written and read, with tombstones and transactions in it.

The transactions are laid into the log before the broker starts, as there is nobody yet to end them.
"""

import itertools
import time

import confluent_kafka
import pytest

from odradek.protocol.types import TopicPartition
from tests.support.broker_process import BrokerProcess
from tests.support.logs import append
from tests.support.offline_logs import end_transaction, offline_logs
from tests.support.partition_client import create_topic
from tests.support.persistent_load import Silent

BUSY = (
    "log.cleaner.backoff.ms=50",
    "replica.high.watermark.checkpoint.interval.ms=50",  # and with them how far it is compacted
    "log.initial.task.delay.ms=0",
    "log.segment.delete.delay.ms=0",
    "log.cleaner.dedupe.buffer.size=2097152",
)
SETTINGS = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": 0.01,
    "segment_bytes": 4_000,
}
DAY_MS = 86_400_000
#: How long tombstones stay in each topic.
TOPICS = {"patient": DAY_MS, "hasty": 1}
KEYS = [b"key %d" % number for number in range(8)]
#: Its last committed value has only aborted ones behind it.
OVERWRITTEN = b"overwritten in vain"
COMMITTING, ABORTING = 1, 2
WAIT_S = 60
COMPACTIONS = 2
#: Compaction is to keep up, on a busy machine too.
PAUSE_S = 0.03
TIMEOUT_S = 20


class Known:
    """What is in a topic: every record by its offset, and the last one of every key."""

    def __init__(self):
        self.records = {}
        self.last = {}

    def note(self, offset, key, value):
        self.records[offset] = (key, value)
        self.last[key] = value


@pytest.fixture
def broker(tmp_path):
    with BrokerProcess(tmp_path / "logs", *BUSY).start() as running:
        for topic, retention_ms in TOPICS.items():
            create_topic(running.address, topic, delete_retention_ms=retention_ms, **SETTINGS)
        running.stop()
        yield running
        assert "Traceback" not in running.log_text


def lay_transactions(broker, topic, known):
    """Committed ones, and aborted ones of the same keys and of others; the end of the log."""
    with (
        offline_logs(broker.data_dir, segment_bytes=SETTINGS["segment_bytes"]) as logs,
        logs.find(TopicPartition(topic, 0)) as log,
    ):
        for number in range(12):
            for producer_id, name in ((COMMITTING, b"committed"), (ABORTING, b"aborted")):
                lay(log, producer_id, number, [*KEYS, OVERWRITTEN, b"only " + name], name)
            now_ms = int(time.time() * 1000)
            end_transaction(log, COMMITTING, is_commit=True, timestamp=now_ms)
            end_transaction(log, ABORTING, is_commit=False, timestamp=now_ms)
        assert len(log.segments) > 3
        for batch in (batch for segment in log.segments for _, batch in segment.batches()):
            if batch.producer_id == COMMITTING and not batch.is_control:
                for record in batch.records():
                    known.note(record.offset, record.key, record.value)
        return log.log_end_offset


def lay(log, producer_id, number, keys, name):
    for at, key in enumerate(keys):
        append(
            log,
            b"%s %d" % (name, number),
            key=key,
            timestamp=int(time.time() * 1000),
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=number * len(keys) + at,
            is_transactional=True,
        )


class Writer:
    """Writes to a topic, and keeps note of where."""

    def __init__(self, broker, topic, known):
        self._topic = topic
        self._known = known
        self._failures = []
        self._made = confluent_kafka.Producer(
            {"bootstrap.servers": broker.address, "enable.idempotence": True, "linger.ms": 0},
            logger=Silent(),
        )

    def write(self, pairs):
        for key, value in pairs.items():
            self._made.produce(self._topic, value, key, on_delivery=self._note)
        assert self._made.flush(TIMEOUT_S) == 0
        assert self._failures == []

    def _note(self, error, message):
        if error is not None:
            self._failures.append(error)
        else:
            self._known.note(message.offset(), message.key(), message.value())


def read_committed(broker, topic):
    """Offset, key and value of all that a consumer sees from the beginning to the end."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "never-asked-for",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        },
        logger=Silent(),
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        found, deadline = [], time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is not None:
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                return found
            found.append((message.offset(), message.key(), message.value()))
        raise AssertionError("the end did not come")
    finally:
        consumer.close()


def check(found, known):
    """Offsets are what they were, and nothing is there that was aborted."""
    offsets = [offset for offset, _, _ in found]
    assert offsets == sorted(set(offsets))
    for offset, key, value in found:
        assert known.records[offset] == (key, value)


def cleaned_to(broker, topic):
    """How far the topic has been compacted."""
    path = broker.data_dir / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines() if path.exists() else []
    return max((int(line.split()[2]) for line in lines if line.startswith(f"{topic} ")), default=0)


def write_while_compacted(broker, topic, writer, *, keys, enough):
    """Values and tombstones, until ``enough`` is said of how far each compaction came."""
    seen, deadline = set(), time.monotonic() + WAIT_S
    for number in itertools.count():
        assert time.monotonic() < deadline, seen
        tombstone = keys[number % len(keys)]
        writer.write({key: None if key == tombstone else b"%d" % number for key in keys})
        seen |= {cleaned_to(broker, topic)} - {0}
        if number % 10 == 0 and enough(sorted(seen)):
            return
        time.sleep(PAUSE_S)
    raise AssertionError


@pytest.mark.parametrize("topic", TOPICS)
def test_s9_the_last_committed_value_of_every_key_survives_and_no_aborted_one_is_seen(
    broker, topic
):
    known = Known()
    laid = lay_transactions(broker, topic, known)
    broker.start()
    writer = Writer(broker, topic, known)

    def everything_laid_is_compacted(seen):
        check(read_committed(broker, topic), known)
        return len(seen) >= COMPACTIONS and seen[-1] > laid

    write_while_compacted(broker, topic, writer, keys=KEYS, enough=everything_laid_is_compacted)
    deleted, others = KEYS[:3], KEYS[3:]
    writer.write(dict.fromkeys(deleted))
    tombstones = max(known.records)

    def tombstones_were_compacted(seen):
        later = [offset for offset in seen if offset > tombstones]
        if topic == "hasty":
            return later and not last_values(broker, topic, known).keys() & set(deleted)
        return len(later) >= COMPACTIONS

    write_while_compacted(broker, topic, writer, keys=others, enough=tombstones_were_compacted)
    last = last_values(broker, topic, known)
    wanted = dict(known.last)
    if topic == "hasty":
        # Of the others a tombstone may be gone already.
        wanted = {key: value for key, value in wanted.items() if value is not None or key in last}
        assert not last.keys() & set(deleted)
    else:
        assert [last[key] for key in deleted] == [None] * len(deleted)
    assert last == wanted
    assert last[b"only committed"] == last[OVERWRITTEN] == b"committed 11"


def last_values(broker, topic, known):
    """Of every key that a consumer sees."""
    found = read_committed(broker, topic)
    check(found, known)
    assert len(found) < len(known.records)
    return {key: value for _, key, value in found}
