"""Tests of controller/features.py with the memory store."""

from types import MappingProxyType

import pytest

from odradek.controller.feature_updates import TRANSACTION_VERSION, FeatureUpdate, UpgradeType
from odradek.controller.features import ClusterFeatures
from odradek.controller.metadata_version import LATEST, MetadataVersion
from odradek.controller.store import paths
from odradek.controller.store.payloads.broker import BrokerRegistration, SupportedVersionRange
from odradek.controller.store.payloads.cluster import FeatureStatus, FinalizedFeatures
from odradek.protocol.errors import InvalidRequest
from tests.support.controller_scene import controller_scene
from tests.support.stores import MemoryStores

OLD = MetadataVersion.parse("2.6")
FINALIZED = FinalizedFeatures(FeatureStatus.ENABLED, {"f": 3})


async def load_features(metadata_version=LATEST, stored=None, initial=MappingProxyType({})):
    scene = await controller_scene(await MemoryStores().open())
    if stored is not None:
        await scene.store.create(paths.FEATURE, stored.encode())
    features = ClusterFeatures(scene.reads, scene.writes, metadata_version, initial)
    await features.load()
    return scene, features


@pytest.mark.parametrize(
    ("metadata_version", "expected"),
    [
        ("3.9", b'{"features":{},"version":2,"status":1}'),
        ("2.7", b'{"features":{},"version":1,"status":1}'),
        ("2.6", b'{"features":{},"version":1,"status":0}'),
    ],
)
async def test_first_controller_creates_the_feature_znode(metadata_version, expected):
    scene, _ = await load_features(MetadataVersion.parse(metadata_version))
    assert (await scene.store.get(paths.FEATURE)).value == expected


async def test_new_cluster_starts_with_the_initial_features():
    scene, features = await load_features(initial={"f": 3})
    assert (await scene.reads.get_finalized_features()).levels == {"f": 3}
    assert not features.are_supported_by(BrokerRegistration(()))


async def test_existing_cluster_does_not_get_the_initial_features():
    scene, _ = await load_features(
        stored=FinalizedFeatures(FeatureStatus.ENABLED), initial={"f": 3}
    )
    assert (await scene.reads.get_finalized_features()).levels == {}


async def test_unchanged_feature_znode_is_not_rewritten():
    scene, _ = await load_features(stored=FINALIZED)
    assert (await scene.store.get(paths.FEATURE)).stat.version == 0


async def test_old_metadata_version_clears_finalized_features():
    scene, features = await load_features(OLD, stored=FINALIZED)
    assert (await scene.reads.get_finalized_features()).levels == {}
    assert features.are_supported_by(BrokerRegistration(()))


async def test_levels_of_a_disabled_feature_znode_are_dropped():
    stored = FinalizedFeatures(FeatureStatus.DISABLED, {"f": 3})
    scene, _ = await load_features(stored=stored)
    assert await scene.reads.get_finalized_features() == FinalizedFeatures(FeatureStatus.ENABLED)


@pytest.mark.parametrize(
    ("supported", "is_supported"),
    [
        ({}, False),
        ({"f": SupportedVersionRange(1, 2)}, False),
        ({"f": SupportedVersionRange(4, 5)}, False),
        ({"f": SupportedVersionRange(1, 3), "g": SupportedVersionRange(1, 1)}, True),
    ],
)
async def test_broker_must_support_all_finalized_features(supported, is_supported):
    _, features = await load_features(stored=FINALIZED)
    assert features.are_supported_by(BrokerRegistration((), features=supported)) is is_supported


class TestUpdates:
    UPDATES = (FeatureUpdate(TRANSACTION_VERSION, 2, UpgradeType.UPGRADE),)
    SUPPORTING = BrokerRegistration((), features={TRANSACTION_VERSION: SupportedVersionRange(1, 2)})

    async def test_update_is_written_and_required_of_joining_brokers(self):
        scene, features = await load_features()
        outcomes = await features.update(
            self.UPDATES, [self.SUPPORTING], is_atomic=True, should_write=True
        )
        assert outcomes == {TRANSACTION_VERSION: None}
        node = await scene.store.get(paths.FEATURE)
        assert node.value == (
            b'{"features":{"transaction.version":{"max_version_level":2}},"version":2,"status":1}'
        )
        assert features.are_supported_by(self.SUPPORTING)
        assert not features.are_supported_by(BrokerRegistration(()))

    async def test_validate_only_update_is_not_written(self):
        scene, features = await load_features()
        await features.update(self.UPDATES, [self.SUPPORTING], is_atomic=False, should_write=False)
        assert (await scene.store.get(paths.FEATURE)).stat.version == 0

    async def test_empty_update_is_not_written(self):
        scene, features = await load_features()
        await features.update((), [self.SUPPORTING], is_atomic=False, should_write=True)
        assert (await scene.store.get(paths.FEATURE)).stat.version == 0

    async def test_unknown_json_fields_are_preserved(self):
        scene, features = await load_features(
            stored=FinalizedFeatures(FeatureStatus.ENABLED, extra={"later": 1})
        )
        await features.update(self.UPDATES, [self.SUPPORTING], is_atomic=True, should_write=True)
        assert (await scene.reads.get_finalized_features()).extra == {"later": 1}

    async def test_update_is_rejected_with_an_old_metadata_version(self):
        _, features = await load_features(OLD)
        with pytest.raises(InvalidRequest):
            await features.update(
                self.UPDATES, [self.SUPPORTING], is_atomic=True, should_write=True
            )
