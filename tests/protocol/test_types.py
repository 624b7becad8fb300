"""Uuids, file regions and topic partitions."""

import pickle

import pytest

from odradek.protocol.file_region import FileRegion
from odradek.protocol.types import ZERO_UUID, TopicPartition, Uuid

# Uuid.METADATA_TOPIC_ID and Uuid.ZERO_UUID as Kafka prints them.
METADATA_TOPIC = "AAAAAAAAAAAAAAAAAAAAAQ"
ZERO = "AAAAAAAAAAAAAAAAAAAAAA"


def test_uuid_is_formatted_as_in_kafka():
    assert str(Uuid(bytes(15) + b"\1")) == METADATA_TOPIC
    assert str(ZERO_UUID) == ZERO
    assert str(Uuid(b"\xff" * 16)) == "_____________________w"


def test_uuid_is_parsed_from_its_text():
    for seed in range(64):
        uuid = Uuid(bytes((seed * 37 + index * 11) % 256 for index in range(16)))
        assert Uuid.parse(str(uuid)) == uuid


def test_repr_of_a_uuid_can_be_evaluated():
    uuid = Uuid(bytes(range(16)))
    assert eval(repr(uuid)) == uuid


@pytest.mark.parametrize("size", [0, 15, 17])
def test_uuid_has_sixteen_bytes(size):
    with pytest.raises(ValueError, match=f"16 bytes, not {size}"):
        Uuid(bytes(size))


@pytest.mark.parametrize("text", ["", "A" * 21, "A" * 23, "A" * 24])
def test_uuid_text_has_22_characters(text):
    with pytest.raises(ValueError, match="22 characters"):
        Uuid.parse(text)


@pytest.mark.parametrize("text", ["AAAAAAAAAAA!AAAAAAAAAA", "AAAAAAAAAAAé", "é" * 22, "=" * 22])
def test_uuid_text_must_be_base64url(text):
    with pytest.raises(ValueError):  # noqa: PT011
        Uuid.parse(text)


def test_uuid_equals_and_hashes_as_its_bytes():
    uuid = Uuid(bytes(range(16)))
    assert uuid == bytes(range(16))
    assert {uuid: 1}[Uuid(bytes(range(16)))] == 1


def test_uuid_survives_pickling():
    uuid = Uuid(bytes(range(16)))
    copied = pickle.loads(pickle.dumps(uuid))
    assert copied == uuid
    assert type(copied) is Uuid


def test_length_of_a_file_region_is_its_byte_count():
    region = FileRegion(descriptor=3, position=100, length=42)
    assert len(region) == 42


def test_empty_region_is_false():
    assert not FileRegion(descriptor=3, position=100, length=0)


def test_topic_partition_is_formatted_like_its_directory_name():
    assert str(TopicPartition("orders", 3)) == "orders-3"
