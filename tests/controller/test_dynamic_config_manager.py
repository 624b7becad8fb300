"""Tests of controller/config_changes.py, on every store."""

import asyncio

import pytest

from odradek.controller import config_changes
from odradek.controller.config_changes import EXPIRATION_MS, ConfigChanges
from odradek.controller.registration import create_roots
from odradek.controller.store import paths
from odradek.controller.store.base import NodeExists, NotPermitted
from odradek.controller.store.payloads.config import ConfigChange, EntityConfig
from odradek.protocol.errors import InvalidConfig
from tests.support.stores import NOW_MS

A, B = paths.topic_config("a"), paths.topic_config("b")
IN_V1 = b'{"version":1,"entity_type":"topics","entity_name":"a"}'
IN_V2 = ConfigChange(A).encode()


class Scene:
    """What one broker is told, and what others write."""

    def __init__(self, store, group):
        self.store = store
        self.told = []
        self.refuses = ()
        self.fails_at = None
        self.now_ms = 0
        self._group = group
        self._is_told = asyncio.Event()

    async def take(self, entity, config):
        self.told.append((str(entity), dict(config)))
        self._is_told.set()
        if entity == self.fails_at:
            raise ZeroDivisionError
        if entity in self.refuses:
            raise InvalidConfig("a test has its way")

    async def started(self):
        changes = ConfigChanges(
            self.store, self.take, now_ms=lambda: self.now_ms, start_task=self._group.create_task
        )
        await changes.start()
        return changes

    async def until_told(self, *told):
        while self.told != [*told]:
            self._is_told.clear()
            await self._is_told.wait()

    async def configure(self, entity, notice=None, **config):
        value = EntityConfig(config).encode()
        try:
            await self.store.create(entity.path, value)
        except NodeExists:
            await self.store.set(entity.path, value)
        return await self.notify(ConfigChange(entity).encode() if notice is None else notice)

    async def notify(self, notice):
        return await self.store.create(paths.CONFIG_CHANGES.new, notice, is_sequential=True)

    async def notices(self):
        names = await self.store.children(paths.CONFIG_CHANGES.parent)
        return [paths.CONFIG_CHANGES.child(name) for name in paths.CONFIG_CHANGES.in_order(names)]


class Watching:
    """A scene in which a broker watches, from before or after what ``prepare`` does."""

    def __init__(self, stores, prepare=None):
        self._stores = stores
        self._prepare = prepare
        self._group = asyncio.TaskGroup()

    async def __aenter__(self):
        store = await self._stores.open()
        await create_roots(store)
        scene = Scene(store, await self._group.__aenter__())
        if self._prepare is not None:
            await self._prepare(scene)
        self._changes = await scene.started()
        return scene

    async def __aexit__(self, *failure):
        await self._changes.close()
        await self._group.__aexit__(*failure)


async def test_all_that_is_there_is_told_before_it_has_started(stores):
    async def prepare(scene):
        await scene.configure(A, x="1")
        await scene.configure(B, y="2")

    async with Watching(stores, prepare) as scene:
        assert scene.told == [("topics/a", {"x": "1"}), ("topics/b", {"y": "2"})]


async def test_what_changed_several_times_is_told_as_it_is_now(stores):
    async def prepare(scene):
        for value in "123":
            await scene.configure(A, x=value)

    async with Watching(stores, prepare) as scene:
        assert scene.told == [("topics/a", {"x": "3"})]


async def test_every_later_change_is_told_once(stores):
    async with Watching(stores) as scene:
        await scene.configure(A, x="1")
        await scene.until_told(("topics/a", {"x": "1"}))
        await scene.configure(B, y="2")
        await scene.until_told(("topics/a", {"x": "1"}), ("topics/b", {"y": "2"}))


@pytest.mark.parametrize("notice", [IN_V1, IN_V2])
async def test_notices_of_either_version_are_understood(stores, notice):
    async with Watching(stores) as scene:
        await scene.configure(A, notice, x="1")
        await scene.until_told(("topics/a", {"x": "1"}))


