"""The notification znodes that brokers write for the controller, as Kafka writes them."""

import pytest

from odradek.controller.store.payloads.json_object import CorruptPayload
from odradek.controller.store.payloads.notifications import IsrChange, LogDirEvent
from odradek.protocol.types import TopicPartition

ISR_CHANGE = b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"u","partition":3}]}'
LOG_DIR_EVENT = b'{"version":1,"broker":3,"event":1}'


def test_isr_change_is_encoded_as_in_kafka():
    change = IsrChange((TopicPartition("t", 0), TopicPartition("u", 3)))
    assert change.encode() == ISR_CHANGE
    assert IsrChange.decode(ISR_CHANGE) == change


def test_duplicate_partition_is_decoded_once():
    value = b'{"partitions":[{"topic":"t","partition":0},{"topic":"t","partition":0}]}'
    assert IsrChange.decode(value).partitions == (TopicPartition("t", 0),)


def test_log_dir_event_is_encoded_as_in_kafka():
    assert LogDirEvent(3).encode() == LOG_DIR_EVENT
    assert LogDirEvent.decode(LOG_DIR_EVENT) == LogDirEvent(3)


def test_unknown_fields_are_kept():
    for payload, value in ((IsrChange, ISR_CHANGE), (LogDirEvent, LOG_DIR_EVENT)):
        newer = value[:-1] + b',"why":"x"}'
        assert payload.decode(newer).encode() == newer


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        b'{"partitions":{}}',
        b'{"partitions":[1]}',
        b'{"partitions":[{"topic":"t"}]}',
        b'{"partitions":[{"partition":0}]}',
        b'{"partitions":[{"topic":1,"partition":0}]}',
        b'{"partitions":[{"topic":"t","partition":"0"}]}',
    ],
)
def test_malformed_isr_change_is_rejected(value):
    with pytest.raises(CorruptPayload, match=r"^/n: "):
        IsrChange.decode(value, "/n")


@pytest.mark.parametrize("value", [b"", b"{}", b'{"broker":"3"}', b'{"broker":3,"event":"1"}'])
def test_malformed_log_dir_event_is_rejected(value):
    with pytest.raises(CorruptPayload, match=r"^/n: "):
        LogDirEvent.decode(value, "/n")
