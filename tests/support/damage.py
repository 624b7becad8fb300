"""Short ways to damage files, as a failing disk or a careless administrator would."""

from pathlib import Path

from odradek.storage.log_segment import LogSegment
from odradek.storage.paths import Content

LENGTH_POSITION = 8  # of the field in a batch
LAST_BYTE_OF_BASE_OFFSET = 7


def flip(path: Path, position: int, *, mask: int = 0x40) -> None:
    """Some bits of one byte; a negative position counts from the end."""
    content = bytearray(path.read_bytes())
    content[position] ^= mask
    path.write_bytes(content)


def cut(path: Path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:length])


def lengthen(path: Path, content: bytes) -> None:
    path.write_bytes(path.read_bytes() + content)


def batch_positions(segment: LogSegment) -> list[int]:
    return [place.position for place in segment.places()]


def flip_in_batch(segment: LogSegment, number: int, position: int, *, mask: int = 0x40) -> None:
    """One byte of the batch with this number, counted from 0 and from its own beginning."""
    flip(segment.path(Content.BATCHES), batch_positions(segment)[number] + position, mask=mask)
