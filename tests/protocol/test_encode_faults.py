"""A value that cannot be encoded is rejected with one exception that names its field."""

import uuid
from array import array as numbers_of

import pytest

from odradek.protocol.api.fetch import FetchRequest
from odradek.protocol.api.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.buffers import REPR_CHARACTERS_MAX
from odradek.protocol.codec import decode, encode, encode_bytes
from odradek.protocol.encode_faults import find_fault
from odradek.protocol.errors import EncodeError
from odradek.protocol.field import BOOL, FLOAT64, UUID, Array, Nested, Primitive
from odradek.protocol.file_region import FileRegion
from odradek.protocol.schema import (
    DEFAULTS,
    Message,
    Struct,
    array,
    boolean,
    byte_string,
    float64,
    int8,
    int16,
    int32,
    int64,
    record_batches,
    string,
    struct,
    uint16,
    uint32,
)
from odradek.protocol.schema import uuid as id_
from odradek.protocol.types import ZERO_UUID, Uuid
from tests.support.all_messages import all_messages
from tests.support.message_values import defaults
from tests.support.messages import EVERY_VERSION, integer_range

PLAIN, COMPACT = 0, 1


class Inner(Struct):
    number: int = int32(default=0)


class Everything(Message, versions="0-1", flexible="1+"):
    flag: bool = boolean(default=False)
    tiny: int = int8(default=0)
    small: int = int16(default=0)
    port: int = uint16(default=0)
    number: int = int32(default=0)
    checksum: int = uint32(default=0)
    large: int = int64(default=0)
    ratio: float = float64(default=0.0)
    id: Uuid = id_(default=ZERO_UUID)
    text: str = string(default="")
    nullable_text: str | None = string(nullable="0+", default=None)
    blob: bytes = byte_string(default=b"")
    nullable_blob: bytes | None = byte_string(nullable="0+", default=None)
    records: bytes | None = record_batches(nullable="0+", default=None)
    numbers: list[int] = array(int32, default=[])
    texts: list[str] = array(string, default=[])
    nullable_texts: list[str] | None = array(string, nullable="0+", default=None)
    inners: list[Inner] = array(Inner, default=[])
    inner: Inner = struct(Inner, default=DEFAULTS)
    nullable_inner: Inner | None = struct(Inner, nullable="0+", default=None)
    tagged_flag: bool = boolean("1+", tag=0, default=False)
    tagged_number: int = int32("1+", tag=1, default=7)
    tagged_id: Uuid = id_("1+", tag=2, default=ZERO_UUID)
    tagged_text: str = string("1+", tag=3, default="")
    tagged_numbers: list[int] = array(int32, "1+", tag=4, default=[])
    tagged_inner: Inner = struct(Inner, "1+", tag=5, default=DEFAULTS)


NULLABLE = {field.name: None for field in Everything.__schema__.fields if COMPACT in field.nullable}
NOT_NULLABLE = [
    field.name for field in Everything.__schema__.fields if COMPACT not in field.nullable
]
IN_VERSION_0 = [field.name for field in Everything.__schema__.fields if field.tag is None]

