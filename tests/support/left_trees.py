"""What a cluster left in the tree, and what whoever takes it over has to make of that.

    facts(tree)       as it is
    finished(tree)    as it will be when another controller, and all brokers, are there: what was
                      being deleted is gone, what was being moved is where it should be

Both are told by the JSON in the nodes alone, so they serve for Kafka's controller as for ours.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from odradek.controller.store.base import (
    Create,
    GetChildren,
    GetData,
    MetadataStore,
    SetData,
    ZNode,
)
from tests.support.controller_scene import topic_id
from tests.support.recorded_trees import Node as Seen
from tests.support.recorded_trees import Tree, content_of

DELETIONS = "/admin/delete_topics/"
REASSIGNMENT = "/admin/reassign_partitions"
TOPICS = "/brokers/topics/"
TOPIC_CONFIGS = "/config/topics/"
CONFIG_NOTICES = "/config/changes/"
#: Nodes that somebody has yet to act on.
WAITING = (
    DELETIONS,
    REASSIGNMENT,
    "/admin/preferred_replica_election",
    "/isr_change_notification/",
    "/log_dir_event_notification/",
)
ID_PLACEHOLDER = re.compile(r"<id (\d+) of ([^>]+)>")
NO_LEADER = -1

Partition = tuple[str, int]


@dataclass(frozen=True)
class Facts:
    controller_epoch: int
    #: By topic and number.
    replicas: Mapping[Partition, list[int]]
    #: Replicas that are not in sync, and leaders that are none of them.
    ailing: Mapping[Partition, Any]
    moving: Collection[Partition]
    #: By path, with their versions.
    configs: Mapping[str, tuple[Any, int]]
    waiting: Collection[str]


def facts(tree: Tree) -> Facts:
    return Facts(
        controller_epoch=controller_epoch(tree),
        replicas={each: _lists(tree, each)[0] for each in partitions(tree)},
        ailing={each: state(tree, each) for each in partitions(tree) if not _is_well(tree, each)},
        moving=moving(tree),
        configs=_configs(tree),
        waiting=sorted(path for path in tree if path.startswith(WAITING)),
    )


def finished(tree: Tree) -> Facts:
    gone = to_delete(tree)
    return Facts(
        controller_epoch=controller_epoch(tree) + 1,
        replicas={each: _target(tree, each) for each in partitions(tree) if each[0] not in gone},
        ailing={},
        moving=[],
        configs={
            path: config
            for path, config in _configs(tree).items()
            if path.removeprefix(TOPIC_CONFIGS) not in gone
        },
        waiting=[],
    )


def topic_ids(tree: Tree) -> dict[str, str]:
    """Of those that have one and stay."""
    gone = to_delete(tree)
    contents = {topic: tree[TOPICS + topic].content for topic in _topics(tree) if topic not in gone}
    return {
        topic: content["topic_id"] for topic, content in contents.items() if "topic_id" in content
    }


def controller_epoch(tree: Tree) -> int:
    node = tree.get("/controller_epoch")
    return 0 if node is None else node.content


def to_delete(tree: Tree) -> set[str]:
    return {path.removeprefix(DELETIONS) for path in tree if path.startswith(DELETIONS)}


def partitions(tree: Tree) -> list[Partition]:
    return [
        (topic, int(number))
        for topic in _topics(tree)
        for number in tree[TOPICS + topic].content["partitions"]
    ]


def state(tree: Tree, partition: Partition) -> Any:
    topic, number = partition
    node = tree.get(f"{TOPICS}{topic}/partitions/{number}/state")
    return None if node is None else node.content


def moving(tree: Tree) -> list[Partition]:
    return [each for each in partitions(tree) if any(_lists(tree, each)[1:])]


def leader_of_undisturbed(
    tree: Tree, partition: Partition, present: Collection[int], *, unclean: Collection[str] = ()
) -> int:
    """Whom a controller finds or elects that knows of these brokers; ``unclean`` may be any."""
    found, replicas = state(tree, partition), _lists(tree, partition)[0]
    if found["leader"] in present:
        return int(found["leader"])
    able = [each for each in replicas if each in present and each in found["isr"]]
    if not able and partition[0] in unclean:
        able = [each for each in replicas if each in present]
    return able[0] if able else NO_LEADER


def brokers(tree: Tree) -> list[int]:
    """All that have a replica, or shall."""
    return sorted({each for partition in partitions(tree) for each in _lists(tree, partition)[0]})


def replicas_now(tree: Tree, partition: Partition) -> list[int]:
    return _lists(tree, partition)[0]


def _topics(tree: Tree) -> list[str]:
    names = [path.removeprefix(TOPICS) for path in tree if path.startswith(TOPICS)]
    return sorted(name for name in names if "/" not in name)


def _lists(tree: Tree, partition: Partition) -> tuple[list[int], list[int], list[int]]:
    """All replicas, those being added, and those being removed."""
    topic, number = partition
    content = tree[TOPICS + topic].content
    keys = ("partitions", "adding_replicas", "removing_replicas")
    replicas, adding, removing = (content.get(key, {}).get(str(number), []) for key in keys)
    return replicas, adding, removing


def _target(tree: Tree, partition: Partition) -> list[int]:
    node = tree.get(REASSIGNMENT)
    for asked in [] if node is None else node.content["partitions"]:
        if (asked["topic"], asked["partition"]) == partition:
            target: list[int] = asked["replicas"]
            return target
    replicas, _, removing = _lists(tree, partition)
    return [each for each in replicas if each not in removing]


def _is_well(tree: Tree, partition: Partition) -> bool:
    found = state(tree, partition)
    replicas = sorted(_lists(tree, partition)[0])
    return bool(found and sorted(found["isr"]) == replicas and found["leader"] in replicas)


def _configs(tree: Tree) -> dict[str, tuple[Any, int]]:
    """Without notices, which are only kept for a while."""
    return {
        path: (node.content, node.version)
        for path, node in tree.items()
        if path.startswith("/config/") and not path.startswith(CONFIG_NOTICES)
    }


# From a store, and into one


async def shown_tree(store: MetadataStore, *roots: str) -> Tree:
    """All that is there at these paths and below."""
    tree = Tree()
    level = [*roots]
    while level:
        outcomes = await store.run(
            [each(path) for path in level for each in (GetData, GetChildren)]
        )
        below: list[str] = []
        for path, node, names in zip(level, outcomes[::2], outcomes[1::2], strict=True):
            # What is gone meanwhile is not there.
            if isinstance(node, ZNode) and isinstance(names, list):
                is_ephemeral = bool(node.stat.ephemeral_owner)
                content = content_of(node.value)
                tree[path] = Seen(node.value, content, is_ephemeral, node.stat.version)
                below += [f"{path}/{name}" for name in names]
        level = below
    return tree


async def put_tree(store: MetadataStore, tree: Tree) -> None:
    """What all sessions of a recording left behind them; topics get ids in place of placeholders.

    Every node is written as often as it was, since versions are what writers name.
    """
    for path in sorted(tree):
        node = tree[path]
        if not node.is_ephemeral:
            value = ID_PLACEHOLDER.sub(_topic_id, node.value.decode()).encode()
            writes = [Create(path, value), *[SetData(path, value)] * node.version]
            await store.multi(writes)


def _topic_id(placeholder: re.Match[str]) -> str:
    count, topic = placeholder.groups()
    return str(topic_id(f"{count} {topic}"))
