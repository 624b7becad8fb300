"""Every declared field behaves as in Kafka's classes (recorded; see tests/vectors).

Covered: the default, whether the field is nullable, and its value in a version that lacks it.
"""

from functools import cache

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import decode, encode_bytes
from odradek.protocol.errors import EncodeError
from odradek.protocol.field import Primitive
from odradek.protocol.header import request_header_version, response_header_version
from odradek.protocol.registry import api
from odradek.protocol.schema import Message, default_value
from tests.support.all_messages import all_messages, versions_of
from tests.support.message_fields import (
    PlacedField,
    disagreements,
    message_with,
    other_than_default,
    placed_fields,
)
from tests.support.message_vectors import FieldVector, HeaderVector, load

every_message = pytest.mark.parametrize("message", all_messages(), ids=lambda each: each.__name__)


@every_message
def test_declarations_match_kafka(message):
    for placed in placed_fields(message):
        assert disagreements(placed, vector_of(message, placed)) == []


@every_message
def test_field_that_a_version_lacks_is_dropped_or_rejected_as_in_kafka(message):
    for placed in placed_fields(message):
        vector = vector_of(message, placed)
        changed = message_with(message, placed, other_than_default(placed.field))
        unchanged = message_with(message, placed, default_value(placed.field))
        for version in vector.dropped_in:
            assert encode_bytes(changed, version) == encode_bytes(unchanged, version)
        for version in vector.refused_in:
            with pytest.raises(EncodeError, match=rf"\b{placed.field.name}\b"):
                encode_bytes(changed, version)


@every_message
def test_null_is_encoded_where_kafka_does_and_rejected_elsewhere(message):
    for placed in placed_fields(message):
        if isinstance(placed.field.type, Primitive):
            continue
        nulled = message_with(message, placed, None)
        nullable = vector_of(message, placed).nullable_in
        for version in filter(placed.travels_in, versions_of(message)):
            if version in nullable:
                assert decode(message, version, encode_bytes(nulled, version)) == nulled
            else:
                with pytest.raises(EncodeError, match=rf"\b{placed.field.name}\b"):
                    encode_bytes(nulled, version)


def test_every_field_was_recorded_in_versions_that_lack_it():
    for message in all_messages():
        for placed in placed_fields(message):
            vector = vector_of(message, placed)
            recorded_versions = {*vector.dropped_in, *vector.refused_in}
            assert not recorded_versions & {*filter(placed.travels_in, versions_of(message))}
            if lacking_versions(message, placed):
                assert recorded_versions, (message.__name__, placed.path)


def test_header_versions_are_those_of_kafka():
    for vector in load(HeaderVector):
        key = ApiKey(vector.key)
        assert request_header_version(key, vector.version) == vector.request_header
        assert response_header_version(key, vector.version) == vector.response_header


def test_headers_of_every_version_of_every_api_are_recorded():
    recorded = {(vector.key, vector.version) for vector in load(HeaderVector)}
    assert recorded == {
        (key, version) for key in ApiKey for version in versions_of(api(key).request)
    }


def lacking_versions(message: type[Message], placed: PlacedField) -> list[int]:
    reached = filter(placed.is_reached_in, versions_of(message))
    return [version for version in reached if version not in placed.field.versions]


def vector_of(message: type[Message], placed: PlacedField) -> FieldVector:
    return _vectors()[message.__name__, placed.path]


@cache
def _vectors() -> dict[tuple[str, str], FieldVector]:
    return {(vector.message, vector.path): vector for vector in load(FieldVector)}
