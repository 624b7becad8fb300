"""S2 to S4: a broker that starts on files which were cut, changed or lost while it was down.

A topic has a partition for every damage, so that one start of the broker shows what all of them do.
"""

import time
from random import Random

import pytest

from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import TopicPartition
from tests.support.broker_process import BrokerProcess
from tests.support.damage import cut, flip
from tests.support.logs import append, records_batch
from tests.support.offline_logs import end_transaction, offline_logs
from tests.support.partition_client import LATEST, READ_COMMITTED, PartitionClient, create_topic
from tests.support.wire_client import WireClient

FIRST = bytes(records_batch(b"0", b"1", b"2"))
LAST = bytes(records_batch(b"3"))
NEXT = bytes(records_batch(b"next"))
#: Offset and leader's epoch, which the checksum does not cover.
UNCOVERED = {*range(8), *range(12, 16)}
COVERED = [position for position in range(len(LAST)) if position not in UNCOVERED]
ERROR = "an error"
FOREVER = {"retention_ms": -1, "segment_index_bytes": 4_096}


@pytest.fixture
def broker(tmp_path):
    with BrokerProcess(tmp_path / "logs").start() as running:
        yield running
        assert "Traceback" not in running.log_text


def on_every_partition(broker, topic, count, use):
    """What ``use`` tells of each, by its number."""
    with WireClient(broker.address) as wire:
        return [
            use(PartitionClient(broker.address, topic, number, over=wire))
            for number in range(count)
        ]


def segments(broker, topic, number):
    return sorted((broker.data_dir / f"{topic}-{number}").glob("*.log"))


def values_in(partition):
    return [record.value for record in partition.records()]


def fill_and_kill(broker, topic, *, partitions):
    create_topic(broker.address, topic, partitions=partitions, **FOREVER)

    def fill(partition):
        return [partition.produce(batch).error_code for batch in (FIRST, LAST)]

    assert on_every_partition(broker, topic, partitions, fill) == [[0, 0]] * partitions
    broker.kill()


def ends_before_the_last_batch(partition):
    """And goes on from there."""
    found = partition.offset_at(LATEST), values_in(partition)
    base_offset = partition.produce(NEXT).base_offset
    return found == (3, [b"0", b"1", b"2"]) and base_offset == 3


def test_s2_cut_at_any_byte_of_the_last_batch_a_log_ends_before_it(broker):
    count = len(LAST)
    fill_and_kill(broker, "torn", partitions=count + 1)
    for number in range(count):
        (path,) = segments(broker, "torn", number)
        assert path.stat().st_size == len(FIRST) + len(LAST)
        cut(path, len(FIRST) + number)
    broker.start()
    assert all(on_every_partition(broker, "torn", count, ends_before_the_last_batch))
    with PartitionClient(broker.address, "torn", count) as whole:
        assert (whole.offset_at(LATEST), values_in(whole)[-1]) == (4, b"3")
        assert whole.produce(NEXT).base_offset == 4


def test_s3_a_log_that_was_not_closed_ends_before_a_changed_last_batch(broker):
    fill_and_kill(broker, "changed", partitions=len(COVERED))
    for number, position in enumerate(COVERED):
        (path,) = segments(broker, "changed", number)
        flip(path, len(FIRST) + position, mask=0x04)
    broker.start()
    ended = on_every_partition(broker, "changed", len(COVERED), ends_before_the_last_batch)
    assert all(ended), [at for at, is_so in zip(COVERED, ended, strict=True) if not is_so]
    for number in range(len(COVERED)):
        assert f"changed-{number}" in broker.log_text


def test_s3_no_offset_is_given_anew_after_a_change_in_a_closed_segment(broker):
    # It is that of offset 4, the second of three in its segment; there is another behind it.
    count, batches = len(COVERED), 9
    size = 3 * len(LAST)
    create_topic(broker.address, "sealed", partitions=count, segment_bytes=size, **FOREVER)

    def fill(partition):
        return [
            partition.produce(records_batch(b"%d" % number)).base_offset
            for number in range(batches)
        ]

    assert on_every_partition(broker, "sealed", count, fill) == [[*range(batches)]] * count
    broker.stop()
    for number, position in enumerate(COVERED):
        path = segments(broker, "sealed", number)[1]
        flip(path, len(LAST) + position, mask=0x04)
    broker.start()

    def judged(partition):
        assert partition.offset_at(LATEST) == batches
        read = {offset: read_at(partition, offset) for offset in range(batches)}
        assert partition.produce(NEXT).base_offset == batches
        return read

    sound = {offset: b"%d" % offset for offset in range(batches)} | {4: ERROR}
    # A length that was changed hides what follows in the segment.
    hidden = sound | {5: ERROR}
    for position, read in zip(
        COVERED, on_every_partition(broker, "sealed", count, judged), strict=True
    ):
        assert read in (sound, hidden), position


