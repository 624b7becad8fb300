"""Ids and regions of files."""

import pickle

import pytest

from odradek.protocol.file_region import FileRegion
from odradek.protocol.types import ZERO_UUID, TopicPartition, Uuid

# Both from Kafka: Uuid.METADATA_TOPIC_ID and Uuid.ZERO_UUID as it prints them.
METADATA_TOPIC = "AAAAAAAAAAAAAAAAAAAAAQ"
ZERO = "AAAAAAAAAAAAAAAAAAAAAA"


def test_an_id_is_shown_as_kafka_shows_it():
    assert str(Uuid(bytes(15) + b"\1")) == METADATA_TOPIC
    assert str(ZERO_UUID) == ZERO
    assert str(Uuid(b"\xff" * 16)) == "_____________________w"


def test_what_is_shown_can_be_read_again():
    for seed in range(64):
        made = Uuid(bytes((seed * 37 + place * 11) % 256 for place in range(16)))
        assert Uuid.parse(str(made)) == made


def test_an_id_shows_how_to_make_it():
    made = Uuid(bytes(range(16)))
    assert eval(repr(made)) == made


@pytest.mark.parametrize("size", [0, 15, 17])
def test_an_id_has_sixteen_bytes(size):
    with pytest.raises(ValueError, match=f"16 bytes, not {size}"):
        Uuid(bytes(size))


@pytest.mark.parametrize("text", ["", "A" * 21, "A" * 23, "A" * 24])
def test_the_text_of_an_id_has_22_characters(text):
    with pytest.raises(ValueError, match="22 characters"):
        Uuid.parse(text)


@pytest.mark.parametrize("text", ["AAAAAAAAAAA!AAAAAAAAAA", "AAAAAAAAAAAé", "é" * 22, "=" * 22])
def test_only_base64url_is_the_text_of_an_id(text):
    with pytest.raises(ValueError):  # noqa: PT011
        Uuid.parse(text)


def test_an_id_equals_and_hashes_as_its_bytes():
    made = Uuid(bytes(range(16)))
    assert made == bytes(range(16))
    assert {made: 1}[Uuid(bytes(range(16)))] == 1


def test_an_id_survives_pickling():
    made = Uuid(bytes(range(16)))
    copied = pickle.loads(pickle.dumps(made))
    assert copied == made
    assert type(copied) is Uuid


def test_a_region_is_as_long_as_it_says():
    region = FileRegion(descriptor=3, position=100, length=42)
    assert len(region) == 42


def test_an_empty_region_is_false():
    assert not FileRegion(descriptor=3, position=100, length=0)


def test_a_partition_is_shown_as_its_directory_is_named():
    assert str(TopicPartition("orders", 3)) == "orders-3"
