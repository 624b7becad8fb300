"""A cluster on a tree that another has left: one controller, and brokers that are but registered.

All of them are of one session, so that it can be had on every store.

    async with TakenOverCluster(store) as cluster:
        await cluster.join(2, 3)
        await cluster.take_office(1)

``taken_over`` is the whole of it: some brokers are there when our controller begins, the others
come later.

Owner: the event loop.
"""

from collections.abc import Collection
from typing import Any

from odradek.controller.metadata_version import LATEST
from odradek.controller.registration import BrokerRegistrar
from odradek.controller.store.base import MetadataStore
from odradek.protocol.types import TopicPartition, Uuid
from tests.support.controlled_cluster import ControlledCluster
from tests.support.followers import Followers, logs
from tests.support.left_trees import (
    Facts,
    brokers,
    facts,
    finished,
    leader_of_undisturbed,
    moving,
    partitions,
    replicas_now,
    shown_tree,
    state,
    to_delete,
    topic_ids,
)
from tests.support.recorded_trees import Tree

ROOTS = ("/admin", "/brokers/topics", "/cluster", "/config", "/controller", "/controller_epoch")
#: In the recordings, topics in which a broker that was not in sync may be elected.
UNCLEAN = ("unclean",)
NOTICES = ("/isr_change_notification", "/log_dir_event_notification")


class OneSession:
    """The same store, whoever opens one."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def open(self) -> MetadataStore:
        return self._store

    async def expire(self, store: MetadataStore) -> None:
        raise NotImplementedError


class TakenOverCluster(ControlledCluster):
    def __init__(self, store: MetadataStore, **settings: Any) -> None:
        super().__init__(OneSession(store), auto_leader_rebalance_enable=False, **settings)
        self._outside = self._store = store
        self._followers = Followers(self)

    async def join(self, *brokers: int) -> None:
        for broker in brokers:
            registering = BrokerRegistrar(self._store, self.identity(broker), LATEST)
            epoch = await registering.register()
            self.brokers.start(broker, epoch=epoch)

    async def take_office(self, broker: int) -> None:
        """It has done then what a controller begins with."""
        await self.start(broker)
        await self.until(lambda: self.controller_id == broker)
        await self.controller.list_partition_reassignments(None)

    def give_logs(self, tree: Tree) -> None:
        """Brokers have on disk what is assigned to them."""
        for topic, number in partitions(tree):
            text = tree[f"/brokers/topics/{topic}"].content.get("topic_id")
            known = None if text is None else Uuid.parse(text)
            for broker in replicas_now(tree, (topic, number)):
                if known is not None:
                    self.brokers.logs_of(broker)[TopicPartition(topic, number)] = known

    async def tree(self) -> Tree:
        return await shown_tree(self._store, *ROOTS, *NOTICES)

    async def until_facts(self, expected: Facts) -> None:
        """Followers catch up meanwhile."""

        async def is_so() -> bool:
            return facts(await self.tree()) == expected

        try:
            await self._followers.until(is_so)
        except TimeoutError:
            assert facts(await self.tree()) == expected

    async def _tell_epoch(self, broker: int, request: object) -> None:
        if broker in self.controllers:
            await super()._tell_epoch(broker, request)


async def taken_over(store: MetadataStore, *, first: Collection[int] | None) -> None:
    """From whoever left what is in the store; ``first`` are there at first, None for all."""
    before = await shown_tree(store, *[f"/{name}" for name in await store.get_children("/")])
    everyone = brokers(before) or [1]
    present = [each for each in everyone if first is None or each in first] or everyone[:1]
    async with TakenOverCluster(store) as cluster:
        cluster.give_logs(before)
        await cluster.join(*present[1:])
        await cluster.take_office(present[0])
        _check_found(before, await cluster.tree(), present)
        await cluster.join(*[each for each in everyone if each not in present])
        await cluster.until_facts(finished(before))
        after = await cluster.tree()
        assert topic_ids(after).items() >= topic_ids(before).items()
        await cluster.until(lambda: logs(cluster) == _placed(after))


def _check_found(before: Tree, after: Tree, present: Collection[int]) -> None:
    assert facts(after).controller_epoch == facts(before).controller_epoch + 1
    for partition in partitions(before):
        if partition[0] in to_delete(before) or partition in moving(before):
            continue
        was, found = state(before, partition), state(after, partition)
        leader = leader_of_undisturbed(before, partition, present, unclean=UNCLEAN)
        assert found["leader"] == leader, (partition, was, found)
        is_undisturbed = leader == was["leader"] and set(was["isr"]) <= {*present}
        assert (found == was) == is_undisturbed, (partition, was, found)
        assert found["leader_epoch"] >= was["leader_epoch"]


def _placed(tree: Tree) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for (topic, number), replicas in facts(tree).replicas.items():
        for broker in replicas:
            found.setdefault(broker, []).append(f"{topic}-{number}")
    return {broker: sorted(names) for broker, names in found.items()}
