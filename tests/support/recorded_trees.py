"""Operations on a cluster, and the ZooKeeper tree that Apache Kafka left after each.

A recording is a file of lines, in ``tests/vectors/zookeeper``.  The first says how the brokers were
set; each other is a step: an operation, what was answered to it, and every write that ZooKeeper
then did, in order, until nothing moved.  The tree after a step is what the writes so far have made.

    ["create", path, value, is_ephemeral, by]     value null: the node has none
    ["set", path, value, version, by]
    ["delete", path, by]

``by`` is the broker whose session wrote, null for the recording program; at a session's end
ZooKeeper deletes its ephemeral nodes by that session.

Operations that are no requests say how brokers fare, in words that simulated ones understand too:

    start_broker   with a rack, listeners, a version of the inter-broker protocol, log dirs
    stop_broker    cleanly: a controlled shutdown, then the end of its session
    kill_broker    nothing is said; its session ends some time later
    pause_broker   its session lives, but it neither fetches nor answers; what it follows gets
                   records, so that leaders take it out of their ISRs
    resume_broker
    fail_log_dir   the one that holds this partition and those that the answer tells; the broker
                   goes on with its others
    repair_log_dirs
    ask            a request to a broker, or to "controller", in the JSON of kafka_json
    create_node, delete_node   by an outside tool

What differs from one cluster to the next gives way to placeholders (see ``Normaliser``), so that
trees of another cluster can be compared.
"""

import json
import lzma
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

RECORDINGS = Path(__file__).resolve().parents[1] / "vectors" / "zookeeper"
ENDING = ".jsonl.xz"

TIME = "<time>"
CLUSTER_ID = "<cluster id>"


@dataclass(frozen=True, slots=True)
class Node:
    """Equal to another that holds the same JSON, in whatever order its keys are."""

    value: bytes = field(compare=False)
    content: Any = field(repr=False)
    is_ephemeral: bool
    version: int


Tree = dict[str, Node]
Write = list[Any]


class Normaliser:
    """Puts placeholders for times, ports, and the ids of topics and of the cluster.

    The first id seen of topic T is ``<id 1 of T>``, the next ``<id 2 of T>``: so one normaliser
    serves all trees of a cluster, in their order.
    """

    def __init__(self) -> None:
        self._topic_ids: dict[str, list[str]] = {}

    def node(self, path: str, value: bytes, *, is_ephemeral: bool, version: int) -> Node:
        written = self.value(path, value)
        return Node(written, content_of(written), is_ephemeral, version)

    def value(self, path: str, value: bytes) -> bytes:
        content = content_of(value)
        if not isinstance(content, dict):
            return value
        match path.split("/")[1:]:
            case ["cluster", "id"]:
                content["id"] = CLUSTER_ID
            case ["controller"]:
                content["timestamp"] = TIME
            case ["brokers", "ids", _]:
                content["timestamp"] = TIME
                _replace_ports(content)
            case ["brokers", "topics", topic] if "topic_id" in content:
                content["topic_id"] = self.topic_id(topic, content["topic_id"])
            case _:
                return value
        return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()

    def topic_id(self, topic: str, topic_id: str) -> str:
        seen = self._topic_ids.setdefault(topic, [])
        if topic_id not in seen:
            seen.append(topic_id)
        return f"<id {seen.index(topic_id) + 1} of {topic}>"

    def placeholders(self) -> dict[str, str]:
        """By the topic id that each stands for."""
        return {
            topic_id: self.topic_id(topic, topic_id)
            for topic, seen in self._topic_ids.items()
            for topic_id in seen
        }


def content_of(value: bytes) -> Any:
    """As JSON, or as it is where it is none."""
    try:
        return json.loads(value)
    except ValueError:
        return value


def _replace_ports(registration: dict[str, Any]) -> None:
    placeholders: dict[str, str] = {}
    endpoints = []
    for endpoint in registration["endpoints"]:
        address, _, port = endpoint.rpartition(":")
        placeholder = placeholders.setdefault(port, f"<port {len(placeholders) + 1}>")
        endpoints.append(f"{address}:{placeholder}")
    registration["endpoints"] = endpoints
    port = registration["port"]
    registration["port"] = placeholders.get(str(port), port)


@dataclass(frozen=True)
class Step:
    """``answer`` is the response to a request, in which error messages are but a placeholder."""

    operation: str
    arguments: Mapping[str, Any]
    answer: Mapping[str, Any] | None
    writes: list[Write]
    tree: Tree = field(repr=False)

    @property
    def name(self) -> str:
        shown = " ".join(f"{key}={json.dumps(value)}" for key, value in self.arguments.items())
        return f"{self.operation} {shown}"

    @property
    def controller(self) -> int | None:
        """Who is in charge after this step; where there was a race, this broker won it."""
        node = self.tree.get("/controller")
        return node.content["brokerid"] if node else None

    def assignment(self, topic: str) -> dict[int, list[int]]:
        """What was chosen where the operation left the choice of replicas to chance."""
        partitions = self.tree[f"/brokers/topics/{topic}"].content["partitions"]
        return {int(partition): replicas for partition, replicas in partitions.items()}


@dataclass(frozen=True)
class Recording:
    name: str
    settings: Mapping[str, str]  # of every broker, as far as the controller cares for them
    lines: list[dict[str, Any]] = field(repr=False)

    @cached_property
    def steps(self) -> list[Step]:
        steps, tree = [], Tree()
        for line in self.lines:
            tree = written(tree, line["writes"])
            steps.append(Step(**line, tree=tree))
        return steps

    @classmethod
    def load(cls, name: str) -> Self:
        with lzma.open(RECORDINGS / f"{name}{ENDING}", "rt", encoding="utf-8") as file:
            first, *lines = map(json.loads, file)
        return cls(name, first["settings"], lines)

    def save(self) -> None:
        RECORDINGS.mkdir(exist_ok=True)
        with lzma.open(RECORDINGS / f"{self.name}{ENDING}", "wt", encoding="utf-8") as file:
            for line in ({"settings": self.settings}, *self.lines):
                file.write(json.dumps(line, ensure_ascii=False) + "\n")


def names_of_recorded_trees() -> list[str]:
    return sorted(path.name.removesuffix(ENDING) for path in RECORDINGS.glob(f"*{ENDING}"))


def written(tree: Tree, writes: Iterable[Write]) -> Tree:
    """A copy of the tree, with the writes done."""
    after = dict(tree)
    for write in writes:
        match write:
            case ["create", path, value, is_ephemeral, _]:
                after[path] = _node(value, is_ephemeral, version=0)
            case ["set", path, value, version, _]:
                after[path] = _node(value, after[path].is_ephemeral, version)
            case ["delete", path, _]:
                del after[path]
    return after


def _node(text: str | None, is_ephemeral: bool, version: int) -> Node:
    value = (text or "").encode()
    return Node(value, content_of(value), is_ephemeral, version)
