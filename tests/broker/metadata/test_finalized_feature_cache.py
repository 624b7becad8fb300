"""Brokers learn the finalized features of the cluster, on every store."""

import asyncio

import pytest

from odradek.broker.metadata.finalized_feature_cache import Features, FinalizedFeatureCache
from odradek.broker.task_registry import TaskRegistry
from odradek.controller.registration import create_top_level_paths
from odradek.controller.store import paths
from odradek.controller.store.payloads.cluster import FeatureStatus, FinalizedFeatures
from tests.support.loops import at_end
from tests.support.stores import stores

__all__ = ["stores"]

NO_FEATURES = FinalizedFeatures(FeatureStatus.ENABLED).encode()
LEVEL_3 = FinalizedFeatures(FeatureStatus.ENABLED, {"f": 3}).encode()
DISABLED = FinalizedFeatures(FeatureStatus.DISABLED).encode()


class Scene:
    """A broker that watches the feature znode."""

    def __init__(self, stores):
        self._stores = stores
        self._reads = asyncio.Queue()
        self._background = TaskRegistry()
        at_end(self._background.stop)

    async def begin(self, value=None):
        self.store = await self._stores.open()
        await create_top_level_paths(self.store)
        if value is not None:
            await self.store.create(paths.FEATURE, value)
        self.features = FinalizedFeatureCache(self.store, start_task=self._start)
        await self.features.start()
        return self.features

    def _start(self, read, *, name):
        task = self._background.start(read, name)
        self._reads.put_nowait(task)
        return task

    async def next_features(self):
        """Returns the features after the next read, which a change must cause."""
        await (await self._reads.get())
        return self.features.current


async def test_epoch_is_the_version_of_the_znode(stores):
    scene = Scene(stores)
    features = await scene.begin(NO_FEATURES)
    assert features.current == Features(epoch=0)
    await scene.store.set(paths.FEATURE, LEVEL_3)
    assert await scene.next_features() == Features(finalized={"f": 3}, epoch=1)
    await scene.store.set(paths.FEATURE, NO_FEATURES)
    assert await scene.next_features() == Features(epoch=2)


async def test_creation_and_deletion_of_the_znode_are_seen(stores):
    scene = Scene(stores)
    features = await scene.begin()
    assert features.current == Features()
    await scene.store.create(paths.FEATURE, LEVEL_3)
    assert await scene.next_features() == Features(finalized={"f": 3}, epoch=0)
    await scene.store.delete(paths.FEATURE)
    assert await scene.next_features() == Features()


@pytest.mark.parametrize("value", [DISABLED, b"", b"{}", b'{"version":9}'])
async def test_disabled_or_invalid_features_are_ignored(stores, value):
    scene = Scene(stores)
    features = await scene.begin(value)
    assert features.current == Features()
    await scene.store.set(paths.FEATURE, LEVEL_3)
    assert await scene.next_features() == Features(finalized={"f": 3}, epoch=1)


async def test_new_session_reads_and_watches_again(stores):
    scene = Scene(stores)
    await scene.begin(NO_FEATURES)
    await stores.expire(scene.store)
    await scene.store.open_session()
    assert await scene.next_features() == Features(epoch=0)
    await scene.store.set(paths.FEATURE, LEVEL_3)
    assert await scene.next_features() == Features(finalized={"f": 3}, epoch=1)
