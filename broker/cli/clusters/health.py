"""What is amiss with partitions: no leader, replicas out of sync, too few of them in sync.

A replica that is on its way to a broker is not missed there yet, as in Kafka's tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odradek.broker.cli.operated import Partition, Picture
from odradek.broker.cli.partitions import Place
from odradek.broker.cli.reassign.moves import UnderWay

OFFLINE, UNDER_REPLICATED, UNDER_MIN_ISR = "offline", "under-replicated", "under min ISR"


@dataclass(frozen=True, slots=True)
class Health:
    """Of each partition that is not as it should be, why."""

    amiss: Mapping[Place, list[str]]

    def count(self, trouble: str) -> int:
        return sum(trouble in troubles for troubles in self.amiss.values())


def health(
    picture: Picture,
    moving: Mapping[Place, UnderWay] = {},
    min_in_sync: Mapping[str, int] = {},
) -> Health:
    """``min_in_sync`` is that of topics."""
    found = {
        place: _troubles(each, moving.get(place), min_in_sync.get(place.topic, 0))
        for place, each in picture.partitions.items()
    }
    return Health({place: troubles for place, troubles in found.items() if troubles})


def _troubles(partition: Partition, moving: UnderWay | None, min_in_sync: int) -> list[str]:
    expected = set(partition.replicas if moving is None else moving.origin)
    troubles = []
    if partition.leader is None:
        troubles.append(OFFLINE)
    if expected.difference(partition.in_sync):
        troubles.append(UNDER_REPLICATED)
    # As leaders have it: no more can be wanted than there are replicas.
    if len(partition.in_sync) < min(min_in_sync, len(partition.replicas)):
        troubles.append(UNDER_MIN_ISR)
    return troubles
