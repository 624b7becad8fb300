"""Batches of more records than anybody reads while others wait."""

from collections.abc import Callable, Iterable
from typing import Any

from odradek.protocol.records.builder import BatchBuilder, BatchFields

#: More than fit into a turn.
MANY = 1500


def large_batch(
    count: int = MANY,
    *,
    key: Callable[[int], bytes | None] = lambda place: b"k",
    timestamps: Iterable[int] = (0,),
    **fields: Any,
) -> bytearray:
    """Tiny records; the timestamps are repeated as often as it takes."""
    times = list(timestamps)
    builder = BatchBuilder(BatchFields(**fields))
    for place in range(count):
        builder.append(timestamp=times[place % len(times)], key=key(place), value=None)
    return builder.build()
