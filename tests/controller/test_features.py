"""Tests of controller/features.py, on the memory store."""

import pytest

from odradek.controller.features import Features
from odradek.controller.request_versions import LATEST, InterBrokerVersion
from odradek.controller.store import paths
from odradek.controller.store.payloads.broker import BrokerRegistration, FeatureVersions
from odradek.controller.store.payloads.cluster import FeatureStatus, FinalizedFeatures
from tests.support.controller_scene import controller_scene
from tests.support.stores import MemoryStores

OLD = InterBrokerVersion.parse("2.6")
SOME = FinalizedFeatures(FeatureStatus.ENABLED, {"f": 3})


async def loaded(spoken=LATEST, found=None):
    scene = await controller_scene(await MemoryStores().open())
    if found is not None:
        await scene.store.create(paths.FEATURE, found.encode())
    features = Features(scene.reads, scene.writes, spoken)
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
