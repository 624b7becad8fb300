"""Tests of controller/features.py, on the memory store."""

from types import MappingProxyType

import pytest

from odradek.controller.feature_updates import TRANSACTION_VERSION, FeatureUpdate, UpgradeType
from odradek.controller.features import Features
from odradek.controller.request_versions import LATEST, InterBrokerVersion
from odradek.controller.store import paths
from odradek.controller.store.payloads.broker import BrokerRegistration, FeatureVersions
from odradek.controller.store.payloads.cluster import FeatureStatus, FinalizedFeatures
from odradek.protocol.errors import InvalidRequest
from tests.support.controller_scene import controller_scene
from tests.support.stores import MemoryStores

OLD = InterBrokerVersion.parse("2.6")
SOME = FinalizedFeatures(FeatureStatus.ENABLED, {"f": 3})


async def loaded(spoken=LATEST, found=None, first=MappingProxyType({})):
    scene = await controller_scene(await MemoryStores().open())
    if found is not None:
        await scene.store.create(paths.FEATURE, found.encode())
    features = Features(scene.reads, scene.writes, spoken, first)
    await features.load()
    return scene, features


@pytest.mark.parametrize(
    ("spoken", "written"),
    [
        ("3.9", b'{"features":{},"version":2,"status":1}'),
        ("2.7", b'{"features":{},"version":1,"status":1}'),
        ("2.6", b'{"features":{},"version":1,"status":0}'),
    ],
)
async def test_the_first_controller_writes_what_is_in_force(spoken, written):
    scene, _ = await loaded(InterBrokerVersion.parse(spoken))
    assert (await scene.store.get(paths.FEATURE)).value == written


async def test_a_new_cluster_may_begin_with_features():
    scene, features = await loaded(first={"f": 3})
    assert (await scene.reads.features()).levels == {"f": 3}
    assert not features.are_supported_by(BrokerRegistration(()))


async def test_a_cluster_that_is_there_already_gets_none_by_itself():
    scene, _ = await loaded(found=FinalizedFeatures(FeatureStatus.ENABLED), first={"f": 3})
    assert (await scene.reads.features()).levels == {}


async def test_what_was_agreed_on_is_not_written_again():
    scene, _ = await loaded(found=SOME)
    assert (await scene.store.get(paths.FEATURE)).stat.version == 0


async def test_an_older_version_agrees_on_nothing():
    scene, features = await loaded(OLD, found=SOME)
    assert (await scene.reads.features()).levels == {}
    assert features.are_supported_by(BrokerRegistration(()))


async def test_what_was_not_in_force_does_not_come_into_force_by_itself():
    found = FinalizedFeatures(FeatureStatus.DISABLED, {"f": 3})
    scene, _ = await loaded(found=found)
    assert await scene.reads.features() == FinalizedFeatures(FeatureStatus.ENABLED)


@pytest.mark.parametrize(
    ("supported", "is_enough"),
    [
        ({}, False),
        ({"f": FeatureVersions(1, 2)}, False),
        ({"f": FeatureVersions(4, 5)}, False),
        ({"f": FeatureVersions(1, 3), "g": FeatureVersions(1, 1)}, True),
    ],
)
async def test_a_broker_must_support_all_that_is_in_force(supported, is_enough):
    _, features = await loaded(found=SOME)
    assert features.are_supported_by(BrokerRegistration((), features=supported)) is is_enough


class TestUpdates:
    WANTED = (FeatureUpdate(TRANSACTION_VERSION, 2, UpgradeType.UPGRADE),)
    ABLE = BrokerRegistration((), features={TRANSACTION_VERSION: FeatureVersions(1, 2)})

    async def test_are_written_and_hold_for_whoever_joins(self):
        scene, features = await loaded()
        outcomes = await features.update(self.WANTED, [self.ABLE], is_whole=True, is_written=True)
        assert outcomes == {TRANSACTION_VERSION: None}
        node = await scene.store.get(paths.FEATURE)
        assert node.value == (
            b'{"features":{"transaction.version":{"max_version_level":2}},"version":2,"status":1}'
        )
        assert features.are_supported_by(self.ABLE)
        assert not features.are_supported_by(BrokerRegistration(()))

    async def test_may_be_judged_only(self):
        scene, features = await loaded()
        await features.update(self.WANTED, [self.ABLE], is_whole=False, is_written=False)
        assert (await scene.store.get(paths.FEATURE)).stat.version == 0

    async def test_what_changes_nothing_is_not_written(self):
        scene, features = await loaded()
        await features.update((), [self.ABLE], is_whole=False, is_written=True)
        assert (await scene.store.get(paths.FEATURE)).stat.version == 0

    async def test_what_else_is_in_the_node_stays(self):
        scene, features = await loaded(
            found=FinalizedFeatures(FeatureStatus.ENABLED, extra={"later": 1})
        )
        await features.update(self.WANTED, [self.ABLE], is_whole=True, is_written=True)
        assert (await scene.reads.features()).extra == {"later": 1}

    async def test_are_refused_while_features_are_not_in_force(self):
        _, features = await loaded(OLD)
        with pytest.raises(InvalidRequest):
            await features.update(self.WANTED, [self.ABLE], is_whole=True, is_written=True)
