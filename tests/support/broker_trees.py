"""One broker on ZooKeeper, told the same by the same client, and the tree that it leaves each time.

    for name, step in STEPS.items():
        step(broker)                       # a Broker: ours, or Apache Kafka's
        shown = branch.shown()             # what is there now, with placeholders

What Kafka left is recorded in ``tests/vectors/broker_trees.json``: for each step the nodes that it
changed, None for those that are gone.  A node is its value, whether it is ephemeral, its version
and its access list; JSON values are told as such, in whatever order their keys are.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from tests.support.client_driver import Options, Sent
from tests.support.confluent_driver import ConfluentDriver
from tests.support.recorded_trees import Normaliser, content_of
from tests.support.wire_client import call, error_codes

RECORDED = Path(__file__).resolve().parents[1] / "vectors" / "broker_trees.json"
BROKER_ID = 1
TIMEOUT_MS = 20_000
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND = range(3)
PREFERRED = 0
SENT = 20
PATIENCE_S = 10
POLL_INTERVAL_S = 0.05
#: When a partition is reassigned to where it is, Kafka writes again what is there; we do not.
WRITTEN_AGAIN = "/brokers/topics/placed"
#: What our broker can do, and Kafka 3.9's cannot where it has ZooKeeper.
REGISTRATION = f"/brokers/ids/{BROKER_ID}"
OWN_FEATURES = {"transaction.version": {"min_version": 1, "max_version": 2}}

Shown = dict[str, Any]


class Broker(Protocol):
    """It runs unless a step has ended it."""

    address: str

    def start(self) -> object: ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...


Step = Callable[[Broker], None]


class BranchOfTree:
    """What is at host:port/chroot; one for all steps, since placeholders are counted."""

    def __init__(self, address: str) -> None:
        hosts, slash, chroot = address.partition("/")
        # Not below the chroot, which may not be there yet.
        self._client = KazooClient(hosts)
        self._chroot = slash + chroot
        self._normaliser = Normaliser()

    def __enter__(self) -> Self:
        self._client.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._client.stop()
        self._client.close()

    def shown(self) -> Shown:
        tree: Shown = {}
        self._show("/", tree)
        return dict(sorted(tree.items()))

    def _show(self, path: str, tree: Shown) -> None:
        try:
            node = (self._chroot + path).rstrip("/")
            value, stat = self._client.get(node)
            access, _ = self._client.get_acls(node)
            names = self._client.get_children(node)
        except NoNodeError:
            return  # it went meanwhile
        tree[path] = {
            "value": _told(self._normaliser, path, value),
            "is_ephemeral": stat.ephemeralOwner != 0,
            "version": stat.version,
            "access": [[each.id.scheme, each.id.id, each.perms] for each in access],
        }
        for name in names:
            self._show(f"{path.rstrip('/')}/{name}", tree)


def _told(normaliser: Normaliser, path: str, value: bytes | None) -> Any:
    """Kafka makes nodes without a value, we make empty ones: readers take them alike."""
    content = content_of(normaliser.value(path, value or b""))
    return content.decode() if isinstance(content, bytes) else content


# What is recorded of it


def check_trees(broker: Broker, address: str) -> None:
    """The broker does all steps, and has the recorded tree after each, soon."""
    trees = recorded_trees()
    assert list(trees) == list(STEPS)
    with BranchOfTree(address) as branch:
        for name, step in STEPS.items():
            step(broker)
            assert _differences(branch, trees[name]) == {}, name


def _differences(branch: BranchOfTree, recorded: Shown) -> Mapping[str, tuple[Any, Any]]:
    """What is recorded and what is there instead, once time has not made them the same."""
    expected, shown = _comparable(recorded), _comparable(branch.shown())
    deadline = time.monotonic() + PATIENCE_S
    while shown != expected and time.monotonic() < deadline:
        time.sleep(POLL_INTERVAL_S)
        shown = _comparable(branch.shown())
    return {path: (expected.get(path), shown.get(path)) for path in changes(expected, shown)}


def _comparable(tree: Shown) -> Shown:
    comparable = {
        path: {**node, "version": None} if path == WRITTEN_AGAIN else node
        for path, node in tree.items()
    }
    own = comparable.get(REGISTRATION)
    if own is not None and own["value"]["features"] == OWN_FEATURES:
        comparable[REGISTRATION] = {**own, "value": {**own["value"], "features": {}}}
    return comparable


def changes(before: Shown, after: Shown) -> Shown:
    gone = dict.fromkeys(before.keys() - after.keys())
    return gone | {path: node for path, node in after.items() if before.get(path) != node}


def recorded_trees() -> dict[str, Shown]:
    """By step, in their order."""
    tree: Shown = {}
    trees = {}
    for name, changed in json.loads(RECORDED.read_text()).items():
        tree = {path: node for path, node in (tree | changed).items() if node is not None}
        trees[name] = tree
    return trees


def save_trees(trees: Mapping[str, Shown]) -> None:
    before: Shown = {}
    told = {}
    for name, tree in trees.items():
        told[name] = dict(sorted(changes(before, tree).items()))
        before = tree
    RECORDED.write_text(json.dumps(told, indent=1) + "\n")


# What the broker is told


def _ask(broker: Broker, key: ApiKey, version: int, **values: Any) -> Any:
    return call(broker.address, key, version, **values)


def _asking(
    key: ApiKey, version: int, *, refusal: ErrorCode = ErrorCode.NONE, **values: Any
) -> Step:
    """All of it is refused so, or none."""

    def step(broker: Broker) -> None:
        answer = _ask(broker, key, version, **values)
        assert error_codes(answer) - {0} == {refusal.code} - {0}, answer

    return step


def _creating(*topics: Mapping[str, Any], **more: Any) -> Step:
    return _asking(ApiKey.CREATE_TOPICS, 5, topics=topics, timeout_ms=TIMEOUT_MS, **more)


def _placed(name: str, partitions: int, **configs: str) -> Mapping[str, Any]:
    written = [{"name": key.replace("_", "."), "value": text} for key, text in configs.items()]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
    return {**topic, "configs": written}


def _by_hand(name: str, partitions: int, **configs: str) -> Mapping[str, Any]:
    assignments = [
        {"partition_index": number, "broker_ids": [BROKER_ID]} for number in range(partitions)
    ]
    asked = {"num_partitions": -1, "replication_factor": -1, "assignments": assignments}
    return {**_placed(name, partitions, **configs), **asked}


def _growing(name: str, count: int, assignments: Sequence[Any] | None = None) -> Step:
    topics = [{"name": name, "count": count, "assignments": assignments}]
    return _asking(ApiKey.CREATE_PARTITIONS, 3, topics=topics, timeout_ms=TIMEOUT_MS)


def _altering(kind: int, name: str, *alterations: tuple[int, str, str | None]) -> Step:
    configs = [
        {"name": key, "config_operation": operation, "value": text}
        for operation, key, text in alterations
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    return _asking(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])


def _altering_all(kind: int, name: str, **configs: str) -> Step:
    written = [{"name": key.replace("_", "."), "value": text} for key, text in configs.items()]
    resource = {"resource_type": kind, "resource_name": name, "configs": written}
    return _asking(ApiKey.ALTER_CONFIGS, 1, resources=[resource])


def _deleting(name: str) -> Step:
    return _asking(ApiKey.DELETE_TOPICS, 5, topic_names=[name], timeout_ms=TIMEOUT_MS)


def _deleting_records(name: str, *, before: int) -> Step:
    topics = [{"name": name, "partitions": [{"partition_index": 0, "offset": before}]}]
    return _asking(ApiKey.DELETE_RECORDS, 2, topics=topics, timeout_ms=TIMEOUT_MS)


def _reassigning(name: str) -> Step:
    """To where it is."""
    topics = [{"name": name, "partitions": [{"partition_index": 0, "replicas": [BROKER_ID]}]}]
    return _asking(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, topics=topics, timeout_ms=TIMEOUT_MS)


def _electing(name: str) -> Step:
    return _asking(
        ApiKey.ELECT_LEADERS,
        2,
        refusal=ErrorCode.ELECTION_NOT_NEEDED,
        election_type=PREFERRED,
        topic_partitions=[{"topic": name, "partitions": [0]}],
        timeout_ms=TIMEOUT_MS,
    )


def _produce(broker: Broker) -> None:
    with ConfluentDriver().producer(broker.address, Options(is_idempotent=True)) as producer:
        sent = [Sent(b"x", key=b"%d" % number, partition=0) for number in range(SENT)]
        assert producer.send("by-hand", sent) == list(range(SENT))


def _ask_for_a_topic(broker: Broker) -> None:
    _ask(broker, ApiKey.METADATA, 9, topics=[{"name": "made.on_demand"}])


def _start(broker: Broker) -> None:
    broker.start()


def _stop(broker: Broker) -> None:
    broker.stop()


def _kill_and_start(broker: Broker) -> None:
    broker.kill()
    broker.start()


STEPS: Mapping[str, Step] = {
    "start": _start,
    "create": _creating(_placed("placed", 3), _placed("placed-too", 1, retention_ms="3600000")),
    "create by hand": _creating(
        _by_hand("by-hand", 2, cleanup_policy="compact", segment_bytes="1048576")
    ),
    "create again": _creating(_by_hand("by-hand", 2), refusal=ErrorCode.TOPIC_ALREADY_EXISTS),
    "create, only to see": _creating(_placed("never", 3), validate_only=True),
    "create on demand": _ask_for_a_topic,
    "grow": _growing("placed", 5),
    "grow by hand": _growing("by-hand", 4, [{"broker_ids": [BROKER_ID]}] * 2),
    "alter a topic": _altering(
        TOPIC,
        "by-hand",
        (SET, "max.message.bytes", "2000000"),
        (APPEND, "cleanup.policy", "delete"),
        (DELETE, "segment.bytes", None),
    ),
    "alter all of a topic": _altering_all(TOPIC, "placed-too", segment_ms="60000"),
    "alter the broker": _altering(BROKER, str(BROKER_ID), (SET, "log.cleaner.threads", "2")),
    "alter all brokers": _altering(BROKER, "", (SET, "log.retention.ms", "7200000")),
    "alter the broker back": _altering(
        BROKER, str(BROKER_ID), (DELETE, "log.cleaner.threads", None)
    ),
    "produce": _produce,
    "delete records": _deleting_records("by-hand", before=SENT // 2),
    "delete a topic": _deleting("placed"),
    "create what was deleted": _creating(_by_hand("placed", 1)),
    "reassign": _reassigning("placed"),
    "elect": _electing("placed"),
    "stop": _stop,
    "start again": _start,
    "kill, and start again": _kill_and_start,
    "stop at last": _stop,
}
