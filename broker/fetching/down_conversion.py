"""Fetched records for clients that do not know their format.

    v0, v1     magic 0
    v2, v3     magic 1 at most
    before 10  no topic that is stored with zstd

Converting reads and rewrites every record, here on the loop, and in turns with others: after some
records there may be another's.  Only what unpacks and packs a compressed batch is done in one go.

What is stored is read batch by batch, so that of it no more is in memory than one, or a piece.
What is made of it is in memory until the client has read it.  So an answer gets as many batches
as come to CONVERTED_BYTES, or one if that is more; the client asks on where it ends.  Who comes
late in a full answer gets nothing, and some clients ask in the same order every time: so each
answer begins with any of its partitions.

What is converted may come to nothing, since markers have no old form.  Then the beginning of a
message is sent that never ends, as Kafka does, for clients to see that something was there.  Where
there is not one whole batch below a hard limit, nothing is sent.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import randrange
from struct import Struct

from odradek.broker.fetching.fetch_partition import FetchPartition, PartitionResponse
from odradek.broker.request import RequestContext
from odradek.broker.time_slice import TimeSlice
from odradek.protocol.errors import (
    CorruptMessage,
    KafkaError,
    NotLeaderOrFollower,
    UnsupportedCompressionType,
    UnsupportedVersion,
    code_of,
)
from odradek.protocol.file_region import FileRegion
from odradek.protocol.records.batch import LOG_OVERHEAD_BYTES, whole_batch_bytes
from odradek.protocol.records.conversion import down_convert
from odradek.storage import files

#: How much is read at a time, unless one batch is larger.
READ_CHUNK_BYTES = 256 * 1024
#: As stored or as converted, whichever is more: of an answer, unless one batch is larger.
CONVERTED_BYTES_MAX = 1024 * 1024
_LAST_VERSION_WITH_MAGIC_0 = 1
_LAST_VERSION_WITH_MAGIC_1 = 3
_FIRST_VERSION_WITH_ZSTD = 10
_BATCH_BYTES_MIN = 61
_OFFSET_AND_SIZE = Struct(">qi")
_OVERFLOW_MESSAGE = _OFFSET_AND_SIZE.pack(-1, _BATCH_BYTES_MIN)


def needs_down_conversion(version: int) -> bool:
    """Whether records have to be looked at before they are sent."""
    return version <= _LAST_VERSION_WITH_MAGIC_1


def reject_unsupported(
    fetch_partitions: Sequence[FetchPartition], version: int, *, is_follower: bool
) -> None:
    """Lines of partitions whose settings rule a client of this version out become errors."""
    if version >= _FIRST_VERSION_WITH_ZSTD:
        return
    for fetch_partition in fetch_partitions:
        if fetch_partition.partition is None:
            continue
        settings = fetch_partition.partition.log.settings
        if settings.compression_type == "zstd":
            fetch_partition.partition_response = _error_response(
                fetch_partition, UnsupportedCompressionType()
            )
        elif needs_down_conversion(version) and not (
            is_follower or settings.message_downconversion_enable
        ):
            fetch_partition.partition_response = _error_response(
                fetch_partition, UnsupportedVersion()
            )


async def convert(
    fetch_partitions: Sequence[FetchPartition], version: int, context: RequestContext
) -> None:
    """The records of all lines as a client of this version knows them, or as many as there may be.

    Of what is told to a peer that has gone nothing is left.
    """
    conversion = _ResponseConversion(0 if version <= _LAST_VERSION_WITH_MAGIC_0 else 1, context)
    # As they were read: one that is moved to another directory meanwhile cannot blame that.
    pairs = [
        (
            fetch_partition,
            fetch_partition.partition.hosted_log if fetch_partition.partition else None,
        )
        for fetch_partition in fetch_partitions
    ]
    first = randrange(len(fetch_partitions)) if fetch_partitions else 0
    for fetch_partition, hosted_log in (*pairs[first:], *pairs[:first]):
        response = fetch_partition.partition_response
        if response is not None and isinstance(response.records, FileRegion):
            try:
                response.records = await conversion.convert_region(
                    response.records, fetch_partition.partition_request.fetch_offset
                )
            except KafkaError as error:
                fetch_partition.partition_response = _error_response(fetch_partition, error)
            except OSError as error:
                assert hosted_log is not None, fetch_partition
                # Such old clients do not know that a disk can fail.
                fetch_partition.partition_response = _error_response(
                    fetch_partition, NotLeaderOrFollower(str(hosted_log.handle_os_error(error)))
                )


class _ResponseConversion:
    """Of one answer."""

    __slots__ = ("_context", "_magic", "_remaining_bytes", "_time_slice")

    def __init__(self, magic: int, context: RequestContext) -> None:
        self._magic = magic
        self._context = context
        self._remaining_bytes = CONVERTED_BYTES_MAX
        self._time_slice = TimeSlice()

    def _has_room_for(self, batch: memoryview) -> bool:
        is_first = self._remaining_bytes == CONVERTED_BYTES_MAX
        return (is_first or len(batch) <= self._remaining_bytes) and not self._context.is_closed

    async def convert_region(self, region: FileRegion, first_offset: int) -> bytes | bytearray:
        """What comes before the first batch that cannot be converted, if anything does."""
        converted = bytearray()
        is_empty = True
        try:
            for batch in _batches(region):
                if not self._has_room_for(batch):
                    break
                is_empty = False
                for part in down_convert(batch, magic=self._magic, first_offset=first_offset):
                    converted += part.buffer
                    self._remaining_bytes -= len(part.buffer)
                    if self._time_slice.is_used_up:
                        await self._time_slice.yield_to_loop()
                        if self._context.is_closed:
                            return b""
        except (UnsupportedCompressionType, CorruptMessage):
            # The client asks for the rest next, and is told then.
            if not converted:
                raise
        return converted or (b"" if is_empty else _OVERFLOW_MESSAGE)


def _batches(region: FileRegion) -> Iterator[memoryview]:
    """Those that are whole, each alone."""
    position, remaining_bytes = region.position, region.length
    while remaining_bytes:
        chunk = files.read_at(region.descriptor, min(remaining_bytes, READ_CHUNK_BYTES), position)
        size_bytes = whole_batch_bytes(chunk, 0)
        if not size_bytes and len(chunk) >= _OFFSET_AND_SIZE.size:
            batch_bytes = LOG_OVERHEAD_BYTES + int(_OFFSET_AND_SIZE.unpack_from(chunk)[1])
            chunk = files.read_at(region.descriptor, min(remaining_bytes, batch_bytes), position)
            size_bytes = whole_batch_bytes(chunk, 0)
        if not size_bytes:
            return
        begin = 0
        while size_bytes:
            yield memoryview(chunk)[begin : begin + size_bytes]
            begin += size_bytes
            size_bytes = whole_batch_bytes(chunk, begin)
        position += begin
        remaining_bytes -= begin


def _error_response(fetch_partition: FetchPartition, error: KafkaError) -> PartitionResponse:
    return PartitionResponse(
        partition_index=fetch_partition.partition_request.partition,
        error_code=code_of(error),
        high_watermark=-1,
        records=None,
    )
