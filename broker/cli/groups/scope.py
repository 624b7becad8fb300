"""Which partitions are meant: ``orders``, all of them, or ``orders:0,2``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.broker.cli.partitions import Place, described_topics

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

SYNTAX = "TOPIC[:N,N,...]"


@dataclass(frozen=True, slots=True)
class Scope:
    """No partitions means all."""

    topic: str
    partitions: tuple[int, ...]


def scope(written: str) -> Scope:
    """As the type of an argument."""
    topic, colon, after = written.partition(":")
    numbers = after.split(",") if colon else []
    if not topic or not all(number.isdecimal() for number in numbers):
        raise argparse.ArgumentTypeError(f"{written!r} is not TOPIC or TOPIC:0,1")
    return Scope(topic, tuple(map(int, numbers)))


def places(admin: AdminClient, scopes: Iterable[Scope], timeout_s: float) -> list[Place]:
    """Each once, in order.  Whether partitions that were written are there is not asked."""
    found = {Place(each.topic, number) for each in scopes for number in each.partitions}
    whole = {each.topic for each in scopes if not each.partitions}
    if whole:
        topics = described_topics(admin, whole, timeout_s)
        found |= {Place(topic.name, each.id) for topic in topics for each in topic.partitions}
    return sorted(found)
