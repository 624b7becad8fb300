"""S12: records that must not get into a log, which is then as it was."""

import pytest

from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.records.compression import Codec
from tests.support.batches import batch_around, batch_of
from tests.support.client_driver import Options, Refused, Sent
from tests.support.legacy_messages import message
from tests.support.logs import records_batch
from tests.support.partition_client import LATEST, PartitionClient

COMPACTED = {"cleanup_policy": "compact"}
SMALL = {"max_message_bytes": 500}


def flipped(batch):
    changed = bytearray(batch)
    changed[-1] ^= 1
    return changed


#: The topic, what is sent in which version, and the answer.
REFUSED = {
    "no key": (COMPACTED, batch_of(b"a"), 9, ErrorCode.INVALID_RECORD),
    "no key, of old": (COMPACTED, message(1, b"a"), 2, ErrorCode.INVALID_RECORD),
    "too large": (SMALL, batch_of(bytes(600)), 9, ErrorCode.MESSAGE_TOO_LARGE),
    "a wrong checksum": ({}, flipped(batch_of(b"a")), 9, ErrorCode.CORRUPT_MESSAGE),
    "a wrong checksum, of old": ({}, flipped(message(1, b"a")), 2, ErrorCode.CORRUPT_MESSAGE),
    "a codec that nobody knows": (
        {},
        batch_around(b"?", count=1, last_delta=0, codec=5),
        9,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ),
    "a codec that this version has not": (
        {},
        batch_of(b"a", codec=Codec.ZSTD),
        6,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ),
}


@pytest.mark.parametrize(("configs", "records", "version", "error"), REFUSED.values(), ids=REFUSED)
def test_s12_what_is_refused_leaves_the_log_as_it_was(
    broker, new_topic, configs, records, version, error
):
    topic = new_topic(**configs)
    with PartitionClient(broker.address, topic) as partition:
        assert partition.produce(records_batch(b"before", key=b"k")).base_offset == 0
        files = contents(broker, topic)
        answer = partition.produce(records, version=version)
        assert (ErrorCode.for_code(answer.error_code), answer.base_offset) == (error, -1)
        assert partition.offset_at(LATEST) == 1
        assert contents(broker, topic) == files
        assert partition.produce(records_batch(b"after", key=b"k")).base_offset == 1
        assert [record.value for record in partition.records()] == [b"before", b"after"]


def contents(broker, topic):
    return {path.name: path.read_bytes() for path in (broker.data_dir / f"{topic}-0").iterdir()}


#: Each library's name for the error.
NAMES = {
    "no key": {"INVALID_RECORD", "InvalidRecordError", "UnknownError"},  # to aiokafka it is new
    "too large": {"MSG_SIZE_TOO_LARGE", "MessageSizeTooLargeError"},
}
SENT = {"no key": (COMPACTED, b"a"), "too large": (SMALL, bytes(600))}


@pytest.mark.parametrize("reason", SENT)
def test_s12_a_client_is_told_and_may_go_on(broker, new_topic, driver, reason):
    configs, value = SENT[reason]
    topic = new_topic(**configs)
    with driver.producer(broker.address, Options(is_idempotent=False)) as producer:
        with pytest.raises(Refused) as refusal:
            producer.send(topic, [Sent(value)])
        assert str(refusal.value) in NAMES[reason]
        assert producer.send(topic, [Sent(b"after", key=b"k")]) == [0]
