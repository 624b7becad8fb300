"""Tests of controller/dynamic_config_manager.py, on every store."""

import asyncio

import pytest

from odradek.controller import dynamic_config_manager
from odradek.controller.dynamic_config_manager import CHANGE_EXPIRATION_MS, DynamicConfigManager
from odradek.controller.registration import create_top_level_paths
from odradek.controller.store import paths
from odradek.controller.store.base import NodeExists, NotPermitted
from odradek.controller.store.payloads.config import ConfigChangeNotification, EntityConfig
from odradek.protocol.errors import InvalidConfig
from tests.support.stores import NOW_MS

A, B = paths.topic_config("a"), paths.topic_config("b")
IN_V1 = b'{"version":1,"entity_type":"topics","entity_name":"a"}'
IN_V2 = ConfigChangeNotification(A).encode()


class Scene:
    """A broker that records each config change, and writers of configs and notifications."""

    def __init__(self, store, group):
        self.store = store
        self.received = []
        self.rejects = ()
        self.fails_on = None
        self.now_ms = 0
        self._group = group
        self._has_received = asyncio.Event()

    async def on_config_change(self, entity, config):
        self.received.append((str(entity), dict(config)))
        self._has_received.set()
        if entity == self.fails_on:
            raise ZeroDivisionError
        if entity in self.rejects:
            raise InvalidConfig("a test has its way")

    async def start_manager(self):
        manager = DynamicConfigManager(
            self.store,
            self.on_config_change,
            now_ms=lambda: self.now_ms,
            start_task=self._group.create_task,
        )
        await manager.start()
        return manager

    async def until_received(self, *received):
        while self.received != [*received]:
            self._has_received.clear()
            await self._has_received.wait()

    async def configure(self, entity, notification=None, **config):
        value = EntityConfig(config).encode()
        try:
            await self.store.create(entity.path, value)
        except NodeExists:
            await self.store.set(entity.path, value)
        return await self.notify(
            ConfigChangeNotification(entity).encode() if notification is None else notification
        )

    async def notify(self, notification):
        return await self.store.create(
            paths.CONFIG_CHANGES.create_path, notification, is_sequential=True
        )

    async def notifications(self):
        names = await self.store.get_children(paths.CONFIG_CHANGES.parent)
        return [
            paths.CONFIG_CHANGES.child_path(name)
            for name in paths.CONFIG_CHANGES.sort_children(names)
        ]


class RunningManager:
    """Starts a DynamicConfigManager, after ``prepare`` if it is given."""

    def __init__(self, stores, prepare=None):
        self._stores = stores
        self._prepare = prepare
        self._group = asyncio.TaskGroup()

    async def __aenter__(self):
        store = await self._stores.open()
        await create_top_level_paths(store)
        scene = Scene(store, await self._group.__aenter__())
        if self._prepare is not None:
            await self._prepare(scene)
        self._manager = await scene.start_manager()
        return scene

    async def __aexit__(self, *exc_info):
        await self._manager.close()
        await self._group.__aexit__(*exc_info)


async def test_start_applies_all_existing_notifications(stores):
    async def prepare(scene):
        await scene.configure(A, x="1")
        await scene.configure(B, y="2")

    async with RunningManager(stores, prepare) as scene:
        assert scene.received == [("topics/a", {"x": "1"}), ("topics/b", {"y": "2"})]


async def test_config_with_several_notifications_is_applied_once(stores):
    async def prepare(scene):
        for value in "123":
            await scene.configure(A, x=value)

    async with RunningManager(stores, prepare) as scene:
        assert scene.received == [("topics/a", {"x": "3"})]


async def test_every_change_after_start_is_applied_once(stores):
    async with RunningManager(stores) as scene:
        await scene.configure(A, x="1")
        await scene.until_received(("topics/a", {"x": "1"}))
        await scene.configure(B, y="2")
        await scene.until_received(("topics/a", {"x": "1"}), ("topics/b", {"y": "2"}))


