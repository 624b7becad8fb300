"""Properties that hold for every message in every version, with any values.

    decode(encode(x)) == x      with the default of each field that the version lacks
    encode(decode(b)) == b      for bytes that we wrote
    every truncation is a DecodeError
    unknown tags are kept
    record data is never copied

Hypothesis draws the values of the round trip. The other tests use small random messages, which
are generated much faster.
"""

import copy
import pickle
from random import Random
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings

from odradek.protocol.codec import decode, decode_prefix, encode, encode_bytes
from odradek.protocol.decoder_source import holds_records
from odradek.protocol.errors import DecodeError
from odradek.protocol.field import RECORDS, Array, Nested
from odradek.protocol.file_region import FileRegion
from odradek.protocol.schema import default_value
from tests.support.all_messages import all_messages, versions_of
from tests.support.message_values import UNKNOWN_TAGS, at_random, filled
from tests.support.messages import EVERY_VERSION, messages, small_message, structs_of

#: Examples per version: four by default, more with a Hypothesis profile of more than 100 examples.
EXAMPLES = max(1, settings().max_examples // 25)
SMALL_MESSAGES = 2

each_version = pytest.mark.parametrize(
    ("message", "version"), EVERY_VERSION, ids=lambda part: getattr(part, "__name__", f"v{part}")
)
each_message = pytest.mark.parametrize(
    "message", all_messages(), ids=lambda message: message.__name__
)
with_records = pytest.mark.parametrize(
    "message", list(filter(holds_records, all_messages())), ids=lambda message: message.__name__
)


def small_messages(message):
    random = Random(crc32(message.__name__.encode()))
    for version in versions_of(message):
        for _ in range(SMALL_MESSAGES):
            yield version, small_message(message, version, random)


@each_version
def test_round_trip_changes_nothing(message, version):
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(messages(message, version))
    def check(value):
        frame = encode_bytes(value, version)
        decoded = decode(message, version, frame)
        assert decoded == value
        assert encode_bytes(decoded, version) == frame

    check()


@each_message
def test_large_values_survive_a_round_trip(message):
    random = Random(crc32(message.__name__.encode()))
    for version in versions_of(message):
        value = filled(message, version, at_random(random))
        frame = encode_bytes(value, version)
        assert decode(message, version, frame) == value
        assert encode_bytes(decode(message, version, frame), version) == frame


@each_message
def test_fields_missing_from_a_version_have_their_default(message):
    for version, value in small_messages(message):
        decoded = decode(message, version, encode_bytes(value, version))
        for struct in structs_in(decoded):
            for field in struct.__schema__.fields:
                if version not in field.versions:
                    assert getattr(struct, field.name) == default_value(field), field.name


@each_message
def test_every_truncation_is_rejected(message):
    for version, value in small_messages(message):
        frame = encode_bytes(value, version)
        read = [size for size in range(len(frame)) if decodes(message, version, frame[:size])]
        assert read == []


@each_message
def test_extra_byte_is_rejected(message):
    for version, value in small_messages(message):
        with pytest.raises(DecodeError, match="left over"):
            decode(message, version, encode_bytes(value, version) + b"\0")


@each_message
def test_message_is_decoded_from_the_middle_of_a_buffer(message):
    for version, value in small_messages(message):
        frame = encode_bytes(value, version)
        assert decode(message, version, b"before" + frame, 6) == value
        surrounded = b"before" + frame + b"after"
        assert decode_prefix(message, version, surrounded, 6) == (value, 6 + len(frame))


@each_message
def test_unknown_tags_are_kept_in_every_struct(message):
    for version in versions_of(message):
        if version not in message.__schema__.flexible:
            continue
        value = filled(message, version, UNKNOWN_TAGS)
        frame = encode_bytes(value, version)
        decoded = decode(message, version, frame)
        for struct in structs_in(decoded):
            if type(struct) in structs_of(message):
                assert len(struct.unknown_tags) == 2
        assert decoded == value
        assert encode_bytes(decoded, version) == frame


@each_message
def test_any_buffer_type_gives_the_same_message(message):
    for version, value in small_messages(message):
        frame = encode_bytes(value, version)
        for buffer in (bytearray(frame), memoryview(frame), memoryview(b"." + frame + b".")[1:-1]):
            assert decode(message, version, buffer) == value


@each_message
def test_messages_can_be_pickled_copied_and_shown(message):
    for _, value in small_messages(message):
        assert pickle.loads(pickle.dumps(value)) == value
        assert copy.deepcopy(value) == value
        assert repr(value) == repr(copy.copy(value))
        assert repr(value).startswith(f"{message.__name__}(")


@with_records
def test_record_data_is_a_view_of_the_frame(message):
    for version, value in small_messages(message):
        frame = bytearray(encode_bytes(value, version))
        for records in records_in(decode(message, version, frame)):
            assert type(records) is memoryview
            assert records.obj is frame


@with_records
@pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview, FileRegion])
def test_record_data_is_passed_through_uncopied(message, buffer_type):
    for version, value in small_messages(message):
        given_buffers = []
        for struct, name in record_fields(value):
            length = len(given_buffers) + 1
            content = (
                FileRegion(5, 0, length)
                if buffer_type is FileRegion
                else buffer_type(bytes(length))
            )
            setattr(struct, name, content)
            given_buffers.append(content)
        parts = encode(value, version)
        passed = [part for part in parts if any(part is each for each in given_buffers)]
        assert list(map(id, passed)) == list(map(id, given_buffers))


def decodes(message, version, frame):
    # Plain try: this runs a hundred thousand times, and pytest.raises takes five times as long.
    try:
        decode(message, version, frame)
    except DecodeError:
        return False
    return True


def structs_in(struct):
    """Yield the struct and every struct that it contains, at any depth."""
    yield struct
    for field in struct.__schema__.fields:
        inner = field.type.element if isinstance(field.type, Array) else field.type
        if isinstance(inner, Nested):
            value = getattr(struct, field.name)
            for element in value if isinstance(value, list) else [value]:
                if element is not None:
                    yield from structs_in(element)


def record_fields(message):
    """Yield the structs and fields that hold record data, in wire order."""
    for struct in structs_in(message):
        for field in struct.__schema__.fields:
            if field.type is RECORDS and getattr(struct, field.name) is not None:
                yield struct, field.name


def records_in(message):
    return [getattr(struct, name) for struct, name in record_fields(message)]
