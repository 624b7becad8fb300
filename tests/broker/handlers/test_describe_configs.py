"""Tests of broker/handlers/describe_configs.py; see also test_recorded_configs.py."""

from odradek.protocol.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import decode, encode
from odradek.protocol.error_codes import ErrorCode
from tests.support.config_scene import config_scene

TOPIC, BROKER, UNKNOWN = 2, 4, 99


def build_request(*resources, synonyms=False, documentation=False):
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.Resource(
                resource_type=kind, resource_name=name, configuration_keys=keys
            )
            for kind, name, keys in resources
        ],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )


async def describe(scene, *resources, version=4, **options):
    return await scene.asked(
        ApiKey.DESCRIBE_CONFIGS, build_request(*resources, **options), version=version
    )


async def test_synonyms_and_documentation_are_returned_only_on_request():
    scene = await config_scene(topics={"t": {}})
    resource = (TOPIC, "t", ["segment.bytes"])
    (bare,) = (await describe(scene, resource)).results[0].configs
    (full,) = (
        (await describe(scene, resource, synonyms=True, documentation=True)).results[0].configs
    )
    assert (bare.synonyms, bare.documentation) == ([], None)
    assert [each.name for each in full.synonyms] == ["log.segment.bytes"]
    assert full.documentation.startswith("The largest size of a segment, and so")


async def test_each_resource_succeeds_or_fails_independently():
    scene = await config_scene(topics={"t": {}})
    response = await describe(
        scene, (TOPIC, "absent", None), (TOPIC, "t", None), (BROKER, "5", None)
    )
    assert [each.error_code for each in response.results] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.code,
        0,
        ErrorCode.INVALID_REQUEST.code,
    ]
    assert len(response.results[1].configs) > 20


async def test_unknown_resource_type_fails_all_resources():
    scene = await config_scene(topics={"t": {}})
    response = await describe(scene, (TOPIC, "t", None), (UNKNOWN, "t", None))
    assert {each.error_code for each in response.results} == {ErrorCode.INVALID_REQUEST.code}


async def test_every_version_can_be_encoded():
    scene = await config_scene(topics={"t": {"retention.ms": "5"}})
    for version in range(5):
        response = await describe(scene, (TOPIC, "t", None), (BROKER, "1", None), version=version)
        encoded = b"".join(encode(response, version))
        decoded = decode(DescribeConfigsResponse, version, encoded)
        assert [len(each.configs) for each in decoded.results] == [
            len(each.configs) for each in response.results
        ]
