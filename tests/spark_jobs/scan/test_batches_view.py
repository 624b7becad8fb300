"""``view=batches``: a row for each batch."""

import pytest

from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record import Record
from tests.support.batches import batch_of
from tests.support.legacy_messages import message, wrapper
from tests.support.scans import LogDirectory

DELETE_HORIZON_MS = 5_000_000


@pytest.fixture
def directory(tmp_path):
    return LogDirectory(tmp_path)


def orders(offset):
    return f'{{"orders": {{"0": {offset}}}}}'


@pytest.mark.parametrize("magic", [0, 1])
def test_legacy_messages_are_limited_to_the_offset_range(directory, magic):
    singles = [message(magic, b"v", offset=offset) for offset in range(6)]
    inner = b"".join(message(magic, b"v", offset=offset) for offset in (6, 7, 8))
    directory.write(0, [*singles, wrapper(magic, inner, codec=Codec.GZIP, offset=8)])
    for start, end, expected in ((2, 5, [2, 3, 4]), (4, 8, [4, 5, 8]), (7, 9, [8])):
        offset_range = {"startingOffsets": orders(start), "endingOffsets": orders(end)}
        rows = directory.scan(view="batches", **offset_range).rows
        assert [row["lastOffset"] for row in rows] == expected


def test_delete_horizon_is_not_a_record_timestamp(directory):
    record = Record(0, 1000, b"k", None)
    directory.write(
        0,
        [
            batch_of(record, base_offset=0, delete_horizon_ms=DELETE_HORIZON_MS),
            batch_of(record._replace(offset=1), base_offset=1),
        ],
    )
    rows = directory.scan(view="batches").rows
    assert [row["baseTimestamp"] for row in rows] == [None, 1000]
    assert [row["maxTimestamp"] for row in rows] == [1000, 1000]
    assert [row["timestamp"] for row in directory.scan().rows] == [1000, 1000]
