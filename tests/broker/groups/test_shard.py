"""The groups and offsets of one partition, as they are loaded."""

import pytest

from odradek.broker.groups.records import group_key, group_value, offset_key, offset_value
from odradek.protocol.errors import DecodeError
from tests.support.group_scene import GROUP


def test_records_are_applied_by_the_version_of_their_keys(scene):
    scene.stable()
    value = group_value(scene.group.metadata.to_record_value())
    shard = scene.replayed()
    shard.apply(group_key("other"), value, 7)
    shard.apply(offset_key("third", "events", 1), offset_value(5, 1, "", commit_timestamp_ms=3), 8)
    assert set(shard.groups) == {GROUP, "other"}
    assert shard.offsets["third"].committed["events", 1].record_offset == 8


def test_key_of_version_0_is_an_offset(scene):
    key = b"\0\0" + offset_key("g", "events", 1)[2:]
    scene.shard.apply(key, offset_value(5, 1, "", commit_timestamp_ms=3), 8)
    assert scene.shard.offsets["g"].committed["events", 1].offset == 5


def test_unknown_record_types_are_skipped(scene):
    scene.shard.apply(b"\0\x63newer", b"\0\0newer", 0)
    scene.shard.apply_pending(1, b"\0\x63newer", b"\0\0newer", 0)
    assert not scene.shard.groups
    assert not scene.shard.offsets


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\1broken"])
def test_unreadable_record_is_an_error(scene, key):
    with pytest.raises(DecodeError):
        scene.shard.apply(key, b"\0\0", 0)