async def test_of_what_has_no_node_nothing_is_configured(stores):
    async with Watching(stores) as scene:
        await scene.notify(ConfigChange(paths.broker_config(None)).encode())
        await scene.until_told(("brokers/<default>", {}))


async def test_a_notice_that_cannot_be_read_is_passed_over(stores):
    async with Watching(stores) as scene:
        await scene.configure(A, b'{"version":3}', x="1")
        await scene.configure(B, y="2")
        await scene.until_told(("topics/b", {"y": "2"}))


async def test_a_configuration_that_cannot_be_read_leaves_what_was_in_effect(stores):
    async with Watching(stores) as scene:
        await scene.store.create(A.path, b"[]")
        await scene.notify(IN_V2)
        await scene.configure(B, y="2")
        await scene.until_told(("topics/b", {"y": "2"}))


async def test_what_is_refused_keeps_nothing_else_from_being_told(stores, caplog):
    async with Watching(stores) as scene:
        scene.refuses = (A,)
        await scene.configure(A, x="1")
        await scene.configure(B, y="2")
        await scene.until_told(("topics/a", {"x": "1"}), ("topics/b", {"y": "2"}))
    assert "topics/a has no effect" in caplog.text


async def test_who_cannot_act_on_a_change_keeps_nothing_else_from_being_told(stores, caplog):
    async with Watching(stores) as scene:
        scene.fails_at = A
        await scene.configure(A, x="1")
        await scene.configure(B, y="2")
        await scene.until_told(("topics/a", {"x": "1"}), ("topics/b", {"y": "2"}))
    assert "ZeroDivisionError" in caplog.text


async def test_what_could_not_be_read_is_looked_for_again(stores, caplog, monkeypatch):
    monkeypatch.setattr(config_changes, "RETRY_S", 0)
    async with Watching(stores) as scene:
        children, refusals = scene.store.children, [NotPermitted("x"), NotPermitted("y")]

        async def refused(*arguments):
            if refusals:
                raise refusals.pop()
            return await children(*arguments)

        monkeypatch.setattr(scene.store, "children", refused)
        await scene.configure(A, x="1")
        await scene.until_told(("topics/a", {"x": "1"}))
    assert caplog.text.count("looked for again in a while: NotPermitted") == 2


async def test_notices_are_taken_away_when_they_are_old(stores):
    async with Watching(stores) as scene:
        path = (await scene.configure(A, x="1")).path
        await scene.until_told(("topics/a", {"x": "1"}))
        left_ms = (await scene.store.get(path)).stat.created_ms
        scene.now_ms = left_ms + EXPIRATION_MS
        await scene.configure(B)
        await scene.until_told(("topics/a", {"x": "1"}), ("topics/b", {}))
        assert path in await scene.notices()
        scene.now_ms += EXPIRATION_MS
        await scene.configure(B)
        while await scene.notices():
            continue


async def test_two_brokers_may_take_the_same_notice_away(stores):
    async with Watching(stores) as scene:
        other = await scene.started()
        await scene.configure(A, x="1")
        await scene.until_told(*[("topics/a", {"x": "1"})] * 2)
        scene.now_ms = NOW_MS * 2
        await scene.configure(B)
        await scene.until_told(*[("topics/a", {"x": "1"})] * 2, *[("topics/b", {})] * 2)
        while await scene.notices():
            continue
        await other.close()


async def test_in_a_new_session_what_came_in_between_is_told_and_nothing_else(stores):
    async with Watching(stores) as scene:
        await scene.configure(A, x="1")
        await scene.until_told(("topics/a", {"x": "1"}))
        await stores.expire(scene.store)
        await scene.store.open_session()
        await scene.configure(B, y="2")
        await scene.until_told(("topics/a", {"x": "1"}), ("topics/b", {"y": "2"}))
