"""Tests of controller/config_alterations.py."""

import pytest

from odradek.controller.config_alterations import (
    AlterableConfig,
    AlterConfigOp,
    IncrementalAlterableConfig,
    prepare_full_config,
    prepare_incremental_config,
    validate_topic_config,
)
from odradek.protocol.errors import InvalidConfig, InvalidRequest
from odradek.storage.log_settings import LogSettings
from odradek.storage.settings import TopicSettings

POLICY = "cleanup.policy"


def change(operation, name, value=None):
    number = operation.value if isinstance(operation, AlterConfigOp) else operation
    return IncrementalAlterableConfig(name=name, config_operation=number, value=value)


def apply_changes(config, *changes):
    return prepare_incremental_config(config, changes, TopicSettings.by_name)


def test_set_and_delete_change_the_config():
    before = {"retention.ms": "1", "segment.ms": "2"}
    assert apply_changes(
        before,
        change(AlterConfigOp.SET, "flush.ms", "3"),
        change(AlterConfigOp.SET, "segment.ms", "4"),
        change(AlterConfigOp.DELETE, "retention.ms"),
    ) == {"segment.ms": "4", "flush.ms": "3"}
    assert before == {"retention.ms": "1", "segment.ms": "2"}


def test_delete_of_missing_setting_is_accepted():
    assert apply_changes({}, change(AlterConfigOp.DELETE, "no.such.setting")) == {}


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
def test_append_adds_only_missing_list_elements(before, appended, expected):
    config = {} if before is None else {POLICY: before}
    assert apply_changes(config, change(AlterConfigOp.APPEND, POLICY, appended)) == {
        POLICY: expected
    }


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
def test_subtract_removes_list_elements(before, subtracted, expected):
    config = {} if before is None else {POLICY: before}
    assert apply_changes(config, change(AlterConfigOp.SUBTRACT, POLICY, subtracted)) == {
        POLICY: expected
    }


@pytest.mark.parametrize("operation", [AlterConfigOp.APPEND, AlterConfigOp.SUBTRACT])
@pytest.mark.parametrize("name", ["retention.ms", "no.such.setting"])
def test_append_and_subtract_of_non_list_setting_are_rejected(operation, name):
    with pytest.raises(InvalidConfig, match=name):
        apply_changes({}, change(operation, name, "1"))


@pytest.mark.parametrize(
    "operation", [AlterConfigOp.SET, AlterConfigOp.APPEND, AlterConfigOp.SUBTRACT]
)
def test_operation_without_value_is_rejected_except_delete(operation):
    with pytest.raises(InvalidRequest):
        apply_changes({}, change(operation, POLICY))


def test_duplicate_setting_is_rejected():
    duplicate = change(AlterConfigOp.DELETE, POLICY)
    with pytest.raises(InvalidRequest):
        apply_changes({}, change(AlterConfigOp.SET, POLICY, "delete"), duplicate)


def test_unknown_operation_is_rejected():
    with pytest.raises(InvalidRequest, match="operation 7"):
        apply_changes({}, change(7, POLICY, "delete"))


def test_full_config_rejects_null_and_duplicate_settings():
    assert prepare_full_config([AlterableConfig(name=POLICY, value="compact")]) == {
        POLICY: "compact"
    }
    with pytest.raises(InvalidRequest):
        prepare_full_config([AlterableConfig(name=POLICY, value=None)])
    with pytest.raises(InvalidRequest):
        prepare_full_config(
            [AlterableConfig(name=POLICY, value="a"), AlterableConfig(name=POLICY, value="a")]
        )


def test_topic_config_overrides_the_server_settings():
    server = [LogSettings(segment_bytes=5000)]
    settings = validate_topic_config({"retention.ms": "7"}, server_settings=server)
    assert (settings.retention_ms, settings.segment_bytes) == (7, 5000)


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"retention.ms": "1", "no.such": "1", "nor.this": "2"}, r"no\.such, nor\.this"),
        ({"retention.ms": "soon"}, r"retention\.ms=soon"),
        ({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}, "at most"),
    ],
)
def test_invalid_topic_config_is_rejected(config, match):
    with pytest.raises(InvalidConfig, match=match):
        validate_topic_config(config, server_settings=())
