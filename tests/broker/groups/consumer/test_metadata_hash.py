"""Tests of metadata_hash.py; the expected hashes are from the log of Kafka 4.1.1."""

from odradek.broker.groups.consumer.metadata_hash import compute_group_hash, compute_topic_hash
from odradek.protocol.types import Uuid

A = compute_topic_hash("a", Uuid.parse("XXj-g4o4TKCjznfCVxFtHg"), [[], []])
B = compute_topic_hash("b", Uuid.parse("ne3dcN8FT9umySExZc5-8w"), [[], [], []])


def test_hashes_equal_those_of_kafka():
    assert compute_group_hash({"a": A}) == 0x7B1E6BE792088E98
    assert compute_group_hash({"b": B, "a": A}) == 0xE0FB58B913FE4F1A - 2**64


def test_hash_of_a_group_without_topics_is_zero():
    assert compute_group_hash({}) == 0


def test_every_change_of_a_topic_changes_its_hash():
    topic_id, other_id = Uuid(bytes(16)), Uuid(bytes(15) + b"\1")
    hashes = {
        compute_topic_hash("a", topic_id, [[]]),
        compute_topic_hash("b", topic_id, [[]]),
        compute_topic_hash("a", other_id, [[]]),
        compute_topic_hash("a", topic_id, [[], []]),
        compute_topic_hash("a", topic_id, [["r1"]]),
        compute_topic_hash("a", topic_id, [["r1", "r2"]]),
    }
    assert len(hashes) == 6


def test_order_of_racks_does_not_matter():
    one, other = [["r1", "r2"]], [["r2", "r1"]]
    topic_id = Uuid(bytes(16))
    assert compute_topic_hash("a", topic_id, one) == compute_topic_hash("a", topic_id, other)
