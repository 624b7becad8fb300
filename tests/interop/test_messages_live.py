"""Do Kafka's own message classes agree with ours on values that nobody chose?"""

import random

import pytest

from tests.interop.record_fields import field_vectors
from tests.interop.record_messages import header_vectors, message_vector, recorded_samples
from tests.support.all_messages import all_messages, versions_of
from tests.support.message_agreement import disagreements_with_kafka, sample_of
from tests.support.message_oracle import MessageOracle
from tests.support.message_values import at_random, filled
from tests.support.message_vectors import FieldVector, HeaderVector, MessageVector, load

ROUNDS = 4


@pytest.fixture(scope="module")
def oracle(kafka_39_jars, kafka_41_jars) -> MessageOracle:
    return MessageOracle()


@pytest.mark.parametrize("each_round", range(ROUNDS))
def test_kafka_writes_and_reads_random_messages_as_we_do(oracle, each_round):
    # The plugin that seeds this generator prints its seed; the round makes it differ between tests.
    choice = random.Random(f"{random.getrandbits(64)} {each_round}")
    samples = [
        sample_of(oracle, filled(message, version, at_random(choice)), version, "random")
        for message in all_messages()
        for version in versions_of(message)
    ]
    assert disagreements_with_kafka(samples) == []


def test_recorded_messages_are_what_kafka_says(oracle):
    samples = list(recorded_samples(oracle))
    assert disagreements_with_kafka(samples) == []
    assert tuple(map(message_vector, samples)) == load(MessageVector)


def test_recorded_fields_are_what_kafka_says(oracle):
    vectors, disagreements = field_vectors(oracle)
    assert disagreements == []
    assert tuple(vectors) == load(FieldVector)


def test_recorded_headers_are_what_kafka_says(oracle):
    assert tuple(header_vectors(oracle)) == load(HeaderVector)
