"""Scanning the batches of a .log file."""

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import LOG_OVERHEAD_BYTES, MAGIC_POSITION
from odradek.storage.batch_scan import (
    BATCHES_READ_BYTES,
    HEADERS_READ_BYTES,
    SMALLEST_BATCH_BYTES,
    read_location,
    scan_batches,
    scan_headers,
)
from odradek.storage.open_file import OpenFile
from tests.support.legacy_messages import message, wrapper
from tests.support.logs import records_batch

SIZES = [1, 5000, 30, HEADERS_READ_BYTES - 61, 1, 9000, 70, 4020, 4030, 2]


def magic_2(base_offset=0, count=1, size=10):
    return bytes(records_batch(*[bytes(size)] * count, base_offset=base_offset))


MIXED = [
    message(0, None, offset=3),
    message(1, b"a", offset=4),
    wrapper(1, message(1, b"b", offset=0) + message(1, b"c", offset=1), offset=6),
    magic_2(7, count=5),
    message(0, b"", offset=12),
]


@pytest.fixture
def stored(tmp_path):
    opened = []

    def store(content):
        (tmp_path / "a.log").write_bytes(content)
        opened.append(OpenFile(tmp_path / "a.log", writable=False))
        return opened[-1].descriptor

    return store


def positions_of(content):
    """The position at which each batch begins."""
    return [sum(map(len, content[:number])) for number in range(len(content))]


def test_header_scan_returns_position_and_offsets_for_every_magic(stored):
    content = b"".join(MIXED)
    locations = list(scan_headers(stored(content), start=0, end=len(content)))
    assert [(location.position, location.size_bytes) for location in locations] == list(
        zip(positions_of(MIXED), map(len, MIXED), strict=True)
    )
    assert [(location.base_offset, location.last_offset) for location in locations] == [
        (3, 3),
        (4, 4),
        (6, 6),
        (7, 11),
        (12, 12),
    ]


def test_batch_scan_returns_whole_batches_of_every_magic(stored):
    content = b"".join(MIXED)
    scanned = list(scan_batches(stored(content), start=0, end=len(content)))
    assert [(position, bytes(batch.view)) for position, batch in scanned] == list(
        zip(positions_of(MIXED), MIXED, strict=True)
    )


def test_smallest_possible_message_is_found_even_at_the_end(stored):
    smallest = message(0, None)
    assert len(smallest) == SMALLEST_BATCH_BYTES
    descriptor = stored(smallest + smallest)
    assert len(list(scan_headers(descriptor, start=0, end=52))) == 2
    assert len(list(scan_batches(descriptor, start=0, end=52))) == 2
    assert read_location(descriptor, 26, end=52).position == 26


def test_scan_may_start_at_any_batch(stored):
    content = b"".join(MIXED)
    descriptor = stored(content)
    for number, position in enumerate(positions_of(MIXED)):
        locations = list(scan_headers(descriptor, start=position, end=len(content)))
        assert len(locations) == len(MIXED) - number
        assert read_location(descriptor, position, end=len(content)) == locations[0]


@pytest.mark.parametrize("shift", [0, 1, 26, 27, 60, 61, 4000])
def test_headers_are_read_at_any_position_in_a_chunk(stored, shift):
    content = [magic_2(size=shift), *(magic_2(number, size=n) for number, n in enumerate(SIZES))]
    whole = b"".join(content)
    locations = list(scan_headers(stored(whole), start=0, end=len(whole)))
    assert [location.position for location in locations] == positions_of(content)


@pytest.mark.parametrize("read_bytes", [17, 61, 62, 80, 200, 4096, 10**6])
def test_batches_are_found_with_any_read_size(stored, read_bytes):
    content = [magic_2(number, size=n) for number, n in enumerate(SIZES)]
    whole = b"".join(content)
    scanned = list(scan_batches(stored(whole), start=0, end=len(whole), read_bytes=read_bytes))
    assert [position for position, _ in scanned] == positions_of(content)
    assert [bytes(batch.view) for _, batch in scanned] == content


def test_batch_larger_than_the_read_size_is_returned_whole(stored):
    content = [magic_2(0), magic_2(1, size=BATCHES_READ_BYTES + 5), magic_2(2)]
    whole = b"".join(content)
    scanned = list(scan_batches(stored(whole), start=0, end=len(whole)))
    assert [bytes(batch.view) for _, batch in scanned] == content


def test_scan_stops_at_the_given_end(stored):
    first, second = magic_2(0), magic_2(1)
    descriptor = stored(first + second)
    assert len(list(scan_headers(descriptor, start=0, end=len(first)))) == 1
    assert len(list(scan_batches(descriptor, start=0, end=len(first)))) == 1
    assert read_location(descriptor, len(first), end=len(first)) is None
    for start in (len(first), len(first) + 10):
        assert list(scan_headers(descriptor, start=start, end=len(first))) == []
        assert list(scan_batches(descriptor, start=start, end=len(first))) == []


def damaged(field_position, content):
    batch = bytearray(magic_2(1, size=100))
    batch[field_position : field_position + len(content)] = content
    return bytes(batch)


DAMAGES = {
    "zeros": bytes(100),
    "a few bytes": b"\0" * 11,
    "no length": magic_2(1)[:9],
    "no magic": magic_2(1)[:16],
    "a cut batch": magic_2(1)[:-1],
    "length 0": damaged(8, bytes(4)),
    "a length too small for any batch": damaged(8, (13).to_bytes(4)),
    "a negative length": damaged(8, b"\xff\xff\xff\xff"),
    "a huge length": damaged(8, b"\x7f\xff\xff\xff"),
    "a length beyond the end": damaged(8, (162).to_bytes(4)),
    "an unknown magic": damaged(MAGIC_POSITION, b"\x03"),
    "a negative magic": damaged(MAGIC_POSITION, b"\xff"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_header_scan_ends_at_an_invalid_batch(stored, damage):
    first = magic_2(0)
    content = first + damage
    descriptor = stored(content)
    locations = list(scan_headers(descriptor, start=0, end=len(content)))
    assert [location.position for location in locations] == [0]
    assert read_location(descriptor, len(first), end=len(content)) is None


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("read_bytes", [64, BATCHES_READ_BYTES])
def test_batch_scan_raises_at_an_invalid_batch(stored, damage, read_bytes):
    content = magic_2(0) + damage
    scan = scan_batches(stored(content), start=0, end=len(content), read_bytes=read_bytes)
    assert next(scan)[0] == 0
    with pytest.raises(CorruptMessage):
        next(scan)


def test_magic_2_batch_shorter_than_its_header_is_corrupt(stored):
    short = bytearray(magic_2(0)[:40])
    short[8:12] = (40 - LOG_OVERHEAD_BYTES).to_bytes(4)
    with pytest.raises(CorruptMessage):
        list(scan_batches(stored(short), start=0, end=40))


def test_scan_of_a_file_shorter_than_the_given_end(stored):
    content = magic_2(0) + magic_2(1)
    descriptor = stored(content)
    end = len(content) + 1000
    assert len(list(scan_headers(descriptor, start=0, end=end))) == 2
    with pytest.raises(CorruptMessage):
        list(scan_batches(descriptor, start=0, end=end))
