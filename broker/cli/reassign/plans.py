"""Reads and writes reassignment plans, in the format of kafka-reassign-partitions.

    {"version": 1, "partitions": [
        {"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}]}

``log_dirs`` may be missing; ``any`` leaves the choice to the broker.  The topics to generate a plan
for are

    {"version": 1, "topics": [{"topic": "orders"}]}

and the partitions of an election, for kafka-leader-election, are a plan without replicas.  The path
``-`` is standard input.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, NamedTuple

from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.partitions import TopicAndPartition

VERSION = 1
#: The limit of broker ids and partition numbers.
ID_MAX = 2**31 - 1
TOPIC_LENGTH_MAX = 249
#: The broker chooses the log directory.
ANY_LOG_DIR = "any"

#: The replicas of each partition; the first one is the preferred leader.
Plan = dict[TopicAndPartition, tuple[int, ...]]


class TopicPartitionReplica(NamedTuple):
    """A replica of a partition on a broker."""

    topic_partition: TopicAndPartition
    broker_id: int


#: The log directories of the replicas for which the plan names one.
LogDirs = dict[TopicPartitionReplica, str]


class ReassignmentPlan(NamedTuple):
    replicas: Plan
    log_dirs: LogDirs


def read_plan(path: str) -> ReassignmentPlan:
    plan: Plan = {}
    directories: LogDirs = {}
    for entry, partition in _entries(path):
        replicas = entry.get("replicas")
        if not _are_ids(replicas) or not replicas or len(set(replicas)) < len(replicas):
            raise CommandFailed(
                f"{path}: {partition}: replicas must be one or more distinct broker ids "
                f"from 0 to {ID_MAX}"
            )
        plan[partition] = tuple(replicas)
        log_dirs = entry.get("log_dirs", [ANY_LOG_DIR] * len(replicas))
        if not _are_names(log_dirs) or len(log_dirs) != len(replicas):
            raise CommandFailed(f"{path}: {partition}: log_dirs must have one entry per replica")
        for broker, directory in zip(replicas, log_dirs, strict=True):
            if directory != ANY_LOG_DIR:
                directories[TopicPartitionReplica(partition, broker)] = directory
    return ReassignmentPlan(plan, directories)


def read_partitions(path: str) -> list[TopicAndPartition]:
    """Read the partitions of a plan, or of a file without replicas."""
    return [partition for _, partition in _entries(path)]


def read_topics(path: str) -> list[str]:
    topics = _read_list(path, "topics")
    names = [each.get("topic") if isinstance(each, dict) else None for each in topics]
    if not all(isinstance(name, str) and name for name in names):
        raise CommandFailed(f'{path}: topics must be objects such as {{"topic": "orders"}}')
    topic_names = [*dict.fromkeys(map(str, names))]
    for name in topic_names:
        _check_topic(path, name)
    return topic_names


def format_plan(plan: Mapping[TopicAndPartition, tuple[int, ...]]) -> str:
    """Return the plan as one line of JSON, with the keys in the order of Kafka's tool."""
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(replicas),
            "log_dirs": [ANY_LOG_DIR] * len(replicas),
        }
        for partition, replicas in sorted(plan.items())
    ]
    return json.dumps({"version": VERSION, "partitions": partitions}, separators=(",", ":"))


def _entries(path: str) -> list[tuple[dict[str, Any], TopicAndPartition]]:
    """Raise CommandFailed for an invalid entry, or if a partition occurs twice."""
    entries: dict[TopicAndPartition, dict[str, Any]] = {}
    for entry in _read_list(path, "partitions"):
        partition = _parse_topic_partition(entry)
        if partition is None:
            raise CommandFailed(f"{path}: {shortened(entry)}: needs a topic and a partition")
        _check_topic(path, partition.topic)
        if partition in entries:
            raise CommandFailed(f"{path}: {partition}: duplicate partition")
        entries[partition] = entry
    return [(entry, partition) for partition, entry in entries.items()]


def _parse_topic_partition(entry: Any) -> TopicAndPartition | None:
    if not isinstance(entry, dict):
        return None
    topic, partition = entry.get("topic"), entry.get("partition")
    if not isinstance(topic, str) or not topic or not _are_ids([partition]):
        return None
    return TopicAndPartition(topic, int(partition or 0))


def _check_topic(path: str, name: str) -> None:
    """Check only the length; the cluster rejects an unknown topic."""
    if len(name) > TOPIC_LENGTH_MAX:
        raise CommandFailed(
            f"{path}: a topic name has at most {TOPIC_LENGTH_MAX} characters, not {len(name)}"
        )


def _are_ids(values: Any) -> bool:
    """Return whether the values are broker ids or partition numbers; a bool is neither."""
    return isinstance(values, list) and all(
        type(each) is int and 0 <= each <= ID_MAX for each in values
    )


def _are_names(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(each, str) and each for each in values)


def _read_list(path: str, name: str) -> list[Any]:
    content = _read_json(path)
    entries = content.get(name) if isinstance(content, dict) else None
    if not isinstance(entries, list) or not entries:
        raise CommandFailed(f"{path}: has no {name}")
    if content.get("version", VERSION) != VERSION:
        raise CommandFailed(f"{path}: version must be {VERSION}")
    return entries


def _read_json(path: str) -> Any:
    try:
        return json.loads(
            sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        )
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or a number too long
        raise CommandFailed(f"{path}: invalid JSON: {error}") from error
