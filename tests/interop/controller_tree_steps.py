"""The steps that controller_tree_scenarios are made of, and how each is seen to be done."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from odradek.protocol.error_codes import ErrorCode
from tests.interop.controller_tree_cluster import Cluster, Planned, Until
from tests.support.recorded_trees import Tree

NO_LEADER = -1
DEFAULT = -1
TIMEOUT_MS = 20_000
SHORT_TIMEOUT_MS = 500
NOTIFIED_S = 8  # leaders wait for 5 s without another change, and look every 2.5 s

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
PREFERRED, UNCLEAN = 0, 1
GROUP, TRANSACTION = 0, 1
SCRAM_SHA_256 = 1

PREFERRED_ELECTION = "/admin/preferred_replica_election"
REASSIGNMENT = "/admin/reassign_partitions"
WAITING = ("/admin/delete_topics/", PREFERRED_ELECTION, REASSIGNMENT)


# When is a step done?


def is_quiet(tree: Tree, cluster: Cluster) -> bool:
    """Nothing is left that the controller or a leader would do of itself."""
    waiting = any(path.startswith(WAITING) for path in tree)
    return (
        not waiting
        and not any(_moves(tree, topic) for topic in topics(tree))
        and is_led(tree, cluster)
    )


def is_led(tree: Tree, cluster: Cluster) -> bool:
    """By those that live, with all of them in sync, and by nobody where none in sync lives."""
    if "/controller" not in tree:
        return False
    for topic in topics(tree):
        for partition, replicas in tree[f"/brokers/topics/{topic}"].content["partitions"].items():
            path = f"/brokers/topics/{topic}/partitions/{partition}/state"
            if path not in tree or not _is_settled(tree[path].content, replicas, cluster):
                return False
    return True


def topics(tree: Tree) -> list[str]:
    paths = [path.split("/") for path in tree if path.startswith("/brokers/topics/")]
    return [path[3] for path in paths if len(path) == 4]


def _moves(tree: Tree, topic: str) -> bool:
    content = tree[f"/brokers/topics/{topic}"].content
    return any(content.get(key) for key in ("adding_replicas", "removing_replicas"))


def _is_settled(state: Mapping[str, Any], replicas: Sequence[int], cluster: Cluster) -> bool:
    leader, isr = state["leader"], set(state["isr"])
    if leader in cluster.paused:
        return True
    if leader == NO_LEADER:
        return not isr & cluster.live
    return leader in cluster.live and isr == cluster.live & set(replicas)


def both(one: Until, other: Until) -> Until:
    return lambda tree, cluster: one(tree, cluster) and other(tree, cluster)


def has(path: str) -> Until:
    return lambda tree, cluster: path in tree


def moves(topic: str, partition: int, *, isr: Sequence[int]) -> Until:
    """And will not get beyond this ISR."""
    has_moved_so_far = state_of(topic, partition, isr=isr)
    return both(lambda tree, cluster: _moves(tree, topic), has_moved_so_far)


def state_of(topic: str, partition: int = 0, **expected: Any) -> Until:
    path = f"/brokers/topics/{topic}/partitions/{partition}/state"
    return lambda tree, cluster: path in tree and expected.items() <= tree[path].content.items()


def is_deleted(topic: str) -> Until:
    gone = {f"/brokers/topics/{topic}", f"/admin/delete_topics/{topic}"}
    return lambda tree, cluster: not gone & tree.keys() and is_led(tree, cluster)


def controller_epoch(epoch: int, until: Until = is_quiet) -> Until:
    return lambda tree, cluster: tree["/controller_epoch"].content == epoch and until(tree, cluster)


# Steps


def start(broker: int, until: Until = is_quiet, **more: Any) -> Planned:
    return Planned("start_broker", {"broker": broker, **more}, until)


def stop(broker: int, until: Until = is_quiet) -> Planned:
    return Planned("stop_broker", {"broker": broker}, until)


def kill(broker: int, until: Until = is_quiet) -> Planned:
    return Planned("kill_broker", {"broker": broker}, until)


def pause(broker: int, until: Until = is_quiet) -> Planned:
    return Planned("pause_broker", {"broker": broker}, until)


def resume(broker: int, until: Until = is_quiet) -> Planned:
    return Planned("resume_broker", {"broker": broker}, until)


def fail_log_dir(broker: int, partition: str, until: Until) -> Planned:
    return Planned("fail_log_dir", {"broker": broker, "partition": partition}, until)


def repair_log_dirs(broker: int) -> Planned:
    return Planned("repair_log_dirs", {"broker": broker}, is_led)


def with_notification(step: Planned) -> Planned:
    """Before AlterPartition, leaders told of new ISRs by notifications, some seconds later."""
    return replace(step, settled_s=NOTIFIED_S)


def create_node(path: str, content: Any = None, until: Until = is_quiet) -> Planned:
    value = "" if content is None else json.dumps(content, separators=(",", ":"))
    return Planned("create_node", {"path": path, "value": value}, until)


def delete_node(path: str, until: Until = is_quiet) -> Planned:
    return Planned("delete_node", {"path": path}, until)


def ask(
    api: str,
    version: int,
    request: Mapping[str, Any],
    *,
    to: int | str = "controller",
    until: Until = is_quiet,
    may_fail_with: ErrorCode = ErrorCode.NONE,
) -> Planned:
    arguments = {"to": to, "api": api, "version": version, "request": request}
    return Planned("ask", arguments, until, may_fail_with.code)


def create(
    topic: str,
    assignment: Sequence[Sequence[int]] = (),
    *,
    partitions: int = DEFAULT,
    replication_factor: int = DEFAULT,
    configs: Mapping[str, str] = {},
    until: Until = is_quiet,
) -> Planned:
    assignments = [
        {"partitionIndex": partition, "brokerIds": replicas}
        for partition, replicas in enumerate(assignment)
    ]
    asked = {
        "name": topic,
        "numPartitions": partitions,
        "replicationFactor": replication_factor,
        "assignments": assignments,
        "configs": [{"name": name, "value": text} for name, text in configs.items()],
    }
    return ask("CREATE_TOPICS", 4, {"topics": [asked], "timeoutMs": TIMEOUT_MS}, until=until)


def grow(topic: str, count: int, assignment: Sequence[Sequence[int]] | None = None) -> Planned:
    assignments = assignment and [{"brokerIds": replicas} for replicas in assignment]
    asked = {"name": topic, "count": count, "assignments": assignments}
    request = {"topics": [asked], "timeoutMs": TIMEOUT_MS, "validateOnly": False}
    return ask("CREATE_PARTITIONS", 3, request)


def delete(topic: str) -> Planned:
    request = {"topicNames": [topic], "timeoutMs": TIMEOUT_MS}
    return ask("DELETE_TOPICS", 5, request, until=is_deleted(topic))


def delete_in_vain(topic: str) -> Planned:
    """A replica is out of reach: the topic waits for it."""
    return ask(
        "DELETE_TOPICS",
        5,
        {"topicNames": [topic], "timeoutMs": SHORT_TIMEOUT_MS},
        until=has(f"/admin/delete_topics/{topic}"),
        may_fail_with=ErrorCode.REQUEST_TIMED_OUT,
    )


def alter(
    kind: int, name: str, *changes: tuple[int, str, str | None], to: int | str = "controller"
) -> Planned:
    configs = [
        {"name": key, "configOperation": operation, "value": text}
        for operation, key, text in changes
    ]
    resource = {"resourceType": kind, "resourceName": name, "configs": configs}
    request = {"resources": [resource], "validateOnly": False}
    return ask("INCREMENTAL_ALTER_CONFIGS", 1, request, to=to)


def alter_all(topic: str, configs: Mapping[str, str]) -> Planned:
    """As clients did before they could change single keys: what is not named is gone."""
    entries = [{"name": name, "value": text} for name, text in configs.items()]
    resource = {"resourceType": TOPIC, "resourceName": topic, "configs": entries}
    return ask("ALTER_CONFIGS", 1, {"resources": [resource], "validateOnly": False})


def quota(entity: Mapping[str, str | None], key: str, rate: float | None) -> Planned:
    """A rate of None removes it; a name of None is the default of its type."""
    parts = [{"entityType": kind, "entityName": name} for kind, name in entity.items()]
    change = {"key": key, "value": rate or 0.0, "remove": rate is None}
    request = {"entries": [{"entity": parts, "ops": [change]}], "validateOnly": False}
    return ask("ALTER_CLIENT_QUOTAS", 1, request)


def scram(user: str) -> Planned:
    upsertion = {
        "name": user,
        "mechanism": SCRAM_SHA_256,
        "iterations": 4096,
        "salt": b64encode(b"salt").decode(),
        "saltedPassword": b64encode(b"salted").decode(),
    }
    request = {"deletions": [], "upsertions": [upsertion]}
    return ask("ALTER_USER_SCRAM_CREDENTIALS", 0, request)


def producer_id(broker: int) -> Planned:
    request = {
        "transactionalId": None,
        "transactionTimeoutMs": 1000,
        "producerId": -1,
        "producerEpoch": -1,
    }
    return ask(
        "INIT_PRODUCER_ID",
        4,
        request,
        to=broker,
        may_fail_with=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,  # it has yet to ask for its block
    )


def find_coordinator(kind: int, key: str, *, topic: str) -> Planned:
    """The broker that is asked has the topic created."""
    return ask(
        "FIND_COORDINATOR",
        2,
        {"key": key, "keyType": kind},
        to=1,
        until=lambda tree, cluster: topic in topics(tree) and is_quiet(tree, cluster),
        may_fail_with=ErrorCode.COORDINATOR_NOT_AVAILABLE,
    )


def reassign(
    topic: str, targets: Mapping[int, Sequence[int] | None], until: Until = is_quiet
) -> Planned:
    """A target of None cancels."""
    partitions = [
        {"partitionIndex": partition, "replicas": replicas}
        for partition, replicas in targets.items()
    ]
    request = {
        "timeoutMs": TIMEOUT_MS,
        "topics": [{"name": topic, "partitions": partitions}],
    }
    return ask("ALTER_PARTITION_REASSIGNMENTS", 0, request, until=until)


def elect(kind: int, topic: str, partition: int, *, leader: int) -> Planned:
    request = {
        "electionType": kind,
        "topicPartitions": [{"topic": topic, "partitions": [partition]}],
        "timeoutMs": TIMEOUT_MS,
    }
    is_elected = both(is_quiet, state_of(topic, partition, leader=leader))
    return ask("ELECT_LEADERS", 2, request, until=is_elected)


def listed(topic: str, replicas: Mapping[int, Sequence[int]]) -> dict[str, Any]:
    """What a tool writes into /admin/reassign_partitions."""
    partitions = [
        {"topic": topic, "partition": partition, "replicas": target}
        for partition, target in replicas.items()
    ]
    return {"version": 1, "partitions": partitions}
