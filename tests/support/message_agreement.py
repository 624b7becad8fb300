"""Do Kafka's classes write and read messages as we do?

Every sample goes both ways, through every class that has its version: Kafka writes the bytes of our
JSON, and shows as JSON what it reads in our bytes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from odradek.protocol.codec import encode_bytes
from odradek.protocol.schema import Message
from tests.support.kafka_json import to_json
from tests.support.message_oracle import (
    KafkaClass,
    MessageOracle,
    answers,
    parsed_json,
    read_question,
    write_question,
)


@dataclass(frozen=True, slots=True)
class Sample:
    """A message as this project shows and writes it, and where Kafka has its version."""

    message: type[Message]
    version: int
    case: str
    shown: dict[str, Any]
    encoded: bytes
    places: Sequence[KafkaClass]

    @property
    def name(self) -> str:
        return f"{self.message.__name__} {self.version} ({self.case})"


def sample_of(oracle: MessageOracle, value: Message, version: int, case: str) -> Sample:
    message = type(value)
    places = oracle.places(message, version)
    assert places, f"Kafka has no {message.__name__} {version}"
    key = message.__schema__.key
    assert key is None or {oracle.key_of(place) for place in places} == {key}
    return Sample(
        message, version, case, to_json(value, version), encode_bytes(value, version), places
    )


def disagreements_with_kafka(samples: Iterable[Sample]) -> list[str]:
    """A text for each sample and class that wrote or read it otherwise."""
    compared = [(sample, place) for sample in samples for place in sample.places]
    questions = [
        (place, question)
        for sample, place in compared
        for question in (write_question(place, sample.shown), read_question(place, sample.encoded))
    ]
    replies = iter(answers(questions))
    return [
        f"{sample.name}, Kafka {place.release}: {fault}"
        for sample, place in compared
        for fault in _faults(sample, place, written=next(replies), read=next(replies))
    ]


def _faults(sample: Sample, place: KafkaClass, *, written: str, read: str) -> Iterator[str]:
    if written != sample.encoded.hex():
        yield f"it writes\n  {written}\nand we write\n  {sample.encoded.hex()}"
    if parsed_json(place, read) != sample.shown:
        yield f"it reads\n  {read}\nand we read\n  {sample.shown}"
