"""Where partitions are to be, as kafka-reassign-partitions reads and writes it.

    {"version": 1, "partitions": [
        {"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}]}

``log_dirs`` may be missing; ``any`` is one that the broker chooses.  Topics to make a plan for are

    {"version": 1, "topics": [{"topic": "orders"}]}

and partitions to elect leaders of, for kafka-leader-election, are a plan without replicas.  ``-``
is standard input.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, NamedTuple

from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.partitions import Place

VERSION = 1
#: Of brokers and partitions.
NUMBER_MAX = 2**31 - 1
TOPIC_LENGTH_MAX = 249
#: A directory that the broker chooses.
ANY = "any"

#: The replicas of each partition; the first is preferred to lead.
Plan = dict[Place, tuple[int, ...]]


class At(NamedTuple):
    """A replica: a partition at a broker."""

    place: Place
    broker: int


#: Of replicas that are to be in one directory, and in no other.
Directories = dict[At, str]


class ReadPlan(NamedTuple):
    replicas: Plan
    directories: Directories


def read_plan(path: str) -> ReadPlan:
    plan: Plan = {}
    directories: Directories = {}
    for entry, place in _entries(path):
        replicas = entry.get("replicas")
        if not _are_numbers(replicas) or not replicas or len(set(replicas)) < len(replicas):
            raise CommandFailed(
                f"{path}: {place}: replicas must be ids of brokers, from 0 to {NUMBER_MAX}, "
                "each of them once"
            )
        plan[place] = tuple(replicas)
        wanted = entry.get("log_dirs", [ANY] * len(replicas))
        if not _are_names(wanted) or len(wanted) != len(replicas):
            raise CommandFailed(f"{path}: {place}: log_dirs must have one for each replica")
        for broker, directory in zip(replicas, wanted, strict=True):
            if directory != ANY:
                directories[At(place, broker)] = directory
    return ReadPlan(plan, directories)


def read_places(path: str) -> list[Place]:
    """Of a plan, or of a file that names partitions only."""
    return [place for _, place in _entries(path)]


def read_topics(path: str) -> list[str]:
    topics = _list(path, "topics")
    names = [each.get("topic") if isinstance(each, dict) else None for each in topics]
    if not all(isinstance(name, str) and name for name in names):
        raise CommandFailed(f'{path}: topics must be objects such as {{"topic": "orders"}}')
    found = [*dict.fromkeys(map(str, names))]
    for name in found:
        _check_topic(path, name)
    return found


def written(plan: Mapping[Place, tuple[int, ...]]) -> str:
    """A line, with names in the order in which Kafka's tool has them."""
    partitions = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "replicas": list(replicas),
            "log_dirs": [ANY] * len(replicas),
        }
        for place, replicas in sorted(plan.items())
    ]
    return json.dumps({"version": VERSION, "partitions": partitions}, separators=(",", ":"))


def _entries(path: str) -> list[tuple[dict[str, Any], Place]]:
    """Each partition once."""
    found: dict[Place, dict[str, Any]] = {}
    for entry in _list(path, "partitions"):
        place = _place(entry)
        if place is None:
            raise CommandFailed(f"{path}: {shortened(entry)} names no topic and partition")
        _check_topic(path, place.topic)
        if place in found:
            raise CommandFailed(f"{path}: {place} is there twice")
        found[place] = entry
    return [(entry, place) for place, entry in found.items()]


def _place(entry: Any) -> Place | None:
    if not isinstance(entry, dict):
        return None
    topic, partition = entry.get("topic"), entry.get("partition")
    if not isinstance(topic, str) or not topic or not _are_numbers([partition]):
        return None
    return Place(topic, int(partition or 0))


def _check_topic(path: str, name: str) -> None:
    """One that is only unknown is the cluster's to refuse."""
    if len(name) > TOPIC_LENGTH_MAX:
        raise CommandFailed(
            f"{path}: a topic's name has at most {TOPIC_LENGTH_MAX} characters, not {len(name)}"
        )


def _are_numbers(found: Any) -> bool:
    """Of brokers or of partitions; True is none."""
    return isinstance(found, list) and all(
        type(each) is int and 0 <= each <= NUMBER_MAX for each in found
    )


def _are_names(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(each, str) and each for each in found)


def _list(path: str, name: str) -> list[Any]:
    content = _json(path)
    found = content.get(name) if isinstance(content, dict) else None
    if not isinstance(found, list) or not found:
        raise CommandFailed(f"{path}: has no {name}")
    if content.get("version", VERSION) != VERSION:
        raise CommandFailed(f"{path}: version must be {VERSION}")
    return found


def _json(path: str) -> Any:
    try:
        return json.loads(
            sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        )
    except OSError as failure:
        raise CommandFailed(f"{path}: {failure.strerror}") from failure
    except (ValueError, RecursionError) as failure:  # no text, no JSON, or a number without end
        raise CommandFailed(f"{path}: is not JSON: {failure}") from failure
