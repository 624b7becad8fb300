"""Parses ``orders`` (all partitions of a topic) and ``orders:0,2``, and finds the partitions."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.partitions import TopicAndPartition, describe_topics

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

SYNTAX = "TOPIC[:N,N,...]"


@dataclass(frozen=True, slots=True)
class TopicScope:
    """Empty ``partitions`` means all partitions."""

    topic: str
    partitions: tuple[int, ...]


def parse_scope(argument: str) -> TopicScope:
    """Parse a command-line argument."""
    topic, colon, after = argument.partition(":")
    numbers = after.split(",") if colon else []
    if not topic or not all(number.isdecimal() for number in numbers):
        raise argparse.ArgumentTypeError(f"{argument!r} is not TOPIC or TOPIC:0,1")
    return TopicScope(topic, tuple(map(int, numbers)))


def resolve_scopes(
    admin: AdminClient, scopes: Iterable[TopicScope], timeout_s: float
) -> list[TopicAndPartition]:
    """Return each partition once, in order; raises CommandFailed if one does not exist."""
    scopes = list(scopes)
    descriptions = describe_topics(admin, {scope.topic for scope in scopes}, timeout_s)
    existing = {topic.name: [each.id for each in topic.partitions] for topic in descriptions}
    selected = {
        TopicAndPartition(scope.topic, number)
        for scope in scopes
        for number in scope.partitions or existing[scope.topic]
    }
    for topic_partition in sorted(selected):
        if topic_partition.partition not in existing[topic_partition.topic]:
            raise CommandFailed(f"{topic_partition}: there is no such partition")
    return sorted(selected)
