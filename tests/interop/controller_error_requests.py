"""Requests to a controller by what is wrong with them, as controller_error_cases sends them.

Bodies are in the JSON of kafka_json.  Topics "exists" ([1, 2], [2, 3]) and "under_score" are there,
"absent" is not.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.interop.controller_tree_steps import (
    BROKER,
    DELETE,
    PREFERRED,
    SET,
    SUBTRACT,
    TOPIC,
    UNCLEAN,
)

TIMEOUT_MS = 5000


# CreateTopics


def topics(*topics: Mapping[str, Any]) -> dict[str, Any]:
    """Only checked: Kafka would create what it takes for right."""
    return {"topics": topics, "timeoutMs": TIMEOUT_MS, "validateOnly": True}


def new(
    name: str,
    partitions: int = -1,
    factor: int = -1,
    assignment: Mapping[int, Sequence[int]] | Sequence[tuple[int, Sequence[int]]] = (),
    configs: Sequence[tuple[str, str | None]] = (),
) -> dict[str, Any]:
    pairs = assignment.items() if isinstance(assignment, Mapping) else assignment
    return {
        "name": name,
        "numPartitions": partitions,
        "replicationFactor": factor,
        "assignments": [{"partitionIndex": index, "brokerIds": ids} for index, ids in pairs],
        "configs": [{"name": key, "value": text} for key, text in configs],
    }


def topic(name: str, *more: Any, **named: Any) -> dict[str, Any]:
    return topics(new(name, *more, **named))


def creations() -> dict[str, dict[str, Any]]:
    return {
        "no topics": topics(),
        "exists": topic("exists", 1, 1),
        "twice in the request": topics(new("x", 1, 1), new("x", 1, 1)),
        "twice, beside a mistake": topics(new("x", 1, 1), new("x", 2, 1), new("y", 0, 1)),
        "empty name": topic("", 1, 1),
        "name .": topic(".", 1, 1),
        "name ..": topic("..", 1, 1),
        "slash in the name": topic("a/b", 1, 1),
        "space in the name": topic("a b", 1, 1),
        "letter beyond ASCII": topic("\u00e9", 1, 1),
        "name of 250 letters": topic("x" * 250, 1, 1),
        "collides with under_score": topic("under.score", 1, 1),
        "metadata topic of KRaft": topic("__cluster_metadata", 1, 1),
        "assignment and partitions": topic("x", 1, -1, {0: [1]}),
        "assignment and factor": topic("x", -1, 1, {0: [1]}),
        "assignment and both": topic("x", 1, 1, {0: [1]}),
        "no partitions": topic("x", 0, 1),
        "negative partitions": topic("x", -2, 1),
        "factor 0": topic("x", 1, 0),
        "negative factor": topic("x", 1, -2),
        "factor above the brokers": topic("x", 1, 4),
        "factors differ": topic("x", assignment={0: [1], 1: [2, 3]}),
        "replica twice": topic("x", assignment={0: [1, 1]}),
        "partitions with a gap": topic("x", assignment={0: [1], 2: [1]}),
        "partitions from 1": topic("x", assignment={1: [1], 2: [1]}),
        "negative partition": topic("x", assignment={-1: [1]}),
        "unknown config": topic("x", 1, 1, configs=[("no.such.key", "1")]),
        "config not a number": topic("x", 1, 1, configs=[("retention.ms", "soon")]),
        "config out of range": topic("x", 1, 1, configs=[("segment.bytes", "1")]),
        "config not in its list": topic("x", 1, 1, configs=[("cleanup.policy", "keep")]),
        "config null": topic("x", 1, 1, configs=[("retention.ms", None)]),
        "config twice, the last wrong": topic(
            "x", 1, 1, configs=[("retention.ms", "1"), ("retention.ms", "soon")]
        ),
        "configs at odds": topic(
            "x", 1, 1, configs=[("min.compaction.lag.ms", "9"), ("max.compaction.lag.ms", "8")]
        ),
        "exists, and assignment with counts": topic("exists", 1, 1, {0: [1]}),
        "exists, and a wrong config": topic("exists", 1, 1, configs=[("no.such.key", "1")]),
        "bad name and no partitions": topic("a b", 0, 1),
        "bad name and factors differ": topic("a b", assignment={0: [1], 1: [2, 3]}),
        "factors differ and unknown config": topic(
            "x", assignment={0: [1], 1: [2, 3]}, configs=[("no.such.key", "1")]
        ),
        "no partitions and unknown config": topic("x", 0, 1, configs=[("no.such.key", "1")]),
    }


def creations_in_version_4() -> dict[str, dict[str, Any]]:
    checked = {
        "right": new("x", 1, 3),
        "counts by default": new("x"),
        "name of 249 letters": new("x" * 249, 1, 1),
        "unknown broker": new("x", assignment={0: [99]}),
        "negative broker": new("x", assignment={0: [-1]}),
        "no replicas": new("x", assignment={0: []}),
        "partition twice": new("x", assignment=[(0, [1]), (0, [2])]),
        "config twice": new("x", 1, 1, configs=[("retention.ms", "1"), ("retention.ms", "2")]),
        "name of an internal topic": new("__consumer_offsets", 1, 1),
    }
    return {name: topics(new) for name, new in checked.items()} | {
        "one good, one exists": topics(new("x", 1, 1), new("exists", 1, 1)),
        "exists": {**topic("exists", 1, 1), "validateOnly": False},
        "no time": {**topic("hurried", 1, 1), "timeoutMs": 0, "validateOnly": False},
    }


# CreatePartitions


def growth(
    topic: str, count: int, assignment: Sequence[Sequence[int]] | None = None
) -> dict[str, Any]:
    return growth_of((topic, count, assignment))


def growth_of(*topics: tuple[str, int, Sequence[Sequence[int]] | None]) -> dict[str, Any]:
    return {
        "topics": [
            {
                "name": name,
                "count": count,
                "assignments": assignment
                if assignment is None
                else [{"brokerIds": replicas} for replicas in assignment],
            }
            for name, count, assignment in topics
        ],
        "timeoutMs": TIMEOUT_MS,
        "validateOnly": False,
    }


def growths() -> dict[str, dict[str, Any]]:
    return {
        "no topics": growth_of(),
        "unknown topic": growth("absent", 2),
        "empty name": growth("", 2),
        "fewer": growth("exists", 1),
        "equal": growth("exists", 2),
        "zero": growth("exists", 0),
        "negative": growth("exists", -1),
        "too few assignments": growth("exists", 4, [[1, 2]]),
        "too many assignments": growth("exists", 3, [[1, 2], [2, 3]]),
        "empty assignments": growth("exists", 3, []),
        "unknown broker": growth("exists", 3, [[1, 99]]),
        "negative broker": growth("exists", 3, [[1, -1]]),
        "replica twice": growth("exists", 3, [[1, 1]]),
        "no replicas": growth("exists", 3, [[]]),
        "another factor": growth("exists", 3, [[1]]),
        "factors differ": growth("exists", 4, [[1, 2], [1]]),
        "twice in the request": growth_of(("exists", 3, None), ("exists", 4, None)),
        "only checked": {**growth("exists", 3), "validateOnly": True},
        "only checked, fewer": {**growth("exists", 1), "validateOnly": True},
        "unknown broker and too many": growth("exists", 3, [[1, 99], [2, 3]]),
    }


# DeleteTopics


def deletion(*names: str) -> dict[str, Any]:
    return {"topicNames": names, "timeoutMs": TIMEOUT_MS}


def deletions() -> dict[str, dict[str, Any]]:
    return {
        "no topics": deletion(),
        "unknown": deletion("absent"),
        "unknown twice": deletion("absent", "absent"),
        "empty name": deletion(""),
    }


def deletions_in_version_6() -> dict[str, dict[str, Any]]:
    none, unknown = "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAEg"

    def request(*topics: tuple[str | None, str]) -> dict[str, Any]:
        return {
            "topics": [{"name": name, "topicId": topic_id} for name, topic_id in topics],
            "timeoutMs": TIMEOUT_MS,
        }

    return {
        "unknown name": request(("absent", none)),
        "unknown id": request((None, unknown)),
        "name and id": request(("absent", unknown)),
        "neither name nor id": request((None, none)),
        "unknown name twice": request(("absent", none), ("absent", none)),
    }


# AlterPartitionReassignments and ListPartitionReassignments


def move(topic: str, *targets: tuple[int, Sequence[int] | None]) -> dict[str, Any]:
    return {"timeoutMs": TIMEOUT_MS, "topics": [moved(topic, *targets)]}


def moved(topic: str, *targets: tuple[int, Sequence[int] | None]) -> dict[str, Any]:
    partitions = [{"partitionIndex": index, "replicas": target} for index, target in targets]
    return {"name": topic, "partitions": partitions}


def reassignments() -> dict[str, dict[str, Any]]:
    return {
        "no topics": {"timeoutMs": TIMEOUT_MS, "topics": []},
        "no partitions": move("exists"),
        "no replicas": move("exists", (0, [])),
        "replica twice": move("exists", (0, [1, 1])),
        "negative broker": move("exists", (0, [1, -1])),
        "unknown broker": move("exists", (0, [1, 99])),
        "unknown topic": move("absent", (0, [1])),
        "unknown partition": move("exists", (9, [1])),
        "negative partition": move("exists", (-1, [1])),
        "unknown topic, no replicas": move("absent", (0, [])),
        "unknown topic, unknown broker": move("absent", (0, [99])),
        "cancelled, none under way": move("exists", (0, None)),
        "cancelled, unknown topic": move("absent", (0, None)),
        "the same replicas": move("exists", (0, [1, 2])),
        "one good, one unknown": move("exists", (0, [1, 2]), (9, [1])),
        "partition twice": move("exists", (0, [1, 2]), (0, [])),
        "topic twice": {
            "timeoutMs": TIMEOUT_MS,
            "topics": [moved("exists", (0, [])), moved("exists", (1, []))],
        },
    }


def listing(topics: Sequence[tuple[str, Sequence[int]]] | None) -> dict[str, Any]:
    asked = topics and [{"name": name, "partitionIndexes": indexes} for name, indexes in topics]
    return {"timeoutMs": TIMEOUT_MS, "topics": asked}


def listings() -> dict[str, dict[str, Any]]:
    return {
        "all": listing(None),
        "unknown topic": listing([("absent", [0])]),
        "not under way": listing([("exists", [0])]),
    }


# ElectLeaders


def election(kind: int, topics: Sequence[tuple[str, Sequence[int]]] | None) -> dict[str, Any]:
    asked = topics and [{"topic": name, "partitions": indexes} for name, indexes in topics]
    return {"electionType": kind, "topicPartitions": asked, "timeoutMs": TIMEOUT_MS}


def elections() -> dict[str, dict[str, Any]]:
    return {
        "preferred, not needed": election(PREFERRED, [("exists", [0, 1])]),
        "unclean, not needed": election(UNCLEAN, [("exists", [0])]),
        "unknown topic": election(PREFERRED, [("absent", [0])]),
        "unknown partition": election(PREFERRED, [("exists", [9])]),
        "unclean, unknown topic": election(UNCLEAN, [("absent", [0])]),
        "known and unknown": election(PREFERRED, [("exists", [0, 9])]),
        "no topics": election(PREFERRED, []),
        "no partitions": election(PREFERRED, [("exists", [])]),
        "all, none needed": election(PREFERRED, None),
        "unknown type": election(7, [("exists", [0])]),
        "no time": {**election(PREFERRED, [("exists", [0])]), "timeoutMs": 0},
    }


# Configurations and quotas


def alteration(
    kind: int, name: str, *changes: tuple[int, str, str | None], only_check: bool = False
) -> dict[str, Any]:
    configs = [
        {"name": key, "configOperation": operation, "value": text}
        for operation, key, text in changes
    ]
    resource = {"resourceType": kind, "resourceName": name, "configs": configs}
    return {"resources": [resource], "validateOnly": only_check}


def alterations() -> dict[str, dict[str, Any]]:
    right = (SET, "retention.ms", "1000")
    unknown_kind, unknown_operation = 99, 7
    resource = alteration(TOPIC, "exists", right)["resources"][0]
    return {
        "only checked": alteration(TOPIC, "exists", right, only_check=True),
        "unknown topic": alteration(TOPIC, "absent", right),
        "empty topic": alteration(TOPIC, "", right),
        "bad topic name": alteration(TOPIC, "a b", right),
        "no changes": alteration(TOPIC, "exists", only_check=True),
        "unknown key": alteration(TOPIC, "exists", (SET, "no.such.key", "1")),
        "deletes an unknown key": alteration(
            TOPIC, "exists", (DELETE, "no.such.key", None), only_check=True
        ),
        "not a number": alteration(TOPIC, "exists", (SET, "retention.ms", "soon")),
        "null": alteration(TOPIC, "exists", (SET, "retention.ms", None)),
        "key twice": alteration(TOPIC, "exists", right, right),
        "unknown operation": alteration(TOPIC, "exists", (unknown_operation, "retention.ms", "1")),
        "subtracts from no list": alteration(TOPIC, "exists", (SUBTRACT, "retention.ms", "1")),
        "unknown kind": alteration(unknown_kind, "exists", right),
        "resource twice": {"resources": [resource, resource], "validateOnly": False},
        "unknown broker": alteration(BROKER, "99", (SET, "log.retention.ms", "1000")),
        "broker not a number": alteration(BROKER, "one", (SET, "log.retention.ms", "1000")),
        "fixed at start": alteration(BROKER, "", (SET, "process.roles", "broker")),
        "of one broker only": alteration(BROKER, "", (SET, "listeners", "PLAINTEXT://:1")),
    }


def quota(
    entity: Mapping[str, str | None], key: str, rate: float, *, remove: bool = False
) -> dict[str, Any]:
    parts = [{"entityType": kind, "entityName": name} for kind, name in entity.items()]
    change = {"key": key, "value": rate, "remove": remove}
    return {"entries": [{"entity": parts, "ops": [change]}], "validateOnly": False}


def quotas() -> dict[str, dict[str, Any]]:
    return {
        "no entity": quota({}, "producer_byte_rate", 1.0),
        "unknown kind": quota({"group": "g"}, "producer_byte_rate", 1.0),
        "unknown key": quota({"user": "u"}, "no_such_rate", 1.0),
        "key of another kind": quota({"user": "u"}, "connection_creation_rate", 1.0),
        "fraction of a byte": quota({"user": "u"}, "producer_byte_rate", 1.5),
        "negative": quota({"user": "u"}, "producer_byte_rate", -1.0),
        "zero": quota({"user": "u"}, "producer_byte_rate", 0.0),
        "empty name": quota({"user": ""}, "producer_byte_rate", 1.0),
        "address and user": quota({"ip": "10.0.0.1", "user": "u"}, "producer_byte_rate", 1.0),
        "not an address": quota({"ip": "a b"}, "connection_creation_rate", 1.0),
        "removes what is not there": quota({"user": "u"}, "producer_byte_rate", 0.0, remove=True),
    }
