"""Entries of CreateTopics and CreatePartitions, with nothing said that a test does not say."""

from collections.abc import Mapping, Sequence

from odradek.controller.topic_planning import BROKER_DEFAULT, CreatableTopic, CreatePartitionsTopic


def topic_entry(
    name: str = "t",
    *,
    partitions: int = BROKER_DEFAULT,
    factor: int = BROKER_DEFAULT,
    replicas: Mapping[int, Sequence[int]] | None = None,
    config: Mapping[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableTopic.Assignment(partition_index=number, broker_ids=list(there))
            for number, there in (replicas or {}).items()
        ],
        configs=[
            CreatableTopic.Config(name=key, value=value) for key, value in (config or {}).items()
        ],
    )


def growth_entry(
    name: str = "t", *, count: int, replicas: Sequence[Sequence[int]] | None = None
) -> CreatePartitionsTopic:
    assignments = replicas and [
        CreatePartitionsTopic.Assignment(broker_ids=list(at)) for at in replicas
    ]
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments)
