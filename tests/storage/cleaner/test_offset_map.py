"""The offset map of the cleaner."""

import tracemalloc

import pytest

from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.legacy_batch import LegacyBatch
from odradek.protocol.records.legacy_builder import LegacyFormat, build_legacy_set
from odradek.protocol.records.record import Record
from odradek.storage.cleaner.offset_map import DIGEST_BYTES, OffsetMap, key_token
from tests.support.batches import batch_of

MIB = 1024 * 1024


def offset_map(*, start_offset=0, bytes_max=MIB, load_factor=1.0):
    return OffsetMap(start_offset=start_offset, bytes_max=bytes_max, load_factor=load_factor)


def batch_of_keys(*keys, base_offset=0):
    records = [Record(base_offset + index, 0, key, b"v") for index, key in enumerate(keys)]
    return RecordBatch(batch_of(*records, base_offset=base_offset))


def test_only_the_last_record_of_a_key_is_the_latest():
    offsets = offset_map()
    assert offsets.put_batch(batch_of_keys(b"a", b"b", b"a")) == 3
    assert [offsets.is_latest(b"a", offset) for offset in (0, 2, 5)] == [False, True, True]
    assert offsets.is_latest(b"b", 1)


def test_record_of_an_unknown_key_is_the_latest():
    assert offset_map().is_latest(b"a", 0)


def test_records_before_the_start_and_without_keys_are_skipped():
    offsets = offset_map(start_offset=6)
    offsets.put_batch(batch_of_keys(b"a", b"b", None, base_offset=5))
    assert len(offsets) == 1
    assert offsets.is_latest(b"a", 0)
    assert not offsets.is_latest(b"b", 0)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 31, 32, 1000])
def test_key_token_has_at_most_31_bytes(size):
    key = bytes(size)
    assert len(key_token(key)) <= 31
    assert (key_token(key) == key) == (size <= 31 and size != DIGEST_BYTES)


def test_key_equal_to_the_digest_of_another_key_has_another_token():
    digest = key_token(b"a key that is much too long to stand for itself")
    assert key_token(digest) != digest


def test_map_is_full_at_the_load_factor():
    offsets = offset_map(bytes_max=156 * 10, load_factor=0.5)
    offsets.put_batch(batch_of_keys(*(b"%d" % number for number in range(4))))
    assert not offsets.is_full
    offsets.put_batch(batch_of_keys(b"4", base_offset=4))
    assert offsets.is_full
    assert offsets.utilization == 1


@pytest.mark.parametrize("key", [b"key %020d", b"a key that is too long for itself %020d"])
def test_full_map_stays_within_its_memory_limit(key):
    offsets = offset_map(bytes_max=4 * MIB)
    batches = [
        batch_of_keys(*(key % number for number in range(first, first + 100)), base_offset=first)
        for first in range(300, 300 + offsets.entries_max + 100, 100)
    ]
    tracemalloc.start()
    for batch in batches:
        if offsets.is_full:
            break
        offsets.put_batch(batch)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert offsets.is_full
    assert used < 4.2 * MIB


@pytest.mark.parametrize("magic", [0, 1])
def test_keys_of_legacy_messages_are_added(magic):
    offsets = offset_map(start_offset=4)
    records = [Record(3, -1, b"a", b"1"), Record(5, -1, b"b", b"1"), Record(6, -1, None, b"1")]
    form = LegacyFormat(magic=magic, codec=Codec.GZIP)
    assert offsets.put_batch(LegacyBatch(build_legacy_set(records, form))) == 3
    assert len(offsets) == 1
    assert not offsets.is_latest(b"b", 4)
