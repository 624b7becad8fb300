"""Damage to a frame, of the kinds that broken and hostile peers do.

flip       one bit
set        one byte, to a value at the end of a range
inflate    a length or count: int16, int32 or varint, to a large or negative number
cut        the end, the beginning or a piece from the middle
insert     a few bytes, random or a copy of others
splice     the beginning of this frame and the end of another
noise      random bytes in place of all
"""

from collections.abc import Callable
from random import Random
from struct import pack

ENDS_OF_RANGES = (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF)
NOISE_BYTES_MAX = 64

INFLATED = (
    *(pack(">h", number) for number in (-32768, -2, -1, 127, 128, 32767)),
    *(pack(">i", number) for number in (-(2**31), -2, -1, 128, 65536, 1_000_000, 2**31 - 1)),
    *(b"\xff" * size + b"\x07" for size in (1, 2, 4)),
    b"\x80\x80\x80\x80\x80\x01",
)

Mutation = Callable[[bytes, bytes, Random], bytes]


def mutated(frame: bytes, other: bytes, choice: Random) -> bytes:
    """``frame`` with one to three damages; ``other`` is one to splice with."""
    for _ in range(choice.choice((1, 1, 1, 2, 3))):
        # All mutations are of something.
        frame = choice.choice(MUTATIONS)(frame or b"\0", other, choice)
    return frame


def _flip(frame: bytes, other: bytes, choice: Random) -> bytes:
    place = _place(frame, choice)
    return _replaced(frame, place, bytes([frame[place] ^ 1 << choice.randrange(8)]))


def _set(frame: bytes, other: bytes, choice: Random) -> bytes:
    return _replaced(frame, _place(frame, choice), bytes([choice.choice(ENDS_OF_RANGES)]))


def _inflate(frame: bytes, other: bytes, choice: Random) -> bytes:
    return _replaced(frame, _place(frame, choice), choice.choice(INFLATED))


def _cut(frame: bytes, other: bytes, choice: Random) -> bytes:
    first, second = sorted((_place(frame, choice), _place(frame, choice)))
    return choice.choice((frame[:second], frame[first:], frame[:first] + frame[second:]))


def _insert(frame: bytes, other: bytes, choice: Random) -> bytes:
    place, start = _place(frame, choice), _place(frame, choice)
    copied = frame[start : start + choice.randrange(1, 9)]
    random_bytes = choice.randbytes(choice.randrange(1, 9))
    return frame[:place] + choice.choice((copied, random_bytes)) + frame[place:]


def _splice(frame: bytes, other: bytes, choice: Random) -> bytes:
    return frame[: _place(frame, choice)] + other[_place(other or b"\0", choice) :]


def _noise(frame: bytes, other: bytes, choice: Random) -> bytes:
    return choice.randbytes(choice.randrange(NOISE_BYTES_MAX))


#: Each as often as it is worth: noise seldom gets beyond the first length.
MUTATIONS: tuple[Mutation, ...] = (
    *(_flip, _flip, _flip, _flip),
    *(_set, _set, _set, _set),
    *(_inflate, _inflate, _inflate, _inflate),
    *(_cut, _cut),
    *(_insert, _insert),
    *(_splice, _splice),
    _noise,
)


def _place(frame: bytes, choice: Random) -> int:
    return int(choice.random() * len(frame))


def _replaced(frame: bytes, place: int, piece: bytes) -> bytes:
    return frame[:place] + piece + frame[place + len(piece) :]
