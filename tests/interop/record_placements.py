"""Makes tests/vectors/placements.json anew: where Kafka 3.9 puts replicas.

.venv/bin/python -m tests.interop.record_placements
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

from tests.support.java_program import run_java
from tests.support.kafka_jars import KAFKA_3_9, kafka_jars
from tests.support.placements import Placement, PlacementCase, save_placements

PROGRAM = Path(__file__).parent / "java" / "Placements.java"
CASES = 150


def main() -> None:
    save_placements(placements(kafka_jars(KAFKA_3_9), cases(CASES, seed=1)))


def cases(count: int, *, seed: int) -> Iterator[PlacementCase]:
    random = Random(seed)
    for _ in range(count):
        brokers = sorted(random.sample(range(20), random.randint(1, 9)))
        rack_count, unknown = random.randint(1, 4), random.choice([0, 0, 0, 0.2, 1])
        yield PlacementCase(
            racks={
                broker: None if random.random() < unknown else f"r{random.randrange(rack_count)}"
                for broker in brokers
            },
            partitions=random.randint(0, 14),
            replication_factor=random.randint(0, min(5, len(brokers)) + (random.random() < 0.1)),
            start=random.randrange(len(brokers)),
            first_partition=random.choice([0, 0, 3, 10]),
        )


def placements(jars: Path, cases: Iterable[PlacementCase]) -> list[Placement]:
    asked = list(cases)
    answers = run_java(jars, PROGRAM, lines=map(_question, asked))
    return [
        Placement(case, json.loads(answer) if answer.startswith("[") else answer)
        for case, answer in zip(asked, answers, strict=True)
    ]


def _question(case: PlacementCase) -> str:
    brokers = (
        str(broker) if rack is None else f"{broker}={rack}" for broker, rack in case.racks.items()
    )
    counts = (case.partitions, case.replication_factor, case.start, case.first_partition)
    return " ".join([",".join(brokers), *map(str, counts)])


if __name__ == "__main__":
    main()