@pytest.mark.parametrize("notification", [IN_V1, IN_V2])
async def test_notifications_of_both_versions_are_read(stores, notification):
    async with RunningManager(stores) as scene:
        await scene.configure(A, notification, x="1")
        await scene.until_received(("topics/a", {"x": "1"}))


async def test_notification_of_missing_config_node_applies_empty_config(stores):
    async with RunningManager(stores) as scene:
        await scene.notify(ConfigChangeNotification(paths.broker_config(None)).encode())
        await scene.until_received(("brokers/<default>", {}))


async def test_unreadable_notification_is_skipped(stores):
    async with RunningManager(stores) as scene:
        await scene.configure(A, b'{"version":3}', x="1")
        await scene.configure(B, y="2")
        await scene.until_received(("topics/b", {"y": "2"}))


async def test_unreadable_config_is_skipped(stores):
    async with RunningManager(stores) as scene:
        await scene.store.create(A.path, b"[]")
        await scene.notify(IN_V2)
        await scene.configure(B, y="2")
        await scene.until_received(("topics/b", {"y": "2"}))


async def test_rejected_config_does_not_stop_later_changes(stores, caplog):
    async with RunningManager(stores) as scene:
        scene.rejects = (A,)
        await scene.configure(A, x="1")
        await scene.configure(B, y="2")
        await scene.until_received(("topics/a", {"x": "1"}), ("topics/b", {"y": "2"}))
    assert "Ignoring the invalid configuration of topics/a" in caplog.text


async def test_failing_handler_does_not_stop_later_changes(stores, caplog):
    async with RunningManager(stores) as scene:
        scene.fails_on = A
        await scene.configure(A, x="1")
        await scene.configure(B, y="2")
        await scene.until_received(("topics/a", {"x": "1"}), ("topics/b", {"y": "2"}))
    assert "ZeroDivisionError" in caplog.text


async def test_failed_read_of_notifications_is_retried(stores, caplog, monkeypatch):
    monkeypatch.setattr(dynamic_config_manager, "RETRY_BACKOFF_S", 0)
    async with RunningManager(stores) as scene:
        get_children, errors = scene.store.get_children, [NotPermitted("x"), NotPermitted("y")]

        async def failing_get_children(*arguments):
            if errors:
                raise errors.pop()
            return await get_children(*arguments)

        monkeypatch.setattr(scene.store, "get_children", failing_get_children)
        await scene.configure(A, x="1")
        await scene.until_received(("topics/a", {"x": "1"}))
    assert caplog.text.count("retrying later: NotPermitted") == 2


async def test_expired_notifications_are_deleted(stores):
    async with RunningManager(stores) as scene:
        path = (await scene.configure(A, x="1")).path
        await scene.until_received(("topics/a", {"x": "1"}))
        created_ms = (await scene.store.get(path)).stat.created_ms
        scene.now_ms = created_ms + CHANGE_EXPIRATION_MS
        await scene.configure(B)
        await scene.until_received(("topics/a", {"x": "1"}), ("topics/b", {}))
        assert path in await scene.notifications()
        scene.now_ms += CHANGE_EXPIRATION_MS
        await scene.configure(B)
        while await scene.notifications():
            continue


async def test_two_brokers_may_delete_the_same_notification(stores):
    async with RunningManager(stores) as scene:
        other = await scene.start_manager()
        await scene.configure(A, x="1")
        await scene.until_received(*[("topics/a", {"x": "1"})] * 2)
        scene.now_ms = NOW_MS * 2
        await scene.configure(B)
        await scene.until_received(*[("topics/a", {"x": "1"})] * 2, *[("topics/b", {})] * 2)
        while await scene.notifications():
            continue
        await other.close()


async def test_new_session_applies_only_changes_since_the_old_session(stores):
    async with RunningManager(stores) as scene:
        await scene.configure(A, x="1")
        await scene.until_received(("topics/a", {"x": "1"}))
        await stores.expire(scene.store)
        await scene.store.open_session()
        await scene.configure(B, y="2")
        await scene.until_received(("topics/a", {"x": "1"}), ("topics/b", {"y": "2"}))
