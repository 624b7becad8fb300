"""Where Apache Kafka put the replicas of partitions.

One file, written by tests/interop/record_placements.py: a line for each case.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from odradek.controller.replica_placement import (
    IncompleteRackInfo,
    PlacementStart,
    assign_replicas_to_brokers,
)
from odradek.protocol.errors import InvalidPartitions, InvalidReplicationFactor, KafkaError

PLACEMENTS = Path(__file__).resolve().parents[1] / "vectors" / "placements.json"

REFUSALS = {
    "InvalidPartitionsException": InvalidPartitions,
    "InvalidReplicationFactorException": InvalidReplicationFactor,
    "AdminOperationException": IncompleteRackInfo,
}


@dataclass(frozen=True, slots=True)
class PlacementCase:
    racks: dict[int, str | None]
    partitions: int
    replication_factor: int
    start: int
    first_partition: int

    def ours(self) -> list[list[int]] | type[KafkaError]:
        start = PlacementStart(
            start_index=self.start, replica_shift=self.start, start_partition=self.first_partition
        )
        try:
            placed = assign_replicas_to_brokers(
                self.racks,
                start,
                partition_count=self.partitions,
                replication_factor=self.replication_factor,
            )
        except KafkaError as refusal:
            return type(refusal)
        assert list(placed) == [*range(self.first_partition, self.first_partition + len(placed))]
        return [list(replicas) for replicas in placed.values()]


@dataclass(frozen=True, slots=True)
class Placement:
    """``answer`` is the replicas of each partition, or the name of Kafka's refusal."""

    case: PlacementCase
    answer: list[list[int]] | str

    @property
    def expected(self) -> list[list[int]] | type[KafkaError]:
        return REFUSALS[self.answer] if isinstance(self.answer, str) else self.answer

    @classmethod
    def parse(cls, line: str) -> Self:
        fields = json.loads(line)
        answer = fields.pop("answer")
        fields["racks"] = {int(broker): rack for broker, rack in fields["racks"].items()}
        return cls(PlacementCase(**fields), answer)

    def line(self) -> str:
        return json.dumps({**asdict(self.case), "answer": self.answer})


def saved_placements(path: Path = PLACEMENTS) -> list[Placement]:
    return [Placement.parse(line.rstrip(",")) for line in path.read_text().splitlines()[1:-1]]


def save_placements(placements: list[Placement], path: Path = PLACEMENTS) -> None:
    lines = ",\n".join(placement.line() for placement in placements)
    path.write_text(f"[\n{lines}\n]\n")
