"""Down-conversion of fetched records for clients that do not support their format.

    v0, v1     magic 0
    v2, v3     magic 1 at most
    before 10  no topic that is stored with zstd

Conversion reads and rewrites every record on the event loop, in time slices: other work may run
between two records.  Only the decompression and compression of a batch is not interrupted.

Stored records are read batch by batch, so at most one batch or one chunk of them is in memory.
Converted records stay in memory until the client has read them.  Therefore a response has batches
up to CONVERTED_BYTES_MAX, or one batch if that is larger, and the client continues from there.  The
last partitions of a full response get nothing, and some clients fetch in the same order every time:
therefore each response starts with a random partition.

The result of a conversion may be empty, because markers have no old format.  Then the response has
the header of a message that is never complete, as in Kafka, to show the client that records exist.
If a hard limit leaves no complete batch, the response is empty.

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

#: The bytes of one read, unless one batch is larger.
READ_CHUNK_BYTES = 256 * 1024
#: The limit of a response, for the larger of stored and converted bytes, unless a batch is larger.
CONVERTED_BYTES_MAX = 1024 * 1024
_LAST_VERSION_WITH_MAGIC_0 = 1
_LAST_VERSION_WITH_MAGIC_1 = 3
_FIRST_VERSION_WITH_ZSTD = 10
_BATCH_BYTES_MIN = 61
_OFFSET_AND_SIZE = Struct(">qi")
_OVERFLOW_MESSAGE = _OFFSET_AND_SIZE.pack(-1, _BATCH_BYTES_MIN)


def needs_down_conversion(version: int) -> bool:
    """Whether records of this fetch version must be checked before they are sent."""
    return version <= _LAST_VERSION_WITH_MAGIC_1


def reject_unsupported(
    fetch_partitions: Sequence[FetchPartition], version: int, *, is_follower: bool
) -> None:
    """Set an error for partitions whose settings exclude clients of this version."""
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
    """Convert the records of all responses for a client of this version, up to the limit.

    If the client has disconnected, the records are dropped.
    """
    conversion = _ResponseConversion(0 if version <= _LAST_VERSION_WITH_MAGIC_0 else 1, context)
    # Taken before the conversion: a later move to another directory must not be blamed for errors.
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
                # Such old clients do not know KafkaStorageError.
                fetch_partition.partition_response = _error_response(
                    fetch_partition, NotLeaderOrFollower(str(hosted_log.handle_os_error(error)))
                )


class _ResponseConversion:
    """The conversion of one response."""

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
        """Convert up to the first batch that cannot be converted; raise if that is the first."""
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
            # The client fetches the rest next, and gets the error then.
            if not converted:
                raise
        return converted or (b"" if is_empty else _OVERFLOW_MESSAGE)


def _batches(region: FileRegion) -> Iterator[memoryview]:
    """Yield the complete batches of the region."""
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
