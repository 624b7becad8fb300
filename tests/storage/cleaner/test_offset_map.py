"""The offset map of compaction."""

import tracemalloc

import pytest

from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.legacy import LegacyBatch
from odradek.protocol.records.legacy_builder import LegacyFormat, legacy_set
from odradek.protocol.records.record import Record
from odradek.storage.cleaner.offset_map import DIGEST_BYTES, OffsetMap, token_of
from tests.support.batches import batch_of

MIB = 1024 * 1024


def offset_map(*, start_offset=0, bytes_max=MIB, load_factor=1.0):
    return OffsetMap(start_offset=start_offset, bytes_max=bytes_max, load_factor=load_factor)


def keyed(*keys, base_offset=0):
    records = [Record(base_offset + slot, 0, key, b"v") for slot, key in enumerate(keys)]
    return RecordBatch(batch_of(*records, base_offset=base_offset))


def test_only_the_last_record_of_a_key_is_the_latest():
    offsets = offset_map()
    assert offsets.note(keyed(b"a", b"b", b"a")) == 3
    assert [offsets.is_latest(b"a", offset) for offset in (0, 2, 5)] == [False, True, True]
    assert offsets.is_latest(b"b", 1)


def test_a_key_that_was_never_seen_is_the_latest():
    assert offset_map().is_latest(b"a", 0)


def test_records_before_the_start_and_without_keys_are_not_noted():
    offsets = offset_map(start_offset=6)
    offsets.note(keyed(b"a", b"b", None, base_offset=5))
    assert len(offsets) == 1
    assert offsets.is_latest(b"a", 0)
    assert not offsets.is_latest(b"b", 0)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 31, 32, 1000])
def test_nothing_that_stands_for_a_key_is_longer_than_31_bytes(size):
    key = bytes(size)
    assert len(token_of(key)) <= 31
    assert (token_of(key) == key) == (size <= 31 and size != DIGEST_BYTES)


def test_a_key_cannot_pretend_to_be_the_digest_of_another():
    digest = token_of(b"a key that is much too long to stand for itself")
    assert token_of(digest) != digest


def test_it_is_full_when_its_memory_is_used_up_to_the_load_factor():
    offsets = offset_map(bytes_max=156 * 10, load_factor=0.5)
    offsets.note(keyed(*(b"%d" % number for number in range(4))))
    assert not offsets.is_full
    offsets.note(keyed(b"4", base_offset=4))
    assert offsets.is_full
    assert offsets.utilization == 1


@pytest.mark.parametrize("key", [b"key %020d", b"a key that is too long for itself %020d"])
def test_a_full_map_takes_no_more_memory_than_it_may(key):
    offsets = offset_map(bytes_max=4 * MIB)
    batches = [
        keyed(*(key % number for number in range(first, first + 100)), base_offset=first)
        for first in range(300, 300 + offsets.entries_max + 100, 100)
    ]
    tracemalloc.start()
    for batch in batches:
        if offsets.is_full:
            break
        offsets.note(batch)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert offsets.is_full
    assert used < 4.2 * MIB


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_have_keys_too(magic):
    offsets = offset_map(start_offset=4)
    records = [Record(3, -1, b"a", b"1"), Record(5, -1, b"b", b"1"), Record(6, -1, None, b"1")]
    form = LegacyFormat(magic=magic, codec=Codec.GZIP)
    assert offsets.note(LegacyBatch(legacy_set(records, form))) == 3
    assert len(offsets) == 1
    assert not offsets.is_latest(b"b", 4)
