"""Mutated frames of every message and of record sets, fed to what reads them.

A subject is a message, or a kind of record set, with a few sound frames and the way to read them.
Its mutated frames depend on the seed and its name alone, so that one can be run again by itself.

What is compressed or has a checksum would be refused for that alone; so most record sets get
the right checksums again after the damage, and some are damaged before they are compressed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from heapq import heappushpop
from random import Random
from time import perf_counter
from typing import Any

from odradek.protocol.codec import decode, encode_bytes
from odradek.protocol.errors import DecodeError
from odradek.protocol.schema import Message
from tests.support.all_messages import versions_of
from tests.support.fuzzed_records import DAMAGED_RECORDS, UNPACKED_BYTES_MAX
from tests.support.memory import peak_bytes
from tests.support.messages import small_message
from tests.support.mutation import mutated

SAMPLES_OF_A_VERSION = 3
SLOWEST_KEPT = 5
#: Every how many frames the memory is measured, which takes fifty times as long.
MEASURED_EVERY = 100

#: What reading may need at its worst moment: for each byte of the frame the largest share goes to
#: structs of a few bytes each, and a refusal has an exception with its traceback.
PEAK_BYTES_PER_BYTE = 100
PEAK_BYTES = 32_000


@dataclass(frozen=True, slots=True)
class Sample:
    """``finish`` is what becomes of a frame after it was damaged."""

    frame: bytes
    read: Callable[[bytes], Any]
    finish: Callable[[bytes], bytes] = bytes


@dataclass(frozen=True, slots=True)
class Subject:
    """``unpacked_bytes_max`` is what its frames may become by decompression."""

    name: str
    samples: tuple[Sample, ...]
    unpacked_bytes_max: int = 0

    def peak_bytes_max(self, frame: bytes) -> int:
        return PEAK_BYTES + PEAK_BYTES_PER_BYTE * len(frame) + 4 * self.unpacked_bytes_max


@dataclass(slots=True)
class Report:
    """What became of the mutated frames of one subject."""

    frames: int = 0
    refused: int = 0
    slowest: list[tuple[float, int, Sample]] = field(default_factory=list)  # seconds, number


def message_subject(message: type[Message]) -> Subject:
    choice = Random(message.__name__)
    samples = [
        Sample(
            encode_bytes(small_message(message, version, choice), version),
            partial(decode, message, version),
        )
        for version in versions_of(message)
        for _ in range(SAMPLES_OF_A_VERSION)
    ]
    return Subject(message.__name__, tuple(samples))


def record_subject(name: str) -> Subject:
    damaged = DAMAGED_RECORDS[name]
    samples = tuple(Sample(frame, damaged.read, damaged.finish) for frame in damaged.frames)
    return Subject(name, samples, UNPACKED_BYTES_MAX)


def mutated_samples(subject: Subject, *, seed: int, count: int) -> Iterator[Sample]:
    choice = Random(f"{subject.name} {seed}")
    for _ in range(count):
        sample, other = choice.choice(subject.samples), choice.choice(subject.samples)
        frame = sample.finish(mutated(sample.frame, other.frame, choice))
        yield Sample(frame, sample.read)


def fuzz(subject: Subject, *, seed: int, count: int) -> Report:
    """Reads all sound frames, which must succeed, and ``count`` mutated ones.

    Anything but a DecodeError is raised, with the frame in a note.
    """
    for sample in subject.samples:
        sample.read(sample.finish(sample.frame))
    report = Report(frames=count, slowest=[(0.0, -1, subject.samples[0])] * SLOWEST_KEPT)
    with _Culprit(subject.name, seed) as current:
        for number, sample in enumerate(mutated_samples(subject, seed=seed, count=count)):
            current.number, current.frame = number, sample.frame
            start = perf_counter()
            report.refused += is_refused(sample)
            heappushpop(report.slowest, (perf_counter() - start, number, sample))
    return report


def is_refused(sample: Sample) -> bool:
    """Reads the frame; whatever a reader may not raise, passes."""
    try:
        sample.read(sample.frame)
    except DecodeError:
        return True
    return False


@dataclass(slots=True)
class _Culprit:
    """Says, of whatever is raised inside, how to repeat it."""

    subject: str
    seed: int
    number: int = -1
    frame: bytes = b""

    def __enter__(self) -> "_Culprit":
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            error.add_note(
                f"{self.subject}, seed {self.seed}, frame {self.number}: {self.frame.hex()}"
            )


def greediest(subject: Subject, *, seed: int, count: int) -> tuple[bytes, int] | None:
    """The first of every hundredth frame that needs more memory than it may, and how much."""
    samples = list(mutated_samples(subject, seed=seed, count=count))[::MEASURED_EVERY]
    for sample in samples:
        needed = peak_bytes(partial(is_refused, sample))
        if needed > subject.peak_bytes_max(sample.frame):
            return sample.frame, needed
    return None
