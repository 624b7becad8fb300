"""Produce in all versions: records of every format and codec, and everything that can be wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from struct import pack_into
from typing import Any

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.records.batch import DELETE_HORIZON_FLAG, TRANSACTIONAL_FLAG
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record import Record
from tests.interop.differential_requests import (
    TIMEOUT_MS,
    Asked,
    Scope,
    Step,
    Values,
    created,
    fetch,
    fetched,
    new_topic,
    produce,
)
from tests.support.batches import batch_around, batch_of, with_checksum
from tests.support.legacy_messages import message, wrapper
from tests.support.logs import records_batch

PAST_MS = 1_700_000_000_000
#: Further ahead than message.timestamp.after.max.ms lets a record be.
FUTURE_MS = 4_000_000_000_000
MAGIC_POSITION = 16
COUNT_POSITION = 57
SIZE_POSITION = 8
SEQUENCE_POSITION = 53

#: For what leaves other records on the two brokers.
TWICE, UNREAD = "p-twice", "p-unread"

TOPICS: Mapping[str, Mapping[str, str | None]] = {
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "gzip": {"compression.type": "gzip"},
    "zstd": {"compression.type": "zstd"},
    "uncompressed": {"compression.type": "uncompressed"},
    "small": {"max.message.bytes": "200"},
    "small-segments": {"segment.bytes": "300", "max.message.bytes": "10000"},
    "compacted": {"cleanup.policy": "compact"},
    "any-time": {"message.timestamp.after.max.ms": str(2**63 - 1)},
    "not-old": {"message.timestamp.before.max.ms": "1000"},
    "two-in-sync": {"min.insync.replicas": "2"},
}


def scenario(scope: Scope) -> Iterator[Step]:
    versions = scope.of(ApiKey.PRODUCE)
    yield from created(*(new_topic(_topic(v), 2) for v in versions), new_topic(TWICE))
    yield from created(new_topic(UNREAD, config=TOPICS["any-time"]))
    topics = _topics(scope)
    yield from created(*(new_topic(f"p-{name}", config=texts) for name, texts in topics.items()))
    for version in versions:
        yield from _records_of_all_kinds(version)
        yield from _acknowledgements(version)
        yield from _topics_of_all_kinds(version, topics)
        yield from _several_at_once(version)
        yield from _sequences(version)
        yield from _what_is_there(version, _topic(version))
    if not versions:
        return
    without = produce(max(versions), _topic(max(versions)), None)
    yield Step("no records at all", ApiKey.PRODUCE, max(versions), without, may_be_silent=True)
    for name in topics:
        yield from _what_is_there(max(versions), f"p-{name}")


def _topics(scope: Scope) -> Mapping[str, Mapping[str, str | None]]:
    """Later releases have no such small segments."""
    left_out = () if scope.is_of_zookeeper else ("small-segments",)
    return {name: texts for name, texts in TOPICS.items() if name not in left_out}


def _topic(version: int) -> str:
    return f"p-{version}"


def _what_is_there(version: int, topic: str) -> Iterator[Step]:
    values = fetch(12, topic, fetched(0, 0), fetched(1, 0))
    yield Step(f"what is in {topic} at the end", ApiKey.FETCH, 12, values)


@cache
def _kinds() -> Mapping[str, bytes]:
    plain = bytes(records_batch(b"one", b"two"))
    return {
        "nothing": b"",
        "magic 0": message(0, b"old", key=b"k"),
        "magic 1": message(1, b"less old", timestamp=PAST_MS),
        "magic 0 twice": message(0, b"a") + message(0, b"b", offset=1),
        "magic 1 twice": message(1, b"a", timestamp=PAST_MS) + message(1, b"b", timestamp=5),
        **{
            f"magic {magic} {codec.name}": wrapper(
                magic,
                message(magic, b"in") + message(magic, b"side", offset=1),
                codec=codec,
                offset=1,
            )
            for magic in (0, 1)
            for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
        },
        "magic 1 ZSTD": message(1, b"\x28\xb5\x2f\xfd", attributes=4),
        "magic 0 in magic 1": wrapper(1, message(0, b"in")),
        "magic 0 with a wrong checksum": _flipped(message(0, b"old"), -1),
        "magic 2": plain,
        **{
            f"magic 2 {codec.name}": bytes(records_batch(b"one", b"two" * 50, codec=codec))
            for codec in Codec
            if codec
        },
        "one batch after another": plain + plain,
        "magic 1 after magic 2": plain + message(1, b"x"),
        "magic 2 after magic 1": message(1, b"x") + plain,
        "keys": bytes(records_batch(b"v", key=b"k")),
        "an offset to begin with": bytes(records_batch(b"a", b"b", base_offset=77)),
        "a leader epoch": bytes(records_batch(b"a", partition_leader_epoch=5)),
        "an append time": bytes(records_batch(b"a", append_time_ms=PAST_MS)),
        "of the future": bytes(records_batch(b"a", timestamp=FUTURE_MS)),
        "some of the future": _future_second(),
        "of the future, packed": bytes(records_batch(b"a", timestamp=FUTURE_MS, codec=Codec.GZIP)),
        "magic 1 of the future": message(1, b"a", timestamp=FUTURE_MS),
        "without a time": bytes(records_batch(b"a", timestamp=-1)),
        "transactional": bytes(
            records_batch(
                b"a", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True
            )
        ),
        "transactional, of nobody": with_checksum(_with_byte(plain, 22, TRANSACTIONAL_FLAG)),
        "a delete horizon": with_checksum(_with_byte(plain, 22, DELETE_HORIZON_FLAG)),
        "a marker": _control(),
        **_broken(plain),
    }


def _control() -> bytes:
    return bytes(
        records_batch(
            b"\0\0\0\0\0\0",
            key=b"\0\0\0\1",
            is_control=True,
            producer_id=5,
            producer_epoch=0,
            base_sequence=0,
        )
    )


def _future_second() -> bytes:
    first = records_batch(b"a", b"b")
    pack_into(">q", first, 35, FUTURE_MS)
    return with_checksum(first)


def _broken(plain: bytes) -> Mapping[str, bytes]:
    packed = records_batch(b"one", codec=Codec.GZIP)
    packed[-12:] = bytes(12)
    by_producer = bytes(records_batch(b"a", producer_id=9, producer_epoch=0, base_sequence=0))
    return {
        "a wrong checksum": _flipped(plain, -1),
        "cut": plain[:-1],
        "cut in the header": plain[:40],
        "cut after the size": plain[:12],
        "more after the batch": plain + b"\0\0\0",
        "part of a batch after the batch": plain + plain[:30],
        "magic 3": _with_byte(plain, MAGIC_POSITION, 3),
        "negative magic": _with_byte(plain, MAGIC_POSITION, 255),
        "a size of 0": _with_int(plain, SIZE_POSITION, 0),
        "a size below the smallest": _with_int(plain, SIZE_POSITION, 13),
        "a negative size": _with_int(plain, SIZE_POSITION, -5),
        "too large a size": _with_int(plain, SIZE_POSITION, 1 << 30),
        "a larger count": with_checksum(_with_int(plain, COUNT_POSITION, 3)),
        "a smaller count": with_checksum(_with_int(plain, COUNT_POSITION, 1)),
        "a count of none": with_checksum(_with_int(plain, COUNT_POSITION, 0)),
        "a negative count": with_checksum(_with_int(plain, COUNT_POSITION, -1)),
        "a larger last offset": with_checksum(_with_int(plain, 23, 5)),
        "a negative last offset": with_checksum(_with_int(plain, 23, -1)),
        "no records": batch_around(b"", count=0, last_delta=0),
        "records that are none": batch_around(b"\xff" * 9, count=1, last_delta=0),
        "codec 5": with_checksum(_with_byte(plain, 22, 5)),
        "codec 7": with_checksum(_with_byte(plain, 22, 7)),
        "packed rubbish": with_checksum(packed),
        "offsets with a gap": _gap(),
        "a sequence without a producer": with_checksum(_with_int(plain, SEQUENCE_POSITION, 5)),
        "a producer without a sequence": with_checksum(
            _with_int(by_producer, SEQUENCE_POSITION, -1)
        ),
        "a producer without an epoch": with_checksum(_with_int(by_producer, 51, -1)),
    }


def _gap() -> bytes:
    return bytes(batch_of(Record(0, 1, None, b"a"), Record(2, 1, None, b"b")))


def _records_of_all_kinds(version: int) -> Iterator[Step]:
    for name, records in _kinds().items():
        values = produce(version, _topic(version), records)
        yield Step(name, ApiKey.PRODUCE, version, values)


def _topics_of_all_kinds(version: int, topics: Collection[str]) -> Iterator[Step]:
    kinds = (
        "magic 0",
        "magic 1",
        "magic 2",
        "magic 2 GZIP",
        "magic 0 GZIP",
        "keys",
        "of the future",
    )
    for topic in topics:
        for kind in (*kinds, "magic 2 ZSTD", "one batch after another", "an append time"):
            values = produce(version, f"p-{topic}", _kinds()[kind])
            yield Step(f"{kind} to {topic}", ApiKey.PRODUCE, version, values)
    for size in (150, 300, 2000):
        for topic in sorted({"small", "small-segments"} & set(topics)):
            values = produce(version, f"p-{topic}", bytes(records_batch(b"x" * size)))
            yield Step(f"{size} bytes to {topic}", ApiKey.PRODUCE, version, values)
    packed = bytes(records_batch(b"x" * 5000, codec=Codec.GZIP))
    yield Step("packed to small", ApiKey.PRODUCE, version, produce(version, "p-small", packed))
    for kind in ("records that are none", "packed rubbish"):
        values = produce(version, UNREAD, _kinds()[kind])
        yield Step(f"{kind}, to a topic that takes any", ApiKey.PRODUCE, version, values)
    for topic in ("absent", "__consumer_offsets", "", "a b"):
        for client_id in ("any", "__admin_client"):
            values = produce(version, topic, _kinds()["magic 2"])
            name = f"to {topic!r} by {client_id}"
            yield Step(name, ApiKey.PRODUCE, version, values, client_id=client_id)


def _acknowledgements(version: int) -> Iterator[Step]:
    topic, right, wrong = _topic(version), _kinds()["magic 2"], _kinds()["a wrong checksum"]
    if version < 3:
        right = _kinds()["magic 1"]
    for acks in (1, -1, 2, -2, 32_767):
        for records in (right, wrong):
            for partition in (0, 7, -1):
                values = produce(version, topic, records, acks=acks, partition=partition)
                name = f"acks {acks}, {'right' if records is right else 'wrong'}, to {partition}"
                yield Step(name, ApiKey.PRODUCE, version, values)
        values = produce(version, "p-two-in-sync", right, acks=acks)
        yield Step(f"acks {acks} of two", ApiKey.PRODUCE, version, values)
        values = produce(version, topic, right, acks=acks, timeout_ms=-1)
        yield Step(f"acks {acks} in no time", ApiKey.PRODUCE, version, values)
    for name, records, partition in (
        ("right", right, 0),
        ("wrong", wrong, 0),
        ("absent", right, 7),
    ):
        values = produce(version, topic, records, acks=0, partition=partition)
        yield Step(f"acks 0, {name}", ApiKey.PRODUCE, version, values, is_answered=False)


def _several_at_once(version: int) -> Iterator[Step]:
    topic, right, wrong = _topic(version), _kinds()["magic 2"], _kinds()["a wrong checksum"]
    if version < 3:
        right = _kinds()["magic 1"]
    entries = {
        "two": [(0, right), (1, right)],
        "one of three wrong": [(0, right), (1, wrong), (7, right)],
        "one that is empty": [(0, right), (1, b"")],
        "none": [],
    }

    for name, partitions in entries.items():

        def of(broker: Any, partitions: list[Any] = partitions) -> Any:
            made = [{"index": index, "records": records} for index, records in partitions]
            named = {"name": topic, "partition_data": made}
            if version >= 13:
                named["topic_id"] = broker.topic_id(topic)
            return {"acks": -1, "timeout_ms": TIMEOUT_MS, "topic_data": [named]}

        yield Step(f"partitions, {name}", ApiKey.PRODUCE, version, of)
    for again in (right, wrong):
        entries_of_one = [{"index": 0, "records": each} for each in (right, again)]
        yield Step(
            f"one twice, {'right' if again is right else 'once wrong'}",
            ApiKey.PRODUCE,
            version,
            _produced_twice(version, entries_of_one),
        )
    nothing = {"acks": -1, "timeout_ms": TIMEOUT_MS, "topic_data": []}
    yield Step("no topics", ApiKey.PRODUCE, version, nothing)
    yield Step("no topics, bad acks", ApiKey.PRODUCE, version, {**nothing, "acks": 7})
    if version >= 3:
        for transactional_id in ("", "t"):
            values = produce(version, topic, right, transactional_id=transactional_id)
            yield Step(f"by {transactional_id!r}", ApiKey.PRODUCE, version, values)


def _produced_twice(version: int, entries: list[Values]) -> Callable[[Asked], Values]:
    def of(broker: Asked) -> Values:
        named: dict[str, Any] = {"name": TWICE, "partition_data": entries}
        if version >= 13:
            named["topic_id"] = broker.topic_id(TWICE)
        return {"acks": -1, "timeout_ms": TIMEOUT_MS, "topic_data": [named]}

    return of


def _sequences(version: int) -> Iterator[Step]:
    """What the broker remembers of a producer."""
    if version < 3:
        return
    sent = {
        "first": (0, 0),
        "second": (0, 1),
        "first again": (0, 0),
        "a gap": (0, 9),
        "a new epoch": (1, 0),
        "a new epoch, not from 0": (2, 5),
        "an old epoch": (0, 2),
    }
    for name, (epoch, sequence) in sent.items():
        records = records_batch(
            b"x", producer_id=900 + version, producer_epoch=epoch, base_sequence=sequence
        )
        values = produce(version, _topic(version), bytes(records), partition=1)
        yield Step(f"a producer, {name}", ApiKey.PRODUCE, version, values)
    late = records_batch(b"x", producer_id=950 + version, producer_epoch=0, base_sequence=5)
    values = produce(version, _topic(version), bytes(late), partition=1)
    yield Step("an unknown producer", ApiKey.PRODUCE, version, values)


def _flipped(records: bytes, position: int) -> bytes:
    changed = bytearray(records)
    changed[position] ^= 0xFF
    return bytes(changed)


def _with_byte(records: bytes, position: int, number: int) -> bytes:
    changed = bytearray(records)
    changed[position] = number
    return bytes(changed)


def _with_int(records: bytes, position: int, number: int) -> bytes:
    changed = bytearray(records)
    pack_into(">i", changed, position, number)
    return bytes(changed)
