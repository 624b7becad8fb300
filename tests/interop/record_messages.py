"""Makes the vectors below tests/vectors/messages anew, with Kafka's own message classes.

    .venv/bin/python -m tests.interop.record_messages

What Kafka says is recorded only if this project says the same: every disagreement is printed, and
the vectors stay as they were.
"""

import sys
from collections.abc import Iterator

from odradek.protocol.schema import Message
from tests.interop.record_fields import field_vectors
from tests.support.all_messages import all_messages, versions_of
from tests.support.message_agreement import Sample, disagreements_with_kafka, sample_of
from tests.support.message_oracle import MessageOracle, answers, headers_question
from tests.support.message_values import LONGEST, RECIPES, defaults, filled
from tests.support.message_vectors import FieldVector, HeaderVector, MessageVector, save

#: Recorded of every version; the others where they differ from these.
EVERY_CASE = ("defaults", "typical", "least", "greatest")
#: Strings and arrays as long as can be, in messages with a plain and a flexible version.
RECORDED_AT_LENGTH = ("HeartbeatRequest", "OffsetFetchRequest")


def main() -> None:
    oracle = MessageOracle()
    fields, disagreements = field_vectors(oracle)
    samples = list(recorded_samples(oracle))
    disagreements += disagreements_with_kafka(samples)
    if disagreements:
        sys.exit("\n".join(disagreements))
    save(MessageVector, map(message_vector, samples))
    save(FieldVector, fields)
    save(HeaderVector, header_vectors(oracle))


def recorded_samples(oracle: MessageOracle) -> Iterator[Sample]:
    for message in all_messages():
        for version in versions_of(message):
            seen: set[bytes] = set()
            for case, value in _cases(message, version):
                sample = sample_of(oracle, value, version, case)
                if case in EVERY_CASE or sample.encoded not in seen:
                    seen.add(sample.encoded)
                    yield sample


def _cases(message: type[Message], version: int) -> Iterator[tuple[str, Message]]:
    yield "defaults", defaults(message)
    versions = message.__schema__.versions
    for case, recipe in RECIPES.items():
        # One version says enough of many elements, and it takes many bytes to say it.
        if case != "many elements" or version == versions.high:
            yield case, filled(message, version, recipe)
    if message.__name__ in RECORDED_AT_LENGTH and version in (versions.low, versions.high):
        yield "longest", filled(message, version, LONGEST)


def message_vector(sample: Sample) -> MessageVector:
    return MessageVector(
        message=sample.message.__name__,
        version=sample.version,
        case=sample.case,
        releases=[place.release for place in sample.places],
        shown=sample.shown,
        encoded=sample.encoded.hex(),
    )


def header_vectors(oracle: MessageOracle) -> list[HeaderVector]:
    requests = [each for each in all_messages() if each.__name__.endswith("Request")]
    asked = [(each, version) for each in requests for version in versions_of(each)]
    replies = answers(
        [
            (oracle.places(message, version)[0], headers_question(message, version))
            for message, version in asked
        ]
    )
    vectors = []
    for (message, version), reply in zip(asked, replies, strict=True):
        request, response = map(int, reply.split("\t"))
        key = message.__schema__.key
        assert key is not None
        vectors.append(HeaderVector(key, version, request, response))
    return vectors


if __name__ == "__main__":
    main()