def read_at(partition, offset):
    """The value there, or that the broker or the checksum tells of an error."""
    line = partition.fetch(offset, max_bytes=1)
    if line.error_code:
        assert ErrorCode.for_code(line.error_code) is ErrorCode.CORRUPT_MESSAGE
        return ERROR
    batch = partition.batches(offset, max_bytes=1)[0]
    if not batch.is_valid():
        return ERROR
    (record,) = batch.records()
    assert record.offset == offset
    return record.value


ENDINGS = (".index", ".timeindex", ".txnindex", ".snapshot")
DAMAGES = {
    "deleted": lambda path: path.unlink(),
    "emptied": lambda path: cut(path, 0),
    "cut": lambda path: cut(path, path.stat().st_size // 2 | 1),  # no whole number of entries
    "changed": lambda path: change_some(path),
    "overwritten": lambda path: path.write_bytes(Random(0).randbytes(path.stat().st_size)),
}
CASES = [(ending, damage) for ending in ENDINGS for damage in DAMAGES]
#: A segment without aborted transactions has no such file, and is closed without one.
UNNOTICED_IF_CLOSED = {(".txnindex", "deleted"), (".txnindex", "emptied")}
INDEXED = "indexed"
TODAY_MS = int(time.time() * 1000)
SMALL = {"segment_bytes": 700, "index_interval_bytes": 100, "segment_index_bytes": 240}
IDEMPOTENT, COMMITTING, ABORTING, OPEN = 1, 2, 3, 4


def change_some(path):
    for position in range(0, path.stat().st_size, 7):
        flip(path, position)


def write_everything(log):
    """Producers, and transactions of every fate, over several segments."""
    sequences = dict.fromkeys((IDEMPOTENT, COMMITTING, ABORTING, OPEN), 0)
    for number in range(12):
        for producer_id in sequences:
            append(
                log,
                b"%d of %d" % (number, producer_id),
                timestamp=TODAY_MS + 10 * (number ^ 1),
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequences[producer_id],
                is_transactional=producer_id != IDEMPOTENT,
            )
            sequences[producer_id] += 1
        end_transaction(log, COMMITTING, is_commit=True, timestamp=TODAY_MS)
        if number % 2:
            end_transaction(log, ABORTING, is_commit=False, timestamp=TODAY_MS)
        if number == 8:
            end_transaction(log, OPEN, is_commit=True, timestamp=TODAY_MS)
    assert len(log.segments) > 5


def answers(partition):
    """All that clients are told."""
    end = partition.offset_at(LATEST)
    read = []
    for offset in range(end):
        line = partition.fetch(offset, max_bytes=1, isolation_level=READ_COMMITTED)
        # Of those that begin later there may be more or less: the index leads to a bound.
        aborted = [
            (each.producer_id, each.first_offset)
            for each in line.aborted_transactions
            if each.first_offset <= offset
        ]
        stable = line.last_stable_offset
        read.append((line.error_code, bytes(line.records or b""), aborted, stable))
    found = [partition.offset_at(TODAY_MS + at) for at in range(-5, 130, 5)]
    known = sorted(
        (each.producer_id, each.last_sequence, each.current_txn_start_offset)
        for each in partition.producers()
    )
    return end, read, found, known


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "not closed"])
def test_s4_what_is_beside_the_batches_is_made_anew_and_nobody_notices(broker, is_closed):
    count = len(CASES) + 1
    create_topic(broker.address, INDEXED, partitions=count, retention_ms=-1, **SMALL)
    broker.stop()
    with offline_logs(broker.data_dir, **SMALL) as logs:
        for number in range(count):
            with logs.find(TopicPartition(INDEXED, number)) as log:
                write_everything(log)
    broker.start()
    sound, *others = on_every_partition(broker, INDEXED, count, answers)
    assert others == [sound] * len(CASES)
    end, read, found, known = sound
    assert end == len(read) > 50
    assert {aborted for _, _, aborted, _ in read if aborted for aborted in aborted}
    assert len(set(found)) > 5
    assert [producer_id for producer_id, _, _ in known] == [IDEMPOTENT, COMMITTING, ABORTING, OPEN]
    broker.stop()
    if not is_closed:
        for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
            (broker.data_dir / name).unlink()
    for number, (ending, damage) in enumerate(CASES, start=1):
        paths = list((broker.data_dir / f"{INDEXED}-{number}").glob(f"*{ending}"))
        assert paths, ending
        for path in paths:
            DAMAGES[damage](path)
    broker.start()
    told = on_every_partition(broker, INDEXED, count, answers)
    assert told[0] == sound
    differing = {case for case, answer in zip(CASES, told[1:], strict=True) if answer != sound}
    assert differing == (UNNOTICED_IF_CLOSED if is_closed else set())