#: Buffers whose length is not their byte count, or whose bytes are not contiguous.
NOT_CONTIGUOUS = [
    numbers_of("i", [1, 2, 3]),
    memoryview(numbers_of("i", [1, 2, 3])),
    memoryview(b"abcdef")[::2],
    memoryview(b"abcdef").cast("B", [2, 3]),
]
WRONG_VALUES_BY_FIELD = {
    "flag": [2, -1, "x", "", [], 0.5],
    "tiny": [1.5, "1", [], b"1"],
    "number": [1.0, "1", [1]],
    "ratio": ["1.0", [], 10**400],
    "id": [b"", b"short", bytes(16), bytes(17), "A" * 22, uuid.UUID(int=0)],
    "text": [b"bytes", 5, ["x"], "\ud800", "x" * 32768, "é" * 16384],
    "nullable_text": [b"bytes", 5, "lone \udfff surrogate", "x" * 32768],
    "blob": ["text", "", 5, [1, 2], FileRegion(3, 0, 5), *NOT_CONTIGUOUS],
    "nullable_blob": ["text", "", 5, [1, 2], [], FileRegion(3, 0, 5), *NOT_CONTIGUOUS],
    "records": ["text", "", 5, [b"x"], [], {}, *NOT_CONTIGUOUS],
    "numbers": [5, "12", iter([1]), object()],
    "texts": ["text", "", 5, iter(["x"])],
    "nullable_texts": ["text", 5],
    "inners": [5, "text", Inner()],
    "inner": [5, "text", [Inner()]],
    "nullable_inner": [5, "text", [Inner()]],
    "tagged_flag": [2, "x"],
    "tagged_number": [2**31, "x", 1.5],
    "tagged_id": [b"short"],
    "tagged_text": [5, "\ud800", "x" * 32768],
    "tagged_numbers": [5, [2**31], ["x"]],
    "tagged_inner": [5, Inner(number=2**31)],
}
WRONG_VALUES = [(name, value) for name, values in WRONG_VALUES_BY_FIELD.items() for value in values]


def encode_error(message, version):
    with pytest.raises(EncodeError) as caught:
        encode(message, version)
    return str(caught.value)


@pytest.mark.parametrize("name", NOT_NULLABLE)
def test_null_is_rejected_in_a_required_field(name):
    text = encode_error(Everything(**{name: None}), COMPACT)
    assert text == f"Everything v1: {name}: null, but must have a value"


@pytest.mark.parametrize("name", sorted(set(NOT_NULLABLE) & set(IN_VERSION_0)))
def test_null_is_rejected_in_plain_versions_too(name):
    assert f": {name}: null" in encode_error(Everything(**{name: None}), PLAIN)


@pytest.mark.parametrize("version", [PLAIN, COMPACT])
def test_null_is_encoded_in_nullable_fields(version):
    message = Everything(**NULLABLE)
    assert decode(Everything, version, encode_bytes(message, version)) == message


@pytest.mark.parametrize(("name", "value"), WRONG_VALUES)
def test_wrong_value_is_rejected_with_the_field_name(name, value):
    text = encode_error(Everything(**{name: value}), COMPACT)
    assert text.startswith(f"Everything v1: {name}")


@pytest.mark.parametrize(
    ("name", "value"), [pair for pair in WRONG_VALUES if pair[0] in IN_VERSION_0]
)
def test_wrong_value_is_rejected_in_plain_versions_too(name, value):
    assert encode_error(Everything(**{name: value}), PLAIN).startswith(f"Everything v0: {name}")


@pytest.mark.parametrize(
    "field",
    [
        field
        for field in Everything.__schema__.fields
        if isinstance(field.type, Primitive) and field.type not in (BOOL, FLOAT64, UUID)
    ],
    ids=lambda field: field.name,
)
def test_integers_outside_their_range_are_rejected(field):
    low, high = integer_range(field.type)
    for value in (low, high):
        message = Everything(**{field.name: value})
        assert decode(Everything, COMPACT, encode_bytes(message, COMPACT)) == message
    for value in (low - 1, high + 1, 2**70, -(2**70)):
        text = encode_error(Everything(**{field.name: value}), COMPACT)
        assert text == f"Everything v1: {field.name}: {value} is not of type {field.type.name}"


def test_boolean_can_be_given_as_a_number():
    assert encode(Everything(flag=1), PLAIN) == encode(Everything(flag=True), PLAIN)


@pytest.mark.parametrize("sequence", [(1, 2), range(1, 3), {1: "a", 2: "b"}.keys()])
def test_list_can_be_any_sized_iterable(sequence):
    assert encode(Everything(numbers=sequence), PLAIN) == encode(Everything(numbers=[1, 2]), PLAIN)


