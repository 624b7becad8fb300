"""Tests of broker/handlers/alter_configs.py and incremental_alter_configs.py.

See also test_recorded_configs.py.
"""

import pytest

from odradek.protocol.api.alter_configs import AlterConfigsRequest
from odradek.protocol.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from tests.support.config_scene import config_scene

TOPIC, BROKER = 2, 4


def alter_configs_request(*resources):
    return AlterConfigsRequest(
        resources=[
            AlterConfigsRequest.Resource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    AlterConfigsRequest.Resource.Config(name=key, value=text)
                    for key, text in texts.items()
                ],
            )
            for kind, name, texts in resources
        ],
        validate_only=False,
    )


def incremental_alter_configs_request(*resources):
    return IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequest.Resource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    IncrementalAlterConfigsRequest.Resource.Config(
                        name=key, config_operation=0, value=text
                    )
                    for key, text in texts.items()
                ],
            )
            for kind, name, texts in resources
        ],
        validate_only=False,
    )


BOTH_APIS = pytest.mark.parametrize(
    ("key", "build_request"),
    [
        (ApiKey.ALTER_CONFIGS, alter_configs_request),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, incremental_alter_configs_request),
    ],
    ids=["all", "single"],
)


@BOTH_APIS
async def test_each_resource_succeeds_or_fails_independently(key, build_request):
    scene = await config_scene(topics={"t": {}})
    request = build_request(
        (TOPIC, "absent", {"retention.ms": "5"}),
        (TOPIC, "t", {"retention.ms": "5"}),
        (BROKER, "1", {"log.roll.ms": "never"}),
    )
    response = await scene.asked(key, request, version=1)
    assert [
        (each.resource_type, each.resource_name, each.error_code, each.error_message)
        for each in response.responses
    ] == [
        (
            TOPIC,
            "absent",
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.code,
            "Topic 'absent' does not exist.",
        ),
        (TOPIC, "t", 0, None),
        (
            BROKER,
            "1",
            ErrorCode.INVALID_REQUEST.code,
            "log.roll.ms=never: must be a whole number "
            "from -9223372036854775808 to 9223372036854775807",
        ),
    ]
    assert scene.settings.topic("t").retention_ms == 5


@BOTH_APIS
async def test_duplicate_resource_is_not_changed(key, build_request):
    scene = await config_scene(topics={"t": {}, "u": {}})
    request = build_request(
        (TOPIC, "t", {"retention.ms": "5"}),
        (TOPIC, "u", {"retention.ms": "6"}),
        (TOPIC, "t", {"retention.ms": "7"}),
    )
    response = await scene.asked(key, request, version=1)
    error_code = ErrorCode.INVALID_REQUEST.code
    assert [each.error_code for each in response.responses] == [error_code, 0, error_code]
    assert scene.settings.topics.keys() == {"u"}


async def test_only_alter_configs_resets_settings_that_are_not_named():
    scene = await config_scene(topics={"t": {"retention.ms": "5"}})
    change = (TOPIC, "t", {"segment.bytes": "5000"})
    await scene.asked(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, incremental_alter_configs_request(change), version=1
    )
    assert scene.settings.topic("t").retention_ms == 5
    await scene.asked(ApiKey.ALTER_CONFIGS, alter_configs_request(change), version=1)
    assert scene.settings.topic("t").retention_ms == scene.settings.topic_defaults.retention_ms
    assert scene.settings.topic("t").segment_bytes == 5000
