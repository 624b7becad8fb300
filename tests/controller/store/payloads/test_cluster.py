"""The cluster id, feature and producer id block znodes in all versions that Kafka has written."""

import pytest

from odradek.controller.store.payloads.cluster import (
    ClusterId,
    FeatureStatus,
    FinalizedFeatures,
    ProducerIdsBlock,
)
from odradek.controller.store.payloads.json_object import CorruptPayload

ENCODED = [
    (ClusterId("abcdefghijklmnopqrstuv"), b'{"version":"1","id":"abcdefghijklmnopqrstuv"}'),
    (
        FinalizedFeatures(FeatureStatus.ENABLED),
        b'{"features":{},"version":2,"status":1}',
    ),
    (
        FinalizedFeatures(FeatureStatus.DISABLED, {"x": 3, "group.version": 1}),
        b'{"features":{"x":{"max_version_level":3},"group.version":{"max_version_level":1}},'
        b'"version":2,"status":0}',
    ),
    (
        ProducerIdsBlock(1, block_start=1000, block_end=1999),
        b'{"version":1,"broker":1,"block_start":"1000","block_end":"1999"}',
    ),
]


@pytest.mark.parametrize(("payload", "value"), ENCODED)
def test_payload_is_encoded_as_in_kafka(payload, value):
    assert payload.encode() == value
    assert type(payload).decode(value) == payload


@pytest.mark.parametrize(("payload", "value"), ENCODED)
def test_unknown_fields_are_kept(payload, value):
    newer = value[:-1] + b',"later":{"a":null}}'
    assert type(payload).decode(newer).encode() == newer


def test_features_of_version_1_are_decoded():
    value = (
        b'{"features":{"x":{"max_version_level":3,"min_version_level":1}},"version":1,"status":1}'
    )
    assert FinalizedFeatures.decode(value) == FinalizedFeatures(FeatureStatus.ENABLED, {"x": 3})


def test_features_are_encoded_for_older_brokers():
    features = FinalizedFeatures(FeatureStatus.ENABLED, {"x": 3})
    value = (
        b'{"features":{"x":{"max_version_level":3,"min_version_level":3}},"version":1,"status":1}'
    )
    assert features.encode(version=1) == value
    assert FinalizedFeatures.decode(value) == features


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b'{"version":2,"status":1}',
        b'{"version":2,"features":{}}',
        b'{"status":1,"features":{}}',
        b'{"version":0,"status":1,"features":{}}',
        b'{"version":3,"status":1,"features":{}}',
        b'{"version":2,"status":2,"features":{}}',
        b'{"version":2,"status":1,"features":{"x":3}}',
        b'{"version":2,"status":1,"features":{"x":{}}}',
        b'{"version":2,"status":1,"features":{"x":{"max_version_level":0}}}',
        b'{"version":1,"status":1,"features":{"x":{"max_version_level":3}}}',
        b'{"version":1,"status":1,"features":{"x":{"max_version_level":3,"min_version_level":4}}}',
        b'{"version":1,"status":1,"features":{"x":{"max_version_level":3,"min_version_level":0}}}',
    ],
)
def test_malformed_features_are_rejected(value):
    with pytest.raises(CorruptPayload, match=r"^/feature: "):
        FinalizedFeatures.decode(value)


@pytest.mark.parametrize("value", [b"", b"abc", b"{}", b'{"id":1}'])
def test_malformed_cluster_id_is_rejected(value):
    with pytest.raises(CorruptPayload, match=r"^/cluster/id: "):
        ClusterId.decode(value)


@pytest.mark.parametrize(
    "fields",
    [
        b'"broker":1,"block_start":"0"',
        b'"broker":1,"block_end":"0"',
        b'"block_start":"0","block_end":"999"',
        b'"broker":"1","block_start":"0","block_end":"999"',
        b'"broker":1,"block_start":"x","block_end":"999"',
        b'"broker":1,"block_start":"-1","block_end":"999"',
        b'"broker":1,"block_start":"1000","block_end":"999"',
        b'"broker":1,"block_start":"0","block_end":"9223372036854775808"',
    ],
)
def test_malformed_producer_id_block_is_rejected(fields):
    with pytest.raises(CorruptPayload, match=r"^/latest_producer_id_block: "):
        ProducerIdsBlock.decode(b"{" + fields + b"}")