def test_bytes_can_be_any_buffer():
    plain = encode_bytes(Everything(blob=b"abc"), COMPACT)
    assert encode_bytes(Everything(blob=bytearray(b"abc")), COMPACT) == plain
    assert encode_bytes(Everything(blob=memoryview(b"abc")), COMPACT) == plain
    assert encode_bytes(Everything(blob=memoryview(b"?abc?")[1:4]), COMPACT) == plain


class TestPaths:
    def test_array_element_is_named_by_its_index(self):
        assert ": numbers[2]: 2147483648 is" in encode_error(
            Everything(numbers=[0, 1, 2**31]), COMPACT
        )
        assert ": texts[1]: null" in encode_error(Everything(texts=["x", None]), COMPACT)
        assert ": numbers[0]: null" in encode_error(Everything(numbers=[None]), PLAIN)
        assert ": inners[1]: null" in encode_error(Everything(inners=[Inner(), None]), PLAIN)

    def test_array_element_of_another_class_is_named_by_its_index(self):
        assert ": inners[1]: " in encode_error(Everything(inners=[Inner(), "x"]), COMPACT)

    def test_field_inside_arrays_is_named_by_its_full_path(self):
        partition = MetadataResponse.Topic.Partition
        topics = [
            MetadataResponse.Topic(
                error_code=0,
                name=f"t{number}",
                partitions=[
                    partition(
                        error_code=0,
                        partition_index=index,
                        leader_id=0,
                        replica_nodes=[1, 2],
                        isr_nodes=[1, -(2**40)] if (number, index) == (3, 1) else [1],
                    )
                    for index in range(2)
                ],
            )
            for number in range(5)
        ]
        text = encode_error(MetadataResponse(brokers=[], topics=topics), 9)
        assert text.startswith("MetadataResponse v9: topics[3].partitions[1].isr_nodes[1]: ")

    def test_field_of_a_nested_struct_is_named_by_its_path(self):
        text = encode_error(Everything(nullable_inner=Inner(number="x")), COMPACT)
        assert text == "Everything v1: nullable_inner.number: 'x' is not of type int32"

    def test_long_value_is_abbreviated(self):
        text = encode_error(Everything(number="x" * 10_000), COMPACT)
        assert len(text) < REPR_CHARACTERS_MAX + 100


def fetch_request(**values):
    return FetchRequest(max_wait_ms=0, min_bytes=0, topics=[], **values)


def fetch_partition(**values):
    return FetchRequest.Topic.Partition(
        partition=0, fetch_offset=0, partition_max_bytes=0, **values
    )


class TestFieldsTheVersionLacks:
    def test_field_not_at_its_default_is_rejected(self):
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        assert encode_error(request, 3) == (
            "MetadataRequest v3: allow_auto_topic_creation: "
            "version 3 cannot carry it, and it is not at its default"
        )

    def test_null_is_rejected_too(self):
        request = MetadataRequest(topics=[], allow_auto_topic_creation=None)
        assert ": allow_auto_topic_creation: version 3" in encode_error(request, 3)
        request = fetch_request(forgotten_topics_data=None)
        assert ": forgotten_topics_data: version 6" in encode_error(request, 6)

    def test_field_at_its_default_is_omitted(self):
        whole = encode_bytes(MetadataRequest(topics=[]), 3)
        assert whole == b"\0\0\0\0"

    def test_ignorable_field_is_omitted(self):
        assert encode(fetch_request(rack_id="r"), 10) == encode(fetch_request(), 10)

    def test_array_and_struct_are_rejected_too(self):
        forgotten = FetchRequest.ForgottenTopic(topic="t", partitions=[])
        text = encode_error(fetch_request(forgotten_topics_data=[forgotten]), 6)
        assert ": forgotten_topics_data: version 6" in text
        state = FetchRequest.ReplicaState(replica_id=1)
        assert ": replica_state: version 14" in encode_error(fetch_request(replica_state=state), 14)

    def test_new_struct_with_default_values_is_omitted(self):
        request = fetch_request(replica_state=FetchRequest.ReplicaState())
        assert encode(request, 14) == encode(fetch_request(), 14)

    def test_empty_tuple_is_accepted_as_an_empty_list(self):
        request = fetch_request(forgotten_topics_data=())
        assert encode(request, 6) == encode(fetch_request(), 6)

    def test_field_in_an_array_element_is_named_by_its_full_path(self):
        topic = FetchRequest.Topic(
            topic="t", partitions=[fetch_partition(), fetch_partition(last_fetched_epoch=5)]
        )
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic])
        text = encode_error(request, 11)
        assert ": topics[0].partitions[1].last_fetched_epoch: version 11 cannot carry it" in text


