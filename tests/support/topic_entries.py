"""Entries of CreateTopics and CreatePartitions, with nothing said that a test does not say."""

from collections.abc import Mapping, Sequence

from odradek.controller.topic_requests import BY_DEFAULT, GrowthEntry, TopicEntry


def topic_entry(
    name: str = "t",
    *,
    partitions: int = BY_DEFAULT,
    factor: int = BY_DEFAULT,
    replicas: Mapping[int, Sequence[int]] | None = None,
    config: Mapping[str, str | None] | None = None,
) -> TopicEntry:
    return TopicEntry(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            TopicEntry.Assignment(partition_index=number, broker_ids=list(there))
            for number, there in (replicas or {}).items()
        ],
        configs=[TopicEntry.Config(name=key, value=value) for key, value in (config or {}).items()],
    )


def growth_entry(
    name: str = "t", *, count: int, replicas: Sequence[Sequence[int]] | None = None
) -> GrowthEntry:
    assignments = replicas and [GrowthEntry.Assignment(broker_ids=list(at)) for at in replicas]
    return GrowthEntry(name=name, count=count, assignments=assignments)
