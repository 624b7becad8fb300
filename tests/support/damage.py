"""Short ways to damage files, as a failing disk or a careless administrator would."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from odradek.storage.log_segment import LogSegment
from odradek.storage.paths import LogFileType

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
    return [place.position for place in segment.batch_locations()]


def flip_in_batch(segment: LogSegment, number: int, position: int, *, mask: int = 0x40) -> None:
    """One byte of the batch with this number, counted from 0 and from its own beginning."""
    flip(segment.path(LogFileType.LOG), batch_positions(segment)[number] + position, mask=mask)


@dataclass(frozen=True, slots=True)
class Flip:
    """One bit of a file."""

    position: int
    bit: int

    def of(self, content: bytes) -> bytes:
        flipped = bytearray(content)
        flipped[self.position] ^= 1 << self.bit
        return bytes(flipped)


def every_bit(content: bytes) -> Iterator[Flip]:
    return (Flip(position, bit) for position in range(len(content)) for bit in range(8))


def a_bit_of_every_byte(content: bytes) -> Iterator[Flip]:
    """Another one from byte to byte, so that each of a field's eight bytes loses another bit."""
    return (Flip(position, position % 8) for position in range(len(content)))


class KeptFiles:
    """All files below a directory, to be put back after each damage."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.contents = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}

    def put_back(self) -> None:
        for path in self._root.rglob("*"):
            if path.is_file() and path not in self.contents:
                path.unlink()
        for path, content in self.contents.items():
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)
