"""Record sets, right and wrong in one way each, and the kind of topic that each is sent to.

Names begin with what they are about.  Timestamps are far from any present: decades old, or to come.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from struct import pack_into

from odradek.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    TRANSACTIONAL_FLAG,
)
from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.compression import Codec, compress
from odradek.protocol.records.legacy_builder import LegacyFormat, build_legacy_set
from odradek.protocol.records.record import Header, Record, write_record
from tests.support.batches import batch_around, with_checksum
from tests.support.legacy_messages import message, message_around, wrapper

OLD = 1_000_000_000_000
FUTURE = 10_000_000_000_000
NO_TIMESTAMP = -1

# The records are decades old: by default they would be deleted before they are looked at.
KEPT = {"retention.ms": "-1", "segment.ms": str(2**63 - 1)}
COMPACTED = {"cleanup.policy": "compact"}
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
NOT_BEFORE = {"message.timestamp.before.max.ms": "1000000"}
NOT_AFTER = {"message.timestamp.after.max.ms": "1000000"}

KEYED = (
    Record(0, OLD, b"a", b"one"),
    Record(1, OLD + 5, b"b", b"two", (Header("h", None),)),
    Record(2, OLD + 2, b"c", None),
)
KEYLESS_SECOND = (KEYED[0], Record(1, OLD + 5, None, b"two"), KEYED[2])
WITHOUT_HEADERS = tuple(record._replace(headers=()) for record in KEYED)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    records: bytes
    version: int = 8  # of the Produce request
    topic: Mapping[str, str] = field(default_factory=dict)
    transactional_id: str | None = None


def cases() -> list[Case]:
    return [
        *_whole_sets(),
        *_headers(),
        *_producers(),
        *_sizes(),
        *_codecs(),
        *_keys(),
        *_timestamps(),
        *_append_times(),
        *_contradictions(),
        *_old_formats(),
        *_old_damage(),
    ]


def _whole_sets() -> Iterator[Case]:
    batch = built(*KEYED)
    yield Case("set: one batch", batch)
    yield Case("set: one batch in the oldest request that carries one", batch, 3)
    yield Case("set: a batch of magic 2 in an older request", batch, 2)
    yield Case("set: a partial batch behind a whole one", batch + batch[:-1])
    yield Case("set: eleven bytes behind a whole batch", batch + batch[:11])
    yield Case("set: only a partial batch", batch[:-1])
    yield Case("set: only a partial batch in an older request", batch[:-1], 2)
    yield Case("set: empty", b"")
    yield Case("set: empty in an older request", b"", 2)
    yield Case("set: two batches", batch + batch)
    yield Case("set: two batches of magic 2 in an older request", batch + batch, 2)


def _headers() -> Iterator[Case]:
    batch = built(*KEYED)
    yield Case("header: wrong checksum", patched(batch, 17, ">I", 1, checksum=False))
    yield Case("header: unknown magic", patched(batch, 16, ">b", 3, checksum=False))
    yield Case("header: negative magic", patched(batch, 16, ">b", -1, checksum=False))
    yield Case("header: length too short for any magic", patched(batch, 8, ">i", 13))
    yield Case("header: length too short for magic 2", patched(batch, 8, ">i", 48)[:60])
    misplaced = patched(batch, 0, ">q", 1)
    yield Case("header: base offset 1", misplaced)
    yield Case(
        "header: base offset 1 and a wrong checksum",
        patched(misplaced, 17, ">I", 1, checksum=False),
    )
    yield Case("header: leader epoch of the client's choice", patched(batch, 12, ">i", 77))
    yield Case("header: no records", batch_around(b"", count=0, last_delta=0))
    yield Case("header: no records, and no offsets", batch_around(b"", count=0, last_delta=-1))
    yield Case("header: negative count", patched(batch, 57, ">i", -1))
    yield Case("header: negative last offset delta", patched(batch, 23, ">i", -2))
    yield Case("header: count above the offsets", patched(batch, 57, ">i", 4))
    yield Case("header: count below the offsets", patched(batch, 57, ">i", 2))
    billions = patched(patched(batch, 23, ">i", 2**31 - 2), 57, ">i", 2**31 - 1)
    yield Case("header: billions of records", billions)
    yield Case("header: delete horizon", flagged(batch, DELETE_HORIZON_FLAG))
    yield Case("header: unused attributes", flagged(batch, 0x4080))


def _producers() -> Iterator[Case]:
    known = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    batch = built(*KEYED, **known)
    yield Case("producer: idempotent", batch)
    yield Case("producer: control batch", flagged(built(*KEYED), CONTROL_FLAG))
    yield Case("producer: id without sequence", patched(batch, 53, ">i", -1))
    yield Case("producer: id without epoch", patched(batch, 51, ">h", -1))
    yield Case("producer: epoch below none", patched(batch, 51, ">h", -2))
    yield Case("producer: id below none", patched(batch, 43, ">q", -2))
    yield Case("producer: only an id, below none", patched(built(*KEYED), 43, ">q", -2))
    yield Case("producer: sequence without id", patched(built(*KEYED), 53, ">i", 7))
    transactional = flagged(built(*KEYED), TRANSACTIONAL_FLAG)
    yield Case("producer: transactional without id", transactional, transactional_id="t")


def _sizes() -> Iterator[Case]:
    batch = built(*KEYED)
    limit = {"max.message.bytes": str(len(batch))}
    yield Case("size: the largest allowed", batch, topic=limit)
    yield Case("size: one byte more", batch, topic={"max.message.bytes": str(len(batch) - 1)})
    yield Case(
        "size: too large and of base offset 1",
        patched(batch, 0, ">q", 1),
        topic={"max.message.bytes": "80"},
    )
    yield Case(
        "size: too large and damaged",
        patched(batch, 17, ">I", 1, checksum=False),
        topic={"max.message.bytes": "80"},
    )
    large = built(Record(0, OLD, b"k", bytes(400)))
    yield Case("size: larger than a segment", large, topic={"segment.bytes": "300"})
    packed = built(Record(0, OLD, b"k", bytes(400)), codec=Codec.GZIP)
    assert len(packed) < 300 < len(large)
    uncompressed = {"compression.type": "uncompressed"}
    yield Case(
        "size: too large once unpacked", packed, topic={**uncompressed, "max.message.bytes": "300"}
    )
    yield Case(
        "size: larger than a segment once unpacked",
        packed,
        topic={**uncompressed, "segment.bytes": "300"},
    )
    yield Case(
        "size: small enough only once packed",
        large,
        topic={"compression.type": "gzip", "max.message.bytes": "300"},
    )


def _codecs() -> Iterator[Case]:
    for codec in Codec:
        yield Case(f"codec: {codec.name} for any topic", built(*KEYED, codec=codec))
    zstd = built(*KEYED, codec=Codec.ZSTD)
    yield Case("codec: zstd before version 7", zstd, 6)
    yield Case("codec: zstd in version 7", zstd, 7)
    yield Case("codec: zstd in version 2", zstd, 2)
    yield Case("codec: unknown", flagged(built(*KEYED), 5))
    yield Case("codec: unknown, before version 7", flagged(built(*KEYED), 5), 6)
    gzip = built(*KEYED, codec=Codec.GZIP)
    for name in ("uncompressed", "gzip", "snappy", "lz4", "zstd"):
        topic = {"compression.type": name}
        yield Case(f"codec: NONE for a topic of {name}", built(*KEYED), topic=topic)
        yield Case(f"codec: GZIP for a topic of {name}", gzip, topic=topic)
    idempotent = built(*KEYED, producer_id=5, producer_epoch=0, base_sequence=0)
    yield Case("codec: producer fields survive", idempotent, topic={"compression.type": "gzip"})
    negative = patched(built(*KEYED), 27, ">qq", -2, 3)
    yield Case("codec: negative timestamp rewritten", negative, topic={"compression.type": "gzip"})


def _keys() -> Iterator[Case]:
    yield Case("key: all there", built(*KEYED), topic=COMPACTED)
    yield Case("key: all there, compressed", built(*KEYED, codec=Codec.LZ4), topic=COMPACTED)
    yield Case("key: empty", built(Record(0, OLD, b"", b"v")), topic=COMPACTED)
    yield Case("key: second missing", built(*KEYLESS_SECOND), topic=COMPACTED)
    yield Case(
        "key: second missing, compressed",
        built(*KEYLESS_SECOND, codec=Codec.SNAPPY),
        topic=COMPACTED,
    )
    yield Case(
        "key: second missing, recompressed",
        built(*KEYLESS_SECOND),
        topic={**COMPACTED, "compression.type": "zstd"},
    )
    both = {"cleanup.policy": "delete,compact"}
    yield Case("key: second missing, compacted and deleted", built(*KEYLESS_SECOND), topic=both)
    yield Case("key: second missing, not compacted", built(*KEYLESS_SECOND))
    yield Case(
        "key: second missing and third too old",
        built(*KEYLESS_SECOND[:2], Record(2, 0, b"c", b"v")),
        topic={**COMPACTED, "message.timestamp.before.max.ms": "1200000000000"},
    )


def _timestamps() -> Iterator[Case]:
    old, coming = built(*KEYED), built(Record(0, FUTURE, b"k", b"v"))
    yield Case("timestamp: too old", old, topic=NOT_BEFORE)
    yield Case("timestamp: too old, compressed", built(*KEYED, codec=Codec.GZIP), topic=NOT_BEFORE)
    yield Case("timestamp: in the past, where the future is bounded", old, topic=NOT_AFTER)
    yield Case("timestamp: to come", coming, topic=NOT_AFTER)
    yield Case("timestamp: to come, where the past is bounded", coming, topic=NOT_BEFORE)
    either = {"message.timestamp.difference.max.ms": "1000000"}
    yield Case("timestamp: too old by the older setting", old, topic=either)
    yield Case("timestamp: to come by the older setting", coming, topic=either)
    none = built(Record(0, NO_TIMESTAMP, b"k", b"v"))
    yield Case("timestamp: none", none)
    yield Case("timestamp: none, where bounded", none, topic={**NOT_BEFORE, **NOT_AFTER})
    yield Case(
        "timestamp: second too old",
        built(Record(0, NO_TIMESTAMP, b"k", b"v"), Record(1, OLD, b"k", b"v")),
        topic=NOT_BEFORE,
    )
    yield Case("timestamp: too old and without key", built(*KEYLESS_SECOND), topic=NOT_BEFORE)
    negative = patched(built(*KEYED), 27, ">qq", -2, 3)
    yield Case("timestamp: below none", negative)
    yield Case("timestamp: below none, compacted", negative, topic=COMPACTED)
    yield Case("timestamp: no largest", patched(old, 35, ">q", NO_TIMESTAMP))
    yield Case("timestamp: wrong largest", patched(old, 35, ">q", FUTURE))
    yield Case("timestamp: wrong largest, compacted", patched(old, 35, ">q", 7), topic=COMPACTED)
    yield Case(
        "timestamp: wrong largest, compacted and compressed",
        patched(built(*KEYED, codec=Codec.GZIP), 35, ">q", 7),
        topic=COMPACTED,
    )


def _append_times() -> Iterator[Case]:
    append_time = flagged(built(*KEYED), LOG_APPEND_TIME_FLAG)
    yield Case("append time: given by the broker", built(*KEYED), topic=APPEND_TIME)
    yield Case(
        "append time: given by the broker, compressed",
        built(*KEYED, codec=Codec.GZIP),
        topic=APPEND_TIME,
    )
    yield Case(
        "append time: bounds do not count", built(*KEYED), topic={**APPEND_TIME, **NOT_BEFORE}
    )
    yield Case(
        "append time: recompressed", built(*KEYED), topic={**APPEND_TIME, "compression.type": "lz4"}
    )
    yield Case("append time: claimed by the client", append_time, topic=APPEND_TIME)
    yield Case("append time: claimed for a topic of create time", append_time)
    yield Case(
        "append time: claimed, compressed, for a topic of create time",
        flagged(built(*KEYED, codec=Codec.GZIP), LOG_APPEND_TIME_FLAG),
    )
    yield Case(
        "append time: none claimed for a topic of create time",
        patched(append_time, 35, ">q", NO_TIMESTAMP),
    )


def _contradictions() -> Iterator[Case]:
    one = bytearray()
    write_record(one, timestamp_delta=0, offset_delta=0, key=b"k", value=b"v", headers=())
    sets = {
        "a record missing": batch_around(bytes(one), count=2, last_delta=1),
        "a record too many": batch_around(bytes(one) * 2, count=1, last_delta=0),
        "a record cut short": batch_around(bytes(one)[:-1], count=1, last_delta=0),
        "bytes left over": batch_around(bytes(one) + b"\0", count=1, last_delta=0),
        "an offset twice": batch_around(bytes(one) * 2, count=2, last_delta=1),
        "an offset twice, compressed": batch_around(
            compress(Codec.GZIP, bytes(one) * 2), count=2, last_delta=1, codec=Codec.GZIP
        ),
        "a record missing, compressed": batch_around(
            compress(Codec.GZIP, bytes(one)), count=2, last_delta=1, codec=Codec.GZIP
        ),
        "a record too many, compressed": batch_around(
            compress(Codec.GZIP, bytes(one) * 2), count=1, last_delta=0, codec=Codec.GZIP
        ),
        "not what the codec wrote": batch_around(
            bytes(one), count=1, last_delta=0, codec=Codec.GZIP
        ),
    }
    for name, batch in sets.items():
        yield Case(f"inside: {name}", batch)
        yield Case(f"inside: {name}; compacted", batch, topic=COMPACTED)


def _old_formats() -> Iterator[Case]:
    for magic, version in ((0, 1), (1, 2)):
        for codec in (Codec.NONE, Codec.GZIP):
            old = legacy(magic, codec)
            yield Case(f"magic {magic}: {codec.name}", old, version)
            for topic in ({"compression.type": "snappy"}, {"compression.type": "uncompressed"}):
                name = f"magic {magic}: {codec.name} for a topic of {topic['compression.type']}"
                yield Case(name, old, version, topic)
            yield Case(f"magic {magic}: {codec.name} with append time", old, version, APPEND_TIME)
        keyless = message(magic, b"v", timestamp=OLD)
        yield Case(f"magic {magic}: without key, compacted", keyless, version, COMPACTED)
        yield Case(f"magic {magic}: too old", message(magic, b"v"), version, NOT_BEFORE)
        yield Case(f"magic {magic}: in a request of magic 2", legacy(magic, Codec.NONE), 3)
    append_time = message(1, b"v", attributes=LOG_APPEND_TIME_FLAG, timestamp=OLD)
    yield Case("magic 1: claims append time", append_time, 2)
    yield Case("magic 1: claims append time, as the topic has", append_time, 2, APPEND_TIME)
    yield Case("magic 1: partial message behind", legacy(1, Codec.NONE) + append_time[:-1], 2)
    yield Case("magic 1: grown too large", legacy(1, Codec.NONE), 2, {"max.message.bytes": "70"})
    misnumbered = wrapper(1, message(1, b"a", offset=4) + message(1, b"b", offset=4))
    yield Case("magic 1: offsets inside that mean nothing", misnumbered, 2)


def _old_damage() -> Iterator[Case]:
    inner = message(1, b"v")
    bad = bytearray(inner)
    bad[-1] ^= 1
    yield Case("old damage: checksum", bytes(bad), 2)
    yield Case("old damage: checksum inside a wrapper", wrapper(1, bytes(bad)), 2)
    yield Case("old damage: zstd wrapper", message(1, b"v", attributes=Codec.ZSTD), 2)
    yield Case("old damage: unknown codec", message(1, b"v", attributes=6), 2)
    yield Case("old damage: wrapper without value", message(1, None, attributes=Codec.GZIP), 2)
    yield Case("old damage: wrapper around nothing", wrapper(1, b""), 2)
    yield Case("old damage: wrapper around a partial message", wrapper(1, inner[:-1]), 2)
    yield Case("old damage: wrapper in a wrapper", wrapper(1, wrapper(1, inner)), 2)
    yield Case("old damage: magic 0 in a wrapper of magic 1", wrapper(1, message(0, b"v")), 2)
    yield Case("old damage: not what the codec wrote", message(1, b"v", attributes=Codec.GZIP), 2)
    yield Case("old damage: two wrappers", wrapper(1, inner) * 2, 2)
    yield Case("old damage: two magics", message(0, b"v") + inner, 2)
    yield Case("old damage: magic 2 behind magic 1", inner + built(*KEYED), 2)
    yield Case("old damage: fields longer than the message", message_around(1, b"\0" * 6), 2)
    yield Case("old damage: bytes behind the value", message_around(1, b"\xff" * 9), 2)


def built(*records: Record, **fields) -> bytes:
    builder = BatchBuilder(BatchFields(**fields))
    for offset, timestamp, key, value, headers in records:
        builder.append(offset=offset, timestamp=timestamp, key=key, value=value, headers=headers)
    return bytes(builder.build())


def legacy(magic: int, codec: Codec) -> bytes:
    return bytes(build_legacy_set(WITHOUT_HEADERS, LegacyFormat(magic=magic, codec=codec)))


def flagged(batch: bytes, flags: int) -> bytes:
    return patched(batch, ATTRIBUTES_POSITION, ">H", batch[ATTRIBUTES_POSITION + 1] | flags)


def patched(batch: bytes, position: int, layout: str, *fields: int, checksum: bool = True) -> bytes:
    changed = bytearray(batch)
    pack_into(layout, changed, position, *fields)
    return with_checksum(changed) if checksum else bytes(changed)
