"""Where partitions might be, if they were placed anew on some brokers.

As a new topic's are (``controller/replica_placement.py``), so that leaders and followers are
spread evenly; every topic begins at a broker drawn by lot and keeps its number of replicas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.operated import Picture, by_topic
from odradek.broker.cli.partitions import Place
from odradek.broker.cli.reassign.plans import Plan


def proposed(
    picture: Picture, brokers: Sequence[int], *, with_racks: bool = True, random: Random
) -> Plan:
    """For all partitions in the picture; raises CommandFailed."""
    from odradek.controller.replica_placement import Start, placed_replicas
    from odradek.protocol.errors import KafkaError

    racks = _racks(picture, brokers, with_racks=with_racks)
    plan: Plan = {}
    for topic, numbers in by_topic(picture.partitions).items():
        first = picture.partitions[Place(topic, numbers[0])]
        try:
            placed = placed_replicas(
                racks,
                Start.drawn(random, racks),
                partitions=len(numbers),
                replication_factor=len(first.replicas),
            )
        except KafkaError as refusal:
            hint = (
                "; --disable-rack-aware looks at no racks"
                if with_racks and _has_racks(racks)
                else ""
            )
            raise CommandFailed(f"{topic}: {refusal.message}{hint}") from refusal
        plan |= {Place(topic, number): at for number, at in placed.items()}
    return plan


def _racks(
    picture: Picture, brokers: Sequence[int], *, with_racks: bool
) -> Mapping[int, str | None]:
    absent = [each for each in brokers if each not in picture.brokers]
    if absent:
        raise CommandFailed(f"broker {absent[0]}: there is no such broker")
    return {each: picture.brokers[each].rack if with_racks else None for each in brokers}


def _has_racks(racks: Mapping[int, str | None]) -> bool:
    return any(racks.values())
