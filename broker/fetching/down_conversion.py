"""Fetched records for clients that do not know their format.

    v0, v1     magic 0
    v2, v3     magic 1 at most
    before 10  no topic that is stored with zstd

Converting reads and rewrites every record, here on the loop: between two batches others have their
turn once a slice of time is used up.  (One batch is never divided: a large one would have to go to
the worker process, whose boundary would be ``_converted``.)

What is converted may come to nothing, since markers have no old form.  Then the beginning of a
message is sent that never ends, as Kafka does, for clients to see that something was there.  Where
there is not one whole batch below a hard limit, nothing is sent.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from struct import Struct

from odradek.broker.fetching.fetch_session import Line, Wanted
from odradek.protocol.errors import (
    CorruptMessage,
    KafkaError,
    UnsupportedCompressionType,
    UnsupportedVersion,
    code_of,
)
from odradek.protocol.file_region import FileRegion
from odradek.protocol.records.batch import whole_batch_bytes
from odradek.protocol.records.conversion import down_converted
from odradek.storage import files

#: For how long others wait at most, but for the time that one batch takes.
SLICE_S = 0.002
_LAST_VERSION_WITH_MAGIC_0 = 1
_LAST_VERSION_WITH_MAGIC_1 = 3
_FIRST_VERSION_WITH_ZSTD = 10
_NO_BATCH_IS_SMALLER = 61
_UNENDING = Struct(">qi").pack(-1, _NO_BATCH_IS_SMALLER)


def is_old(version: int) -> bool:
    """Whether records have to be looked at before they are sent."""
    return version <= _LAST_VERSION_WITH_MAGIC_1


def refuse_unreadable(told: Sequence[Wanted], version: int, *, is_follower: bool) -> None:
    """Lines of partitions whose settings rule a client of this version out become errors."""
    if version >= _FIRST_VERSION_WITH_ZSTD:
        return
    for wanted in told:
        if wanted.partition is None:
            continue
        settings = wanted.partition.log.settings
        if settings.compression_type == "zstd":
            wanted.line = _refused(wanted, UnsupportedCompressionType())
        elif is_old(version) and not (is_follower or settings.message_downconversion_enable):
            wanted.line = _refused(wanted, UnsupportedVersion())


async def convert(told: Sequence[Wanted], version: int) -> None:
    """The records of all lines as a client of this version knows them."""
    magic = 0 if version <= _LAST_VERSION_WITH_MAGIC_0 else 1
    for wanted in told:
        line = wanted.line
        if line is not None and isinstance(line.records, FileRegion):
            try:
                line.records = await _converted(line.records, magic, wanted.asked.fetch_offset)
            except KafkaError as failure:
                wanted.line = _refused(wanted, failure)


async def _converted(region: FileRegion, magic: int, first_offset: int) -> bytes:
    """What comes before the first batch that cannot be converted, if anything does."""
    clock = asyncio.get_running_loop().time
    source = files.read_at(region.descriptor, region.length, region.position)
    pieces: list[bytes | bytearray | memoryview] = []
    begun = clock()
    try:
        for converted in down_converted(source, magic=magic, first_offset=first_offset):
            pieces.append(converted.buffer)
            if clock() - begun > SLICE_S:
                await asyncio.sleep(0)
                begun = clock()
    except (UnsupportedCompressionType, CorruptMessage):
        # The client asks for the rest next, and is told then.
        if not pieces:
            raise
    return b"".join(pieces) or (_UNENDING if whole_batch_bytes(source, 0) else b"")


def _refused(wanted: Wanted, failure: KafkaError) -> Line:
    return Line(
        partition_index=wanted.asked.partition,
        error_code=code_of(failure),
        high_watermark=-1,
        records=None,
    )
