"""Which partitions are meant: ``orders``, all of them, or ``orders:0,2``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.broker.cli.failed import CommandFailed
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
    """Each once, in order; raises CommandFailed for what is not there."""
    scopes = list(scopes)
    described = described_topics(admin, {each.topic for each in scopes}, timeout_s)
    there = {topic.name: [each.id for each in topic.partitions] for topic in described}
    found = {
        Place(each.topic, number)
        for each in scopes
        for number in each.partitions or there[each.topic]
    }
    for place in sorted(found):
        if place.partition not in there[place.topic]:
            raise CommandFailed(f"{place}: there is no such partition")
    return sorted(found)