class TestUnknownTags:
    def test_unknown_tags_are_rejected_in_a_version_without_tags(self):
        text = encode_error(Everything(unknown_tags=((50, b""),)), PLAIN)
        assert text == "Everything v0: unknown_tags: version 0 has no tagged fields"

    def test_unknown_tags_of_a_nested_struct_are_named_by_their_path(self):
        inner = Inner(unknown_tags=((5, b""),))
        assert ": inners[1].unknown_tags: " in encode_error(
            Everything(inners=[Inner(), inner]), PLAIN
        )

    @pytest.mark.parametrize(
        "tags",
        [
            ((-1, b""),),
            ((2**31, b""),),
            (("x", b""),),
            ((50, "text"),),
            ((50, None),),
            ((50, b"a"), (50, b"b")),
            ((50, memoryview(b"abcd").cast("h")),),
            ((50,),),
            ((50, b"a", b"b"),),
            (50,),
            50,
            {50: b"a"},
            "text",
        ],
    )
    @pytest.mark.parametrize("inner", [False, True])
    def test_invalid_tags_are_rejected(self, tags, inner):
        if inner:
            message, path = Everything(inner=Inner(unknown_tags=tags)), "inner.unknown_tags"
        else:
            message, path = Everything(unknown_tags=tags), "unknown_tags"
        assert f"Everything v1: {path}: " in encode_error(message, COMPACT)

    @pytest.mark.parametrize("number", [1, 7])
    def test_known_tag_among_the_unknown_tags_is_rejected(self, number):
        message = Everything(tagged_number=number, unknown_tags=((1, b"abcd"),))
        assert ": unknown_tags: tag 1 is given twice, or declared" in encode_error(message, COMPACT)

    def test_unknown_tags_are_encoded_in_ascending_order(self):
        message = Everything(unknown_tags=((90, b"x"), (50, b"y")))
        decoded = decode(Everything, COMPACT, encode_bytes(message, COMPACT))
        assert decoded.unknown_tags == ((50, b"y"), (90, b"x"))


def test_valid_message_has_no_fault():
    assert find_fault(Everything(), PLAIN) is None
    assert find_fault(Everything(unknown_tags=((50, b""),)), COMPACT) is None


def test_encoder_bug_is_not_reported_as_a_field_fault(monkeypatch):
    def broken(message):
        raise TypeError("a bug")

    monkeypatch.setattr("odradek.protocol.codec.encoder", lambda message, version: broken)
    with pytest.raises(TypeError, match="a bug"):
        encode(Everything(), PLAIN)


@pytest.mark.parametrize("message", all_messages(), ids=lambda message: message.__name__)
def test_every_field_of_every_message_rejects_invalid_values(message):
    for version in (version for each, version in EVERY_VERSION if each is message):
        for field in message.__schema__.fields:
            if version not in field.versions:
                continue
            wrong = object()
            value = defaults(message)
            setattr(value, field.name, wrong)
            assert encode_error(value, version).startswith(
                f"{message.__name__} v{version}: {field.name}"
            )
            if version not in field.nullable:
                setattr(value, field.name, None)
                assert f": {field.name}: null" in encode_error(value, version)
            if isinstance(field.type, Array) and isinstance(field.type.element, Nested):
                setattr(value, field.name, [None])
                assert f": {field.name}[0]: null" in encode_error(value, version)
