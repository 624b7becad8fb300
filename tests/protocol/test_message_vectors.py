"""Do we write and read every message as Kafka's own classes do?  (Recorded; see tests/vectors.)"""

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
def test_we_write_the_bytes_that_kafka_writes(message):
    for vector in vectors_of(message):
        value = from_json(message, vector.version, vector.shown)
        assert encode_bytes(value, vector.version).hex() == vector.encoded, name_of(vector)


@every_message
def test_we_read_what_kafka_wrote(message):
    for vector in vectors_of(message):
        value = decode(message, vector.version, bytes.fromhex(vector.encoded))
        assert value == from_json(message, vector.version, vector.shown), name_of(vector)
        assert to_json(value, vector.version) == vector.shown, name_of(vector)


@every_message
def test_tags_that_nobody_knows_survive(message):
    for vector in vectors_of(message):
        if vector.case == "unknown tags":
            value = decode(message, vector.version, bytes.fromhex(vector.encoded))
            assert [tag for tag, _ in value.unknown_tags] == [9, 128]
            assert encode_bytes(value, vector.version).hex() == vector.encoded


@every_message
def test_every_version_is_recorded_in_every_way_that_it_can_differ(message):
    recorded = [(vector.version, vector.case) for vector in vectors_of(message)]
    expected = [
        (version, case) for version in versions_of(message) for case in cases_of(message, version)
    ]
    assert set(expected) <= set(recorded)


def test_nothing_is_recorded_that_is_not_declared():
    for vector in load(MessageVector):
        assert vector.version in message_named(vector.message).__schema__.versions


def test_both_releases_of_kafka_were_asked():
    releases = {tuple(vector.releases) for vector in load(MessageVector)}
    assert releases == {("3.9.1",), ("3.9.1", "4.1.1"), ("4.1.1",)}


def cases_of(message: type[Message], version: int) -> list[str]:
    travelling = [each for each in placed_fields(message) if each.travels_in(version)]
    cases = ["defaults", "typical", "least", "greatest"]
    if any(version in each.field.nullable for each in travelling):
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
