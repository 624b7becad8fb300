"""Tests of controller/metadata_version.py."""

import pytest

from odradek.controller.metadata_version import (
    LAST_INTERNAL_VERSIONS,
    LATEST,
    MetadataVersion,
    RequestVersions,
)


def versions(text):
    chosen = RequestVersions.for_metadata_version(MetadataVersion.parse(text))
    return chosen.leader_and_isr, chosen.update_metadata, chosen.stop_replica


@pytest.mark.parametrize(
    ("version_text", "leader_and_isr", "update_metadata", "stop_replica"),
    [
        ("0.8.2", 0, 0, 0),
        ("0.9.0", 0, 1, 0),
        ("0.10.0-IV0", 0, 1, 0),
        ("0.10.0", 0, 2, 0),
        ("0.10.2", 0, 3, 0),
        ("0.11.0", 0, 3, 0),
        ("1.0", 1, 4, 0),
        ("2.1", 1, 4, 0),
        ("2.2-IV0", 2, 5, 1),
        ("2.4-IV0", 3, 5, 1),
        ("2.4", 4, 6, 2),
        ("2.5", 4, 6, 2),
        ("2.6", 4, 6, 3),
        ("2.8-IV0", 4, 6, 3),
        ("2.8", 5, 7, 3),
        ("3.1", 5, 7, 3),
        ("3.2", 6, 7, 3),
        ("3.3", 6, 7, 3),
        ("3.4", 7, 8, 4),
        ("3.9", 7, 8, 4),
    ],
)
def test_request_versions_follow_the_inter_broker_protocol_version(
    version_text, leader_and_isr, update_metadata, stop_replica
):
    assert versions(version_text) == (leader_and_isr, update_metadata, stop_replica)


def test_release_stands_for_its_last_internal_version():
    assert MetadataVersion.parse("2.7") == MetadataVersion.parse("2.7-IV2")


@pytest.mark.parametrize(("text", "equal_text"), [("3.9.1", "3.9"), ("0.10.2.1", "0.10.2")])
def test_bug_fix_release_has_the_version_of_its_release(text, equal_text):
    assert MetadataVersion.parse(text) == MetadataVersion.parse(equal_text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3",
        "4.0",
        "3.10",
        "0.9",
        "0.9.0-IV0",
        "3.9-IV1",
        "3.9-IV",
        "3.9.1-IV0",
        "x",
        "3.9 ",
        "٣.٩",
    ],
)
def test_unknown_version_is_rejected(text):
    with pytest.raises(ValueError, match="not an inter-broker protocol version"):
        MetadataVersion.parse(text)


def test_string_of_every_version_can_be_parsed():
    for release, last in LAST_INTERNAL_VERSIONS.items():
        for internal_version in range(last + 1):
            version = MetadataVersion(release, internal_version)
            assert MetadataVersion.parse(str(version)) == version


def test_versions_are_ordered_by_release():
    assert [*LAST_INTERNAL_VERSIONS] == sorted(LAST_INTERNAL_VERSIONS)
    assert max(LAST_INTERNAL_VERSIONS.items()) == LATEST


@pytest.mark.parametrize(
    ("property_name", "first", "before"),
    [
        ("is_alter_partition_supported", "2.7-IV2", "2.7-IV1"),
        ("is_topic_ids_supported", "2.8-IV0", "2.7-IV2"),
        ("is_allocate_producer_ids_supported", "3.0-IV0", "2.8-IV1"),
        ("is_leader_recovery_supported", "3.2-IV0", "3.1-IV0"),
    ],
)
def test_feature_is_supported_from_its_internal_version(property_name, first, before):
    assert getattr(MetadataVersion.parse(first), property_name)
    assert not getattr(MetadataVersion.parse(before), property_name)
