"""Tests of controller/config_alterations.py."""

import pytest

from odradek.controller.config_alterations import (
    ConfigChange,
    ConfigText,
    Operation,
    altered,
    checked_topic_config,
    replaced,
)
from odradek.protocol.errors import InvalidConfig, InvalidRequest
from odradek.storage.log_settings import LogSettings
from odradek.storage.settings import TopicSettings

POLICY = "cleanup.policy"


def change(operation, name, value=None):
    number = operation.value if isinstance(operation, Operation) else operation
    return ConfigChange(name=name, config_operation=number, value=value)


def after(config, *changes):
    return altered(config, changes, TopicSettings.by_name)


def test_a_setting_is_set_and_goes_back_to_its_default():
    before = {"retention.ms": "1", "segment.ms": "2"}
    assert after(
        before,
        change(Operation.SET, "flush.ms", "3"),
        change(Operation.SET, "segment.ms", "4"),
        change(Operation.DELETE, "retention.ms"),
    ) == {"segment.ms": "4", "flush.ms": "3"}
    assert before == {"retention.ms": "1", "segment.ms": "2"}


def test_what_is_not_configured_can_be_deleted():
    assert after({}, change(Operation.DELETE, "no.such.setting")) == {}


@pytest.mark.parametrize(
    ("before", "appended", "expected"),
    [
        ("compact", "delete", "compact,delete"),
        ("compact", "compact", "compact"),
        ("a,b", "c,a,d", "a,b,c,d"),
        ("", "compact", "compact"),
        (None, "compact", "delete,compact"),
    ],
)
def test_what_is_not_in_a_list_is_appended(before, appended, expected):
    config = {} if before is None else {POLICY: before}
    assert after(config, change(Operation.APPEND, POLICY, appended)) == {POLICY: expected}


@pytest.mark.parametrize(
    ("before", "subtracted", "expected"),
    [
        ("compact,delete", "compact", "delete"),
        ("a,b,c", "c,a,x", "b"),
        ("a,b,a", "a", "b,a"),
        ("compact", "compact", ""),
        ("", "compact", ""),
        (None, "delete", ""),
    ],
)
def test_what_is_in_a_list_is_taken_out(before, subtracted, expected):
    config = {} if before is None else {POLICY: before}
    assert after(config, change(Operation.SUBTRACT, POLICY, subtracted)) == {POLICY: expected}


@pytest.mark.parametrize("operation", [Operation.APPEND, Operation.SUBTRACT])
@pytest.mark.parametrize("name", ["retention.ms", "no.such.setting"])
def test_only_lists_have_elements(operation, name):
    with pytest.raises(InvalidConfig, match=name):
        after({}, change(operation, name, "1"))


@pytest.mark.parametrize("operation", [Operation.SET, Operation.APPEND, Operation.SUBTRACT])
def test_all_but_a_deletion_needs_a_value(operation):
    with pytest.raises(InvalidRequest):
        after({}, change(operation, POLICY))


def test_a_setting_is_changed_once():
    again = change(Operation.DELETE, POLICY)
    with pytest.raises(InvalidRequest):
        after({}, change(Operation.SET, POLICY, "delete"), again)


def test_an_unknown_operation_is_refused():
    with pytest.raises(InvalidRequest, match="operation 7"):
        after({}, change(7, POLICY, "delete"))


def test_a_configuration_is_replaced():
    assert replaced([ConfigText(name=POLICY, value="compact")]) == {POLICY: "compact"}
    with pytest.raises(InvalidRequest):
        replaced([ConfigText(name=POLICY, value=None)])
    with pytest.raises(InvalidRequest):
        replaced([ConfigText(name=POLICY, value="a"), ConfigText(name=POLICY, value="a")])


def test_a_topic_is_set_on_top_of_its_server():
    server = [LogSettings(segment_bytes=5000)]
    settings = checked_topic_config({"retention.ms": "7"}, server=server)
    assert (settings.retention_ms, settings.segment_bytes) == (7, 5000)


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"retention.ms": "1", "no.such": "1", "nor.this": "2"}, r"no\.such, nor\.this"),
        ({"retention.ms": "soon"}, r"retention\.ms=soon"),
        ({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}, "at most"),
    ],
)
def test_what_a_topic_cannot_be_set_to_is_refused(config, match):
    with pytest.raises(InvalidConfig, match=match):
        checked_topic_config(config, server=())
