"""Every broker knows of the features that the cluster has agreed on, on every store."""

import asyncio

import pytest

from odradek.broker.background import Background
from odradek.broker.metadata.agreed_features import AgreedFeatures, Features
from odradek.controller.registration import create_roots
from odradek.controller.store import paths
from odradek.controller.store.payloads.cluster import FeatureStatus, FinalizedFeatures
from tests.support.loops import at_end
from tests.support.stores import stores

__all__ = ["stores"]

NONE_AGREED = FinalizedFeatures(FeatureStatus.ENABLED).encode()
LEVEL_3 = FinalizedFeatures(FeatureStatus.ENABLED, {"f": 3}).encode()
NOT_IN_FORCE = FinalizedFeatures(FeatureStatus.DISABLED).encode()


class Watching:
    """A broker that watches a tree."""

    def __init__(self, stores):
        self._stores = stores
        self._looks = asyncio.Queue()
        self._background = Background()
        at_end(self._background.stop)

    async def begin(self, value=None):
        self.store = await self._stores.open()
        await create_roots(self.store)
        if value is not None:
            await self.store.create(paths.FEATURE, value)
        self.features = AgreedFeatures(self.store, start_task=self._start)
        await self.features.start()
        return self.features

    def _start(self, look, *, name):
        task = self._background.start(look, name)
        self._looks.put_nowait(task)
        return task

    async def seen(self):
        """After the next look, which something has to cause."""
        await (await self._looks.get())
        return self.features.current


async def test_the_epoch_is_the_version_of_the_node(stores):
    watching = Watching(stores)
    features = await watching.begin(NONE_AGREED)
    assert features.current == Features(epoch=0)
    await watching.store.set(paths.FEATURE, LEVEL_3)
    assert await watching.seen() == Features(finalized={"f": 3}, epoch=1)
    await watching.store.set(paths.FEATURE, NONE_AGREED)
    assert await watching.seen() == Features(epoch=2)


async def test_a_node_that_comes_later_is_seen_and_so_is_its_end(stores):
    watching = Watching(stores)
    features = await watching.begin()
    assert features.current == Features()
    await watching.store.create(paths.FEATURE, LEVEL_3)
    assert await watching.seen() == Features(finalized={"f": 3}, epoch=0)
    await watching.store.delete(paths.FEATURE)
    assert await watching.seen() == Features()


@pytest.mark.parametrize("value", [NOT_IN_FORCE, b"", b"{}", b'{"version":9}'])
async def test_what_is_not_in_force_or_cannot_be_read_is_no_agreement(stores, value):
    watching = Watching(stores)
    features = await watching.begin(value)
    assert features.current == Features()
    await watching.store.set(paths.FEATURE, LEVEL_3)
    assert await watching.seen() == Features(finalized={"f": 3}, epoch=1)


async def test_a_later_session_looks_and_watches_again(stores):
    watching = Watching(stores)
    await watching.begin(NONE_AGREED)
    await stores.expire(watching.store)
    await watching.store.open_session()
    assert await watching.seen() == Features(epoch=0)
    await watching.store.set(paths.FEATURE, LEVEL_3)
    assert await watching.seen() == Features(finalized={"f": 3}, epoch=1)
