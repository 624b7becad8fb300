"""We encode and decode every message as Kafka's classes do (recorded; see tests/vectors)."""

from functools import cache

import pytest

from odradek.protocol.codec import decode, encode_bytes
from odradek.protocol.schema import Message
from tests.support.all_messages import all_messages, message_named, versions_of
from tests.support.kafka_json import from_json, to_json
from tests.support.message_fields import placed_fields
from tests.support.message_vectors import MessageVector, load

every_message = pytest.mark.parametrize("message", all_messages(), ids=lambda each: each.__name__)


@every_message
def test_encoded_bytes_are_those_of_kafka(message):
    for vector in vectors_of(message):
        value = from_json(message, vector.version, vector.shown)
        assert encode_bytes(value, vector.version).hex() == vector.encoded, name_of(vector)


@every_message
def test_bytes_of_kafka_are_decoded(message):
    for vector in vectors_of(message):
        value = decode(message, vector.version, bytes.fromhex(vector.encoded))
        assert value == from_json(message, vector.version, vector.shown), name_of(vector)
        assert to_json(value, vector.version) == vector.shown, name_of(vector)


@every_message
def test_unknown_tags_survive_a_round_trip(message):
    for vector in vectors_of(message):
        if vector.case == "unknown tags":
            value = decode(message, vector.version, bytes.fromhex(vector.encoded))
            assert [tag for tag, _ in value.unknown_tags] == [9, 128]
            assert encode_bytes(value, vector.version).hex() == vector.encoded


@every_message
def test_every_case_of_every_version_is_recorded(message):
    recorded = [(vector.version, vector.case) for vector in vectors_of(message)]
    expected = [
        (version, case) for version in versions_of(message) for case in cases_of(message, version)
    ]
    assert set(expected) <= set(recorded)


def test_every_recorded_version_is_declared():
    for vector in load(MessageVector):
        assert vector.version in message_named(vector.message).__schema__.versions


def test_vectors_cover_both_kafka_releases():
    releases = {tuple(vector.releases) for vector in load(MessageVector)}
    assert releases == {("3.9.1",), ("3.9.1", "4.1.1"), ("4.1.1",)}


def cases_of(message: type[Message], version: int) -> list[str]:
    fields = [placed for placed in placed_fields(message) if placed.travels_in(version)]
    cases = ["defaults", "typical", "least", "greatest"]
    if any(version in placed.field.nullable for placed in fields):
        cases += ["nulls"]
    if version in message.__schema__.flexible:
        cases += ["unknown tags"]
    return cases


def vectors_of(message: type[Message]) -> list[MessageVector]:
    return _vectors_by_name()[message.__name__]


def name_of(vector: MessageVector) -> str:
    return f"{vector.message} {vector.version} ({vector.case})"


@cache
def _vectors_by_name() -> dict[str, list[MessageVector]]:
    grouped: dict[str, list[MessageVector]] = {}
    for vector in load(MessageVector):
        grouped.setdefault(vector.message, []).append(vector)
    return grouped
