"""Tests of controller/request_versions.py."""

import pytest

from odradek.controller.request_versions import (
    LATEST,
    RELEASES,
    InterBrokerVersion,
    RequestVersions,
)


def versions(text):
    chosen = RequestVersions.of(InterBrokerVersion.parse(text))
    return chosen.leader_and_isr, chosen.update_metadata, chosen.stop_replica


@pytest.mark.parametrize(
    ("spoken", "leader_and_isr", "update_metadata", "stop_replica"),
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
def test_requests_are_sent_as_the_oldest_broker_understands_them(
    spoken, leader_and_isr, update_metadata, stop_replica
):
    assert versions(spoken) == (leader_and_isr, update_metadata, stop_replica)


def test_a_release_means_its_last_step():
    assert InterBrokerVersion.parse("2.7") == InterBrokerVersion.parse("2.7-IV2")


@pytest.mark.parametrize(("text", "meant"), [("3.9.1", "3.9"), ("0.10.2.1", "0.10.2")])
def test_a_bug_fix_release_speaks_as_its_release(text, meant):
    assert InterBrokerVersion.parse(text) == InterBrokerVersion.parse(meant)


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
def test_a_version_that_never_was_is_refused(text):
    with pytest.raises(ValueError, match="not a version"):
        InterBrokerVersion.parse(text)


def test_what_is_shown_is_read_again():
    for release, last in RELEASES.items():
        for step in range(last + 1):
            version = InterBrokerVersion(release, step)
            assert InterBrokerVersion.parse(str(version)) == version


def test_versions_are_ordered_as_they_came():
    assert [*RELEASES] == sorted(RELEASES)
    assert max(RELEASES.items()) == LATEST


@pytest.mark.parametrize(
    ("property_name", "first", "before"),
    [
        ("knows_alter_partition", "2.7-IV2", "2.7-IV1"),
        ("knows_topic_ids", "2.8-IV0", "2.7-IV2"),
        ("knows_producer_id_blocks", "3.0-IV0", "2.8-IV1"),
        ("knows_recovering_leaders", "3.2-IV0", "3.1-IV0"),
    ],
)
def test_a_feature_is_used_from_the_step_that_brought_it(property_name, first, before):
    assert getattr(InterBrokerVersion.parse(first), property_name)
    assert not getattr(InterBrokerVersion.parse(before), property_name)
