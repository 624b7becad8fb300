"""Tests of broker/groups/consumer/metadata_hash.py; the numbers are from the log of Kafka 4.1.1."""

from odradek.broker.groups.consumer.metadata_hash import hash_of_group, hash_of_topic
from odradek.protocol.types import Uuid

A = hash_of_topic("a", Uuid.parse("XXj-g4o4TKCjznfCVxFtHg"), [[], []])
B = hash_of_topic("b", Uuid.parse("ne3dcN8FT9umySExZc5-8w"), [[], [], []])


def test_hashes_are_those_of_kafka():
    assert hash_of_group({"a": A}) == 0x7B1E6BE792088E98
    assert hash_of_group({"b": B, "a": A}) == 0xE0FB58B913FE4F1A - 2**64


def test_a_group_without_topics_has_none():
    assert hash_of_group({}) == 0


def test_every_change_of_a_topic_gives_another_hash():
    topic_id, other_id = Uuid(bytes(16)), Uuid(bytes(15) + b"\1")
    hashes = {
        hash_of_topic("a", topic_id, [[]]),
        hash_of_topic("b", topic_id, [[]]),
        hash_of_topic("a", other_id, [[]]),
        hash_of_topic("a", topic_id, [[], []]),
        hash_of_topic("a", topic_id, [["r1"]]),
        hash_of_topic("a", topic_id, [["r1", "r2"]]),
    }
    assert len(hashes) == 6


def test_the_order_of_racks_does_not_matter():
    one, other = [["r1", "r2"]], [["r2", "r1"]]
    topic_id = Uuid(bytes(16))
    assert hash_of_topic("a", topic_id, one) == hash_of_topic("a", topic_id, other)
