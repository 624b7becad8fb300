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

from odradek.broker.call import Peer
from odradek.broker.fetching.wanted import Line, Wanted
from odradek.broker.turns import Turn
from odradek.protocol.errors import (
    CorruptMessage,
    KafkaError,
    NotLeader,
    UnsupportedCompressionType,
    UnsupportedVersion,
    code_of,
)
from odradek.protocol.file_region import FileRegion
from odradek.protocol.records.batch import LOG_OVERHEAD_BYTES, whole_batch_bytes
from odradek.protocol.records.conversion import down_converted
from odradek.storage import files

#: How much is read at a time, unless one batch is larger.
PIECE_BYTES = 256 * 1024
#: As stored or as converted, whichever is more: of an answer, unless one batch is larger.
CONVERTED_BYTES = 1024 * 1024
_LAST_VERSION_WITH_MAGIC_0 = 1
_LAST_VERSION_WITH_MAGIC_1 = 3
_FIRST_VERSION_WITH_ZSTD = 10
_NO_BATCH_IS_SMALLER = 61
_HEAD = Struct(">qi")
_UNENDING = _HEAD.pack(-1, _NO_BATCH_IS_SMALLER)


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


async def convert(told: Sequence[Wanted], version: int, peer: Peer) -> None:
    """The records of all lines as a client of this version knows them, or as many as there may be.

    Of what is told to a peer that has gone nothing is left.
    """
    conversion = _Conversion(0 if version <= _LAST_VERSION_WITH_MAGIC_0 else 1, peer)
    # As they were read: one that is moved to another directory meanwhile cannot blame that.
    pairs = [(each, each.partition.hosted if each.partition else None) for each in told]
    first = randrange(len(told)) if told else 0
    for wanted, hosted in (*pairs[first:], *pairs[:first]):
        line = wanted.line
        if line is not None and isinstance(line.records, FileRegion):
            try:
                line.records = await conversion.of(line.records, wanted.asked.fetch_offset)
            except KafkaError as failure:
                wanted.line = _refused(wanted, failure)
            except OSError as failure:
                assert hosted is not None, wanted
                # Such old clients do not know that a disk can fail.
                wanted.line = _refused(wanted, NotLeader(str(hosted.failed(failure))))


class _Conversion:
    """Of one answer."""

    __slots__ = ("_left_bytes", "_magic", "_peer", "_turn")

    def __init__(self, magic: int, peer: Peer) -> None:
        self._magic = magic
        self._peer = peer
        self._left_bytes = CONVERTED_BYTES
        self._turn = Turn()

    def _has_room_for(self, batch: memoryview) -> bool:
        is_first = self._left_bytes == CONVERTED_BYTES
        return (is_first or len(batch) <= self._left_bytes) and not self._peer.is_gone

    async def of(self, region: FileRegion, first_offset: int) -> bytes | bytearray:
        """What comes before the first batch that cannot be converted, if anything does."""
        converted = bytearray()
        is_empty = True
        try:
            for batch in _batches(region):
                if not self._has_room_for(batch):
                    break
                is_empty = False
                for part in down_converted(batch, magic=self._magic, first_offset=first_offset):
                    converted += part.buffer
                    self._left_bytes -= len(part.buffer)
                    if self._turn.is_over:
                        await self._turn.next()
                        if self._peer.is_gone:
                            return b""
        except (UnsupportedCompressionType, CorruptMessage):
            # The client asks for the rest next, and is told then.
            if not converted:
                raise
        return converted or (b"" if is_empty else _UNENDING)


def _batches(region: FileRegion) -> Iterator[memoryview]:
    """Those that are whole, each alone."""
    position, left_bytes = region.position, region.length
    while left_bytes:
        piece = files.read_at(region.descriptor, min(left_bytes, PIECE_BYTES), position)
        size_bytes = whole_batch_bytes(piece, 0)
        if not size_bytes and len(piece) >= _HEAD.size:
            wanted_bytes = LOG_OVERHEAD_BYTES + int(_HEAD.unpack_from(piece)[1])
            piece = files.read_at(region.descriptor, min(left_bytes, wanted_bytes), position)
            size_bytes = whole_batch_bytes(piece, 0)
        if not size_bytes:
            return
        begin = 0
        while size_bytes:
            yield memoryview(piece)[begin : begin + size_bytes]
            begin += size_bytes
            size_bytes = whole_batch_bytes(piece, begin)
        position += begin
        left_bytes -= begin


def _refused(wanted: Wanted, failure: KafkaError) -> Line:
    return Line(
        partition_index=wanted.asked.partition,
        error_code=code_of(failure),
        high_watermark=-1,
        records=None,
    )
